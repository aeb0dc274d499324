/* Tests `bench collective`: the same sizes and bandwidths as in nccl-tests, and the detection of
 * wrong results. */
#include "bench/collective.h"
#include "comm/internal.h"
#include "comm/world.h"
#include "tests/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- a communicator of one rank whose results can be wrong --- */

enum fault { NONE, FLIPS_LAST, LEAVES_ALONE, SHIFTS };

struct broken {
    struct comm base;
    enum fault fault;
};

static enum status broken_start(struct comm *c, struct comm_slot *slot)
{
    struct broken *b = (struct broken *)c;
    const struct comm_op *op = &slot->op;
    size_t bytes = comm_recv_bytes(c, op);
    char *recv = op->recv;
    bool measured =
        op->type == DTYPE_F32 && bytes > 0; /* messages between ranks have other types */
    if (!measured || b->fault != LEAVES_ALONE)
        comm_copy_alone(c, op);
    if (measured && b->fault == FLIPS_LAST)
        recv[bytes - 2] ^= 1;
    if (measured && b->fault == SHIFTS)
        memmove(recv, recv + sizeof(float), bytes - sizeof(float));
    return STATUS_OK;
}

static enum status broken_wait(struct comm *c, struct comm_slot *slot)
{
    (void)c;
    slot->op.ended_ns = comm_now();
    return STATUS_OK;
}

static void broken_close(struct comm *c)
{
    (void)c;
}

static const struct comm_calls broken_calls = {
    .name = "broken", .start = broken_start, .wait = broken_wait, .close = broken_close};

static struct collective_config quick(enum comm_kind kind)
{
    struct collective_config c = collective_config_default();
    c.kind = kind;
    c.checks = 2;
    c.options.timing = (struct harness_config){.warmup = 1, .most = 2};
    return c;
}

static void measure_broken(enum comm_kind kind, enum fault fault, struct collective_row *row)
{
    static struct broken b;
    struct collective_buffers buffers;
    struct collective_config c = quick(kind);
    b = (struct broken){.base = {.calls = &broken_calls, .size = 1}, .fault = fault};
    assert_int_equal(collective_buffers_open(&b.base, &b.base, 4000, 1, &buffers), STATUS_OK);
    assert_int_equal(collective_measure(&c, &b.base, &buffers, 4000, row), STATUS_OK);
    collective_buffers_close(&buffers);
}

static void test_wrong_is_seen(void **state)
{
    static const enum comm_kind kinds[] = {COMM_ALLREDUCE,     COMM_REDUCE,   COMM_ALLGATHER,
                                           COMM_GATHER,        COMM_ALLTOALL, COMM_SENDRECV,
                                           COMM_REDUCE_SCATTER};
    struct collective_row row;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        measure_broken(kinds[i], NONE, &row);
        assert_true(row.place[COLLECTIVE_OUT].wrong == 0 && row.place[COLLECTIVE_IN].wrong == 0);
        measure_broken(kinds[i], FLIPS_LAST, &row); /* two checks with one wrong element each */
        assert_true(row.place[COLLECTIVE_OUT].wrong == 2 && row.place[COLLECTIVE_IN].wrong == 2);
        measure_broken(kinds[i], LEAVES_ALONE, &row);
        assert_int_equal(row.place[COLLECTIVE_OUT].wrong, 2 * row.count);
        measure_broken(kinds[i], SHIFTS, &row);
        assert_true(row.place[COLLECTIVE_OUT].wrong > row.count);
        assert_true(row.place[COLLECTIVE_IN].wrong > row.count);
    }
}

/* The whole table is printed before the command fails with exit code 4. */
static void test_wrong_fails(void **state)
{
    struct rank_info info = {.host = "node1", .pid = 1};
    struct world w = {.size = 1, .info = &info};
    for (enum fault fault = NONE; fault <= FLIPS_LAST; fault++) {
        static struct broken b;
        struct comm *comm = &b.base;
        struct collective_config c = quick(COMM_ALLREDUCE);
        char *text;
        size_t size;
        b = (struct broken){.base = {.calls = &broken_calls, .size = 1}, .fault = fault};
        c.first = c.last = 1024;
        c.options.out = open_memstream(&text, &size);
        const struct collective_ranks ranks = {.members = 1, .comm = &comm, .words = &comm};
        enum status st = collective_run(&c, &w, &ranks);
        fclose(c.options.out);
        assert_int_equal(st, fault == NONE ? STATUS_OK : STATUS_MISMATCH);
        assert_int_equal(status_exit_code(st), fault == NONE ? 0 : 4);
        assert_non_null(strstr(text, fault == NONE ? "values : 0 OK" : "values : 2 FAILED"));
        free(text);
    }
}

/* If a rank fails, the other ranks stop, and the failed rank's reason is reported. */
static void test_failed_rank(void **state)
{
    struct rank_info info = {.host = "node1", .pid = 1};
    struct world w = {.size = 1, .info = &info};
    struct comm *comm[3];
    struct collective_config c = quick(COMM_ALLREDUCE);
    c.options.out = fopen("/dev/null", "w");
    c.first = c.last = 1024;
    c.options.timing.most = 100000;
    assert_int_equal(comm_open_local(3, 20, comm), STATUS_OK);
    comm_fail(comm[1], STATUS_IO, "out of order");
    const struct collective_ranks ranks = {.members = 3, .comm = comm, .words = comm};
    assert_int_equal(collective_run(&c, &w, &ranks), STATUS_IO);
    assert_non_null(strstr(status_message(), "rank 1: out of order"));
    fclose(c.options.out);
}

/* --- ranks, the last of which arrives late --- */

struct late {
    struct comm base;
    struct comm *inner; /* carries out the operations */
    int64_t entered_ns; /* when this rank entered its first operation */
    int64_t timed_ns;   /* when this rank began its first operation on data of the measured type */
};

static enum status late_run(struct comm *c, const struct comm_op *op)
{
    struct late *l = (struct late *)c;
    struct comm_op copy = *op;
    copy.handle = 0;
    if (l->entered_ns == 0 && c->rank == c->size - 1)
        comm_sleep(100000000);
    l->entered_ns = l->entered_ns ? l->entered_ns : comm_now();
    if (l->timed_ns == 0 && op->kind == COMM_BROADCAST)
        l->timed_ns = comm_now();
    return comm_run(l->inner, &copy);
}

static void late_close(struct comm *c)
{
    comm_close(((struct late *)c)->inner);
}

/* No rank begins a timed operation before all ranks are ready for it, with or without warm-up. */
static void test_ranks_are_ready(void **state)
{
    static const struct comm_calls calls = {.name = "late", .run = late_run, .close = late_close};
    enum { RANKS = 3 };
    static struct late late[RANKS];
    struct rank_info info = {.host = "node1", .pid = 1};
    struct world w = {.size = 1, .info = &info};
    struct comm *inner[RANKS], *comm[RANKS];
    struct collective_config c = quick(COMM_BROADCAST);
    c.options.out = fopen("/dev/null", "w");
    c.first = c.last = 1024;
    c.options.timing = (struct harness_config){.most = 1};
    assert_int_equal(comm_open_local(RANKS, 20, inner), STATUS_OK);
    for (int i = 0; i < RANKS; i++) {
        late[i] = (struct late){{.calls = &calls, .rank = i, .size = RANKS}, .inner = inner[i]};
        comm[i] = &late[i].base;
    }
    const struct collective_ranks ranks = {.members = RANKS, .comm = comm, .words = comm};
    assert_int_equal(collective_run(&c, &w, &ranks), STATUS_OK);
    for (int i = 0; i < RANKS; i++)
        assert_true(late[i].timed_ns >= late[RANKS - 1].entered_ns);
    fclose(c.options.out);
}

/* The expected result depends on the rank and on the round. */
static void test_expectations(void **state)
{
    enum { N = 64, RANKS = 3 };
    float all[RANKS * N], sum[RANKS * N];
    struct collective_config c = quick(COMM_ALLGATHER);
    for (int rank = 0; rank < RANKS; rank++)
        collective_fill(DTYPE_F32, all + rank * N, N, rank, RANKS, 1);
    assert_int_equal(collective_wrong(&c, all, N, 1, RANKS, 1), 0);
    assert_true(collective_wrong(&c, all, N, 1, RANKS, 2) > RANKS * N / 2);
    memcpy(sum, all, N * sizeof *all); /* exchanges the data of ranks 0 and 2 */
    memcpy(all, all + 2 * N, N * sizeof *all);
    memcpy(all + 2 * N, sum, N * sizeof *all);
    assert_true(collective_wrong(&c, all, N, 1, RANKS, 1) > N);

    c.kind = COMM_REDUCE_SCATTER;
    for (int i = 0; i < RANKS * N; i++) {
        sum[i] = 0;
        for (int rank = 0; rank < RANKS; rank++)
            sum[i] += (float)collective_value(i, rank, RANKS, 1);
    }
    for (int rank = 0; rank < RANKS; rank++)
        assert_int_equal(collective_wrong(&c, sum + rank * N, N, rank, RANKS, 1), 0);
    assert_true(collective_wrong(&c, sum, N, 1, RANKS, 1) > 0);
    c.kind = COMM_REDUCE; /* in a reduce, only the root has a result */
    assert_int_equal(collective_wrong(&c, sum, N, 0, RANKS, 1), 0);
    sum[5] += 1;
    assert_int_equal(collective_wrong(&c, sum, N, 0, RANKS, 1), 1);
    assert_int_equal(collective_wrong(&c, sum, N, 1, RANKS, 1), 0);
}

/* Sums are whole numbers that bfloat16 represents exactly, in any order of addition. */
static void test_sums_are_exact(void **state)
{
    for (int ranks = 1; ranks <= COLLECTIVE_RANKS_MAX; ranks++) {
        for (int i = 0; i < 50; i++) {
            double sum = 0;
            for (int rank = 0; rank < ranks; rank++)
                sum += collective_value(i, rank, ranks, 3);
            assert_true(sum <= 256 && sum == floor(sum));
        }
    }
}

static void test_sizes(void **state)
{
    static const struct {
        enum comm_kind kind;
        enum dtype type;
        int64_t bytes, count; /* for three ranks; the size of a part is a multiple of 16 bytes */
    } cases[] = {
        {COMM_ALLREDUCE, DTYPE_F32, 1024, 256}, {COMM_BROADCAST, DTYPE_F16, 7, 3},
        {COMM_ALLGATHER, DTYPE_F32, 1024, 84},  {COMM_REDUCE_SCATTER, DTYPE_F64, 1024, 42},
        {COMM_REDUCE_SCATTER, DTYPE_U8, 47, 0}, {COMM_ALLTOALL, DTYPE_F32, 1024, 84},
        {COMM_SENDRECV, DTYPE_F32, 1024, 256},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(collective_count(cases[i].kind, cases[i].type, cases[i].bytes, 3),
                         cases[i].count);
}

static void test_bandwidth(void **state)
{
    static const struct {
        enum comm_kind kind;
        double factor; /* factor for four ranks */
    } cases[] = {{COMM_ALLREDUCE, 1.5},  {COMM_REDUCE_SCATTER, 0.75},
                 {COMM_ALLGATHER, 0.75}, {COMM_BROADCAST, 1},
                 {COMM_REDUCE, 1},       {COMM_ALLTOALL, 0.75},
                 {COMM_GATHER, 0.75},    {COMM_SCATTER, 0.75},
                 {COMM_SENDRECV, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct collective_time t = {.time = {.median = 0.5}};
        collective_bandwidth(cases[i].kind, 4, 4000000000, &t);
        assert_true(fabs(t.algbw - 8) < 1e-12 && fabs(t.busbw - 8 * cases[i].factor) < 1e-12);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wrong_is_seen), cmocka_unit_test(test_wrong_fails),
        cmocka_unit_test(test_failed_rank),   cmocka_unit_test(test_ranks_are_ready),
        cmocka_unit_test(test_expectations),  cmocka_unit_test(test_sums_are_exact),
        cmocka_unit_test(test_sizes),         cmocka_unit_test(test_bandwidth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
