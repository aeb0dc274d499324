/* Tests device communicators that copy data through host memory, with threads as ranks: results,
 * the order of operations, and failures. */
#include "async_device.h"
#include "exercise.h"
#include "ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { RANKS = 3 };

/* Runs `body` on `size` threads and waits for them. Each thread is a rank with a device. */
static void run_ranks(struct rank *rank, int size, double timeout_s, void (*body)(struct rank *))
{
    struct comm *host[RANKS], *c[RANKS];
    struct device *dev[RANKS];
    assert_int_equal(comm_open_local(size, timeout_s, host), STATUS_OK);
    for (int r = 0; r < size; r++)
        assert_int_equal(async_device_open(&dev[r]), STATUS_OK);
    assert_int_equal(comm_open_staged(size, host, dev, c), STATUS_OK);
    for (int r = 0; r < size; r++)
        rank[r] = (struct rank){.c = c[r], .host = host[r], .dev = dev[r], .body = body};
    ranks_run(rank, size);
    for (int r = 0; r < size; r++)
        comm_close(c[r]);
    for (int r = 0; r < size; r++) {
        comm_close(host[r]);
        device_close(dev[r]);
    }
}

/* --- values --- */

static void exercise(struct rank *r)
{
    /* data of the largest count is transferred in several pieces */
    int64_t largest = comm_size(r->c) == 2 ? 1310720 : 0;
    r->failures = exercise_kinds(r->c, largest) + exercise_same_bits(r->c, 1 << 12) +
                  exercise_factor(r->c) + exercise_under_way(r->c, 1);
}

static void test_values(void **state)
{
    (void)state;
    for (int size = 1; size <= RANKS; size++) {
        struct rank rank[RANKS];
        run_ranks(rank, size, 60, exercise);
        for (int r = 0; r < size; r++)
            assert_int_equal(rank[r].failures, 0);
    }
}

static void look_at_name(struct rank *r)
{
    r->failures = strcmp(comm_name(r->c), "local, staged through host memory") != 0 ||
                  comm_device(r->c) != r->dev || comm_device(r->host) != NULL;
}

static void test_name(void **state)
{
    (void)state;
    struct rank rank[RANKS];
    run_ranks(rank, 1, 60, look_at_name);
    assert_int_equal(rank[0].failures, 0);
}

/* Sums values in host memory while a sum in device memory is in progress. Every rank must execute
 * both sums in the same order. */
static void mix(struct rank *r)
{
    enum { N = 2000000 };
    const struct backend *b = r->dev->backend;
    void *mem;
    double values[2] = {1, comm_rank(r->c)};
    struct event *over;
    r->failures = b->alloc(r->dev, N * sizeof(float), &mem) != STATUS_OK ||
                  b->event_open(r->dev, &over) != STATUS_OK;
    if (r->failures)
        return;
    struct comm_op op = {COMM_ALLREDUCE, COMM_SUM,   DTYPE_F32,   .send = mem,
                         .recv = mem,    .count = N, .over = over};
    r->failures += comm_start(r->c, &op) != STATUS_OK;
    r->failures += comm_sum(r->c, values, 2) != STATUS_OK;
    r->failures += comm_wait(r->c, &op) != STATUS_OK;
    r->failures += values[0] != 2 || values[1] != 1;
    b->event_close(over);
}

static void test_host_memory_in_order(void **state)
{
    (void)state;
    struct rank rank[RANKS];
    run_ranks(rank, 2, 60, mix);
    for (int r = 0; r < 2; r++)
        assert_int_equal(rank[r].failures, 0);
}

/* --- ends --- */

static void wait_without_event(struct rank *r)
{
    struct stream *s;
    struct comm_op op = {COMM_BARRIER};
    rank_keep(r, r->dev->backend->stream_open(r->dev, &s));
    if (r->st != STATUS_OK || comm_start(r->c, &op) != STATUS_OK)
        return;
    rank_keep(r, comm_wait_on(r->c, &op, s));
    r->failures += comm_wait(r->c, &op) != STATUS_OK;
    r->dev->backend->stream_close(s);
}

static void test_stream_needs_an_event(void **state)
{
    (void)state;
    struct rank rank[RANKS];
    run_ranks(rank, 1, 60, wait_without_event);
    assert_int_equal(rank[0].failures, 0);
    assert_int_equal(rank[0].st, STATUS_INVALID);
    assert_string_equal(
        rank[0].message,
        "barrier: a stream can wait only for an operation whose event 'over' is set");
}

static void come_but_rank_1(struct rank *r)
{
    struct comm_op op = {COMM_BARRIER};
    rank_keep(r, comm_run(r->c, &op));
    if (comm_rank(r->c) == 1)
        return;
    rank_keep(r, comm_run(r->c, &op));
    if (comm_run(r->c, &op) == STATUS_OK || strcmp(r->message, status_message()) != 0)
        r->failures++; /* later operations fail in the same way */
}

static void test_absent_rank_is_named(void **state)
{
    (void)state;
    struct rank rank[RANKS];
    run_ranks(rank, 3, 0.2, come_but_rank_1);
    for (int r = 0; r < 3; r += 2) {
        assert_int_equal(rank[r].st, STATUS_LOST_RANK);
        assert_string_equal(rank[r].message,
                            "rank 1 did not reach operation 2 (barrier) within 0.2 s");
        assert_int_equal(rank[r].failures, 0);
    }
}

static void fail_on_rank_2(struct rank *r)
{
    struct comm_op op = {COMM_BARRIER};
    if (comm_rank(r->c) == 2)
        comm_fail(r->c, STATUS_DATA, "cannot read 'x'");
    else
        rank_keep(r, comm_run(r->c, &op));
}

static void test_failure_reaches_all(void **state)
{
    (void)state;
    struct rank rank[RANKS];
    run_ranks(rank, 3, 0, fail_on_rank_2);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(rank[r].st, STATUS_DATA);
        assert_string_equal(rank[r].message, "rank 2: cannot read 'x'");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_name),
        cmocka_unit_test(test_host_memory_in_order),
        cmocka_unit_test(test_stream_needs_an_event),
        cmocka_unit_test(test_absent_rank_is_named),
        cmocka_unit_test(test_failure_reaches_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
