/* Tests communicators of every transport: results, and how an operation ends if a rank fails, is
 * lost or starts another operation. test_nccl.c tests NCCL. */
#include "exercise.h"
#include "kernels/backend.h"
#include "ranks.h"
#include "tests/unit.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* --- values --- */

/* Data of the largest count is transferred in several pieces. */
static const struct values {
    const struct transport *transport;
    int size;
    int64_t largest, bytes;
} values[] = {
    {&local_transport, 1, 0, 64},
    {&local_transport, 2, 20000, 4096},
    {&local_transport, 3, 0, 4096},
    {&local_transport, 8, 20000, 512},
    {&tcp_transport, 1, 0, 64},
    {&gloo_transport, 1, 0, 64},
    {&gloo_transport, 2, 262147, 1 << 18},
    {&gloo_transport, 3, 65536, 1 << 18},
    {&staged_transport, 1, 0, 64},
    {&staged_transport, 2, 1310720, 4096},
    {&staged_transport, 3, 0, 4096},
};
static const struct values *now;

static void exercise(struct rank *r)
{
    r->failures = exercise_kinds(r->c, now->largest) + exercise_same_bits(r->c, now->bytes) +
                  exercise_factor(r->c) + exercise_under_way(r->c, 1) +
                  (strcmp(comm_name(r->c), now->transport->name) != 0) +
                  (comm_device(r->c) != r->dev);
}

static void test_values(void **state)
{
    for (now = values; now < values + COUNT(values); now++)
        ranks_succeed(now->transport, now->size, exercise);
}

/* In a gather and a scatter, this rank's part of the root's buffer may be the other buffer. */
static void use_parts_in_place(struct rank *r)
{
    int rank = comm_rank(r->c), x[3], *own = &x[rank];
    for (int turn = 0; turn < 6; turn++) {
        bool gathers = turn % 2 == 0, root = rank == turn / 2;
        struct comm_op op = {gathers ? COMM_GATHER : COMM_SCATTER, .type = DTYPE_I32,
                             .root = turn / 2, .count = 1};
        op.send = gathers ? own : x;
        op.recv = gathers ? x : own;
        for (int i = 0; i < 3; i++)
            x[i] = (gathers ? i == rank : root) ? 10 * turn + i : -1;
        rank_keep(r, comm_run(r->c, &op));
        for (int i = 0; i < 3; i++)
            r->failures += x[i] != (root || i == rank ? 10 * turn + i : -1);
    }
}

static void test_parts_in_place(void **state)
{
    ranks_succeed(&local_transport, 3, use_parts_in_place);
    ranks_succeed(&gloo_transport, 3, use_parts_in_place);
}

/* Ranks must add in the order of their numbers: in fp32, (1e8 + 1) - 1e8 is 0, but (1e8 - 1e8) + 1
 * is 1. */
static void add_in_order(struct rank *r)
{
    static const float part[] = {1e8f, 1, -1e8f};
    float x = part[comm_rank(r->c)];
    struct comm_op op = {COMM_ALLREDUCE, COMM_SUM, DTYPE_F32, .send = &x, .recv = &x, .count = 1};
    rank_keep(r, comm_run(r->c, &op));
    r->failures = x != 0;
}

static void test_rank_order(void **state)
{
    ranks_succeed(&local_transport, 3, add_in_order);
    ranks_succeed(&tcp_transport, 3, add_in_order);
}

/* The last operation over TCP, because all later ones fail. */
static struct comm_op refused;

static void control(struct rank *r)
{
    static char bytes[(4 << 20) + 1], all[3];
    int32_t most[2] = {comm_rank(r->c), -comm_rank(r->c)};
    struct comm_op whole = {COMM_BROADCAST, .type = DTYPE_U8, .root = 1, .recv = bytes};
    struct comm_op max = {COMM_ALLREDUCE, COMM_MAX,     DTYPE_I32,
                          .send = most,   .recv = most, .count = 2};
    whole.count = sizeof bytes - 1;
    memset(bytes, 'a' + most[0], sizeof bytes);
    rank_keep(r, comm_gather(r->c, bytes, all, 1));
    r->failures = memcmp(all, "abc", 3) != 0 || comm_run(r->c, &whole) != STATUS_OK ||
                  bytes[0] != 'b' || bytes[whole.count - 1] != 'b' ||
                  comm_run(r->c, &max) != STATUS_OK || most[0] != 2 || most[1] != 0;
    refused.send = all;
    refused.recv = bytes;
    r->failures += comm_run(r->c, &refused) != STATUS_UNSUPPORTED ||
                   !strstr(status_message(), "needs MPI, Gloo or NCCL");
}

static void test_tcp_carries_only_control(void **state)
{
    static const struct comm_op refusals[] = {
        {COMM_BROADCAST, .type = DTYPE_U8, .count = (4 << 20) + 1},
        {COMM_ALLREDUCE, COMM_SUM, DTYPE_F16, .count = 1},
        {COMM_SENDRECV, .type = DTYPE_U8, .count = 1},
    };
    for (int i = 0; i < COUNT(refusals); i++) {
        refused = refusals[i];
        ranks_succeed(&tcp_transport, 3, control);
    }
}

/* --- ends --- */

#define DATA "cannot read 'x'"
#define DIFFERENT(rank)                                                                            \
    "rank " rank                                                                                   \
    " started operation 1 (allreduce) of 7 elements where rank 0 started operation 1 "             \
    "(allreduce) of 6 elements"

/* What one rank does before all ranks have executed two operations. */
enum how { FAILS, DIFFERS, ENDS, IS_KILLED, IS_STOPPED, IS_BUSY };

static const struct end {
    const struct transport *transport;
    enum how how;
    int rank;
    double timeout_s;
    enum status st;
    const char *message; /* its beginning, on the other ranks; NULL: see is_of_the_two */
} ends[] = {
    {&local_transport, FAILS, 2, 0, STATUS_DATA, "rank 2: " DATA},
    {&staged_transport, FAILS, 2, 0, STATUS_DATA, "rank 2: " DATA},
    {&tcp_transport, FAILS, 2, 60, STATUS_DATA, "rank 2: " DATA},
    {&tcp_transport, FAILS, 0, 60, STATUS_DATA, "rank 0: " DATA},
    {&gloo_transport, FAILS, 2, 60, STATUS_DATA, "rank 2: " DATA},
    {&gloo_transport, FAILS, 0, 60, STATUS_DATA, "rank 0: " DATA},
    {&local_transport, DIFFERS, 1, 0, STATUS_INVALID, DIFFERENT("1")},
    {&staged_transport, DIFFERS, 1, 0, STATUS_INVALID, DIFFERENT("1")},
    {&tcp_transport, DIFFERS, 1, 60, STATUS_INVALID, DIFFERENT("1")},
    {&gloo_transport, DIFFERS, 1, 60, STATUS_INVALID, NULL},
    {&gloo_transport, DIFFERS, 2, 60, STATUS_INVALID, NULL},
    {&local_transport, ENDS, 1, 0.5, STATUS_LOST_RANK,
     "rank 1 did not reach operation 2 (barrier) within 0.5 s"},
    {&staged_transport, ENDS, 1, 0.5, STATUS_LOST_RANK,
     "rank 1 did not reach operation 2 (barrier) within 0.5 s"},
    {&tcp_transport, ENDS, 1, 60, STATUS_LOST_RANK,
     "rank 0: the connection to rank 1 failed in operation 2 (barrier): "},
    {&gloo_transport, ENDS, 1, 60, STATUS_LOST_RANK, "rank 1 ended before operation 2 (barrier)"},
    {&tcp_transport, IS_KILLED, 1, 60, STATUS_LOST_RANK,
     "rank 0: the connection to rank 1 failed in operation "},
    {&gloo_transport, IS_KILLED, 1, 60, STATUS_LOST_RANK, "rank 1 was lost in operation "},
    {&gloo_transport, IS_KILLED, 0, 60, STATUS_LOST_RANK, "rank 0 was lost in operation "},
    {&gloo_transport, IS_STOPPED, 1, 4, STATUS_LOST_RANK,
     "rank 1 did not reach operation 2 (barrier) within 4 s; it may have died"},
    {&gloo_transport, IS_STOPPED, 0, 2, STATUS_LOST_RANK,
     "rank 0 did not reach operation 2 (barrier) within 2 s; it may have died or be stuck"},
    {&gloo_transport, IS_BUSY, 2, 4, STATUS_LOST_RANK,
     "rank 2 did not reach operation 2 (barrier) within 4 s; the process is alive"},
};
static const struct end *expected;

/* What the rank `expected->rank` does after the first operation. */
static void be_lost(struct rank *r)
{
    r->lost = expected->how != ENDS;
    if (expected->how == IS_KILLED)
        raise(SIGKILL);
    if (expected->how == IS_STOPPED)
        raise(SIGSTOP);
    while (r->lost)
        pause();
}

static void run_to_the_end(struct rank *r)
{
    bool mine = comm_rank(r->c) == expected->rank;
    float x[7] = {0};
    struct comm_op op = {COMM_BARRIER}, other = {COMM_ALLREDUCE, COMM_SUM, DTYPE_F32};
    other.send = other.recv = x;
    other.count = mine ? 7 : 6;
    other.on_host = true;
    if (expected->how == FAILS && mine)
        comm_fail(r->c, STATUS_DATA, DATA);
    if (expected->how == DIFFERS && comm_rank(r->c) == expected->rank - 1)
        usleep(200000); /* the other ranks find the difference first */
    /* If the first barrier fails, a rank was killed before this rank knew that all ranks had
     * joined. */
    enum status st = comm_run(r->c, expected->how == DIFFERS ? &other : &op);
    if (expected->how >= ENDS && mine) {
        be_lost(r);
        return;
    }
    if (st == STATUS_OK)
        st = comm_run(r->c, &op);
    rank_keep(r, st);
    if (comm_run(r->c, &op) == STATUS_OK || strcmp(r->message, status_message()) != 0)
        r->failures++; /* later operations fail in the same way */
}

/* Removes the host and the process of a rank from a message. */
static void drop_process(char *message)
{
    char *from = strstr(message, " (host "), *to = from ? strchr(from, ')') : NULL;
    if (to)
        memmove(from, to + 1, strlen(to));
}

/* Over Gloo the two ranks that first exchange messages of different operations find it, one of the
 * other. One of them must be `rank`, because the others agree. */
static bool is_of_the_two(const char *message, int rank)
{
    int by, of, end = 0;
    sscanf(message, "rank %d: rank %d started another operation than operation 1 (allreduce):%n",
           &by, &of, &end);
    return end > 0 && by != of && (by == rank || of == rank);
}

static void test_ends(void **state)
{
    for (expected = ends; expected < ends + COUNT(ends); expected++) {
        struct rank rank[RANKS_MAX];
        if (transport_is_missing(expected->transport))
            continue;
        ranks_run(rank, expected->transport, 3, expected->timeout_s, run_to_the_end);
        for (int i = 0; i < 3; i++) {
            drop_process(rank[i].message);
            bool message = expected->message ? strncmp(rank[i].message, expected->message,
                                                       strlen(expected->message)) == 0
                                             : is_of_the_two(rank[i].message, expected->rank) &&
                                                   strcmp(rank[i].message, rank[0].message) == 0;
            bool lost = expected->how >= ENDS && i == expected->rank;
            if (!lost && (rank[i].st != expected->st || rank[i].failures != 0 || !message))
                fail_msg("%s, end %d, rank %d: status %d, %d failures: %s",
                         expected->transport->name, (int)(expected - ends), i, (int)rank[i].st,
                         rank[i].failures, rank[i].message);
        }
    }
}

/* --- device communicators --- */

/* Sums values in host memory while a sum in device memory is in progress. Every rank must execute
 * both sums in the same order. */
static void mix(struct rank *r)
{
    enum { N = 2000000 };
    const struct backend *b = r->dev->backend;
    void *mem;
    double sums[2] = {1, comm_rank(r->c)};
    struct event *over;
    r->failures = b->alloc(r->dev, N * sizeof(float), &mem) != STATUS_OK ||
                  b->event_open(r->dev, &over) != STATUS_OK;
    if (r->failures)
        return;
    struct comm_op op = {COMM_ALLREDUCE, COMM_SUM,   DTYPE_F32,   .send = mem,
                         .recv = mem,    .count = N, .over = over};
    r->failures += comm_start(r->c, &op) != STATUS_OK;
    r->failures += comm_sum(r->c, sums, 2) != STATUS_OK;
    r->failures += comm_wait(r->c, &op) != STATUS_OK;
    r->failures += sums[0] != 2 || sums[1] != 1;
    b->event_close(over);
}

static void test_host_memory_in_order(void **state)
{
    ranks_succeed(&staged_transport, 2, mix);
}

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
    struct rank rank[RANKS_MAX];
    ranks_run(rank, &staged_transport, 1, 60, wait_without_event);
    assert_int_equal(rank[0].failures, 0);
    assert_int_equal(rank[0].st, STATUS_INVALID);
    assert_non_null(strstr(rank[0].message, "whose event 'over' is set"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_parts_in_place),
        cmocka_unit_test(test_rank_order),
        cmocka_unit_test(test_tcp_carries_only_control),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_host_memory_in_order),
        cmocka_unit_test(test_stream_needs_an_event),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
