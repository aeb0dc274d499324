/* Tests communicators whose ranks are threads: results, and the failure if a rank does not join an
 * operation. */
#include "exercise.h"
#include "ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { RANKS = 8 };

/* Runs `body` on `size` threads, one for each rank, and waits for them. */
static void run_ranks(struct rank *rank, int size, double timeout_s, void (*body)(struct rank *))
{
    struct comm *c[RANKS];
    assert_int_equal(comm_open_local(size, timeout_s, c), STATUS_OK);
    for (int r = 0; r < size; r++)
        rank[r] = (struct rank){.c = c[r], .body = body};
    ranks_run(rank, size);
    for (int r = 0; r < size; r++)
        comm_close(c[r]);
}

/* Executes an operation and stores its result. */
static void keep(struct rank *r, struct comm_op op)
{
    rank_keep(r, comm_run(r->c, &op));
}

/* --- values --- */

static void exercise(struct rank *r)
{
    r->failures = exercise_kinds(r->c, 20000) + exercise_same_bits(r->c, 1 << 12) +
                  exercise_under_way(r->c, 1);
}

static void check_values(int size)
{
    struct rank rank[RANKS];
    run_ranks(rank, size, 60, exercise);
    for (int r = 0; r < size; r++)
        assert_int_equal(rank[r].failures, 0);
}

static void test_values(void **state)
{
    (void)state;
    static const int sizes[] = {1, 2, 3, RANKS};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        check_values(sizes[i]);
}

/* Ranks must add in the order of their numbers: in fp32, (1e8 + 1) - 1e8 is 0, but (1e8 - 1e8) + 1
 * is 1. */
static void add_in_order(struct rank *r)
{
    static const float part[] = {1e8f, 1, -1e8f};
    float x = part[comm_rank(r->c)];
    keep(r,
         (struct comm_op){COMM_ALLREDUCE, COMM_SUM, DTYPE_F32, .send = &x, .recv = &x, .count = 1});
    r->failures = x != 0;
}

static void test_rank_order(void **state)
{
    (void)state;
    struct rank rank[RANKS];
    run_ranks(rank, 3, 60, add_in_order);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(rank[r].st, STATUS_OK);
        assert_int_equal(rank[r].failures, 0);
    }
}

/* --- ends --- */

static void come_but_rank_1(struct rank *r)
{
    keep(r, (struct comm_op){COMM_BARRIER});
    if (comm_rank(r->c) != 1)
        keep(r, (struct comm_op){COMM_BARRIER});
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
    }
}

static void fail_on_rank_2(struct rank *r)
{
    if (comm_rank(r->c) == 2)
        comm_fail(r->c, STATUS_DATA, "cannot read 'x'");
    else
        keep(r, (struct comm_op){COMM_BARRIER});
}

static void test_failure_reaches_all(void **state)
{
    (void)state;
    struct rank rank[RANKS];
    run_ranks(rank, 4, 0, fail_on_rank_2);
    for (int r = 0; r < 4; r++)
        if (r != 2) {
            assert_int_equal(rank[r].st, STATUS_DATA);
            assert_string_equal(rank[r].message, "rank 2: cannot read 'x'");
        }
}

static void differ_on_rank_1(struct rank *r)
{
    float x[2] = {0};
    keep(r, (struct comm_op){COMM_ALLREDUCE, COMM_SUM, DTYPE_F32, .send = x, .recv = x,
                             .count = comm_rank(r->c) == 1 ? 2 : 1});
}

static void test_disagreement_is_refused(void **state)
{
    (void)state;
    struct rank rank[RANKS];
    run_ranks(rank, 3, 0, differ_on_rank_1);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(rank[r].st, STATUS_INVALID);
        assert_non_null(strstr(rank[r].message, "of 2 elements where rank 0 started operation 1"));
    }
}

static void test_size(void **state)
{
    (void)state;
    struct comm *c[1];
    assert_int_equal(comm_open_local(0, 0, c), STATUS_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_rank_order),
        cmocka_unit_test(test_absent_rank_is_named),
        cmocka_unit_test(test_failure_reaches_all),
        cmocka_unit_test(test_disagreement_is_refused),
        cmocka_unit_test(test_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
