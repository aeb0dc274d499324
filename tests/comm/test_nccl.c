/* Tests the communicator that transfers data between GPUs, with a fake NCCL. Also tests the
 * communicator's watchdog, a thread that ends a hanging operation with a message of one line. */
#include "exercise.h"
#include "nccl_fake.h"
#include "ranks.h"
#include "tests/kernels/stream_backend.h"
#include "tests/unit.h"

#include <stdio.h>
#include <string.h>

static struct nccl_port *port;
static bool absent; /* rank 1 receives the invitation to join, and ignores it */

static enum status open_nccl(struct job *job, int first)
{
    struct comm *between = job->between[first / job->each];
    const struct comm_nccl_config config = {port, between, job->timeout_s};
    if (absent && first == 1) {
        unsigned char invitation[4 + NCCL_PORT_ID_BYTES];
        struct comm_op op = {COMM_BROADCAST, .type = DTYPE_U8, .recv = invitation,
                             .count = sizeof invitation};
        TRY(comm_run(between, &op));
        return status_fail(STATUS_LOST_RANK, "absent");
    }
    TRY(job_open_devices(job, first));
    return comm_open_nccl(&config, job->each, &job->dev[first], &job->c[first]);
}

static const struct transport one_gpu = {"NCCL 2.28.9", false, 1, open_nccl},
                              two_gpus = {"NCCL 2.28.9", false, 2, open_nccl};

static int begin(void **state)
{
    absent = false;
    return nccl_fake_open(&port) != STATUS_OK;
}

static int end(void **state)
{
    comm_nccl_drop(port);
    return 0;
}

/* --- values --- */

static void exercise(struct rank *r)
{
    r->failures = exercise_kinds(r->c, 20000) + exercise_same_bits(r->c, 4096) +
                  exercise_factor(r->c) + exercise_under_way(r->c, 1) +
                  (strcmp(comm_name(r->c), one_gpu.name) != 0);
}

static void test_values(void **state)
{
    ranks_succeed(&one_gpu, 1, exercise);
    ranks_succeed(&one_gpu, 3, exercise);
    ranks_succeed(&two_gpus, 4, exercise);
}

/* Starts more operations than a communicator can have on its stream at a time. */
static void run_many(struct rank *r)
{
    enum { MANY = 600, N = 100 };
    static struct comm_op op[2][MANY];
    struct comm_op *own = op[comm_rank(r->c)];
    void *mem;
    r->failures += r->dev->backend->alloc(r->dev, N * sizeof(float), &mem) != STATUS_OK;
    r->failures += comm_reuse(r->c, mem, N * sizeof(float)) != STATUS_OK;
    for (int i = 0; i < MANY; i++) {
        own[i] = (struct comm_op){COMM_ALLREDUCE, COMM_MAX,    DTYPE_F32,
                                  .send = mem,    .recv = mem, .count = N};
        r->failures += comm_start(r->c, &own[i]) != STATUS_OK;
    }
    for (int i = MANY - 1; i >= 0; i--)
        r->failures += comm_wait(r->c, &own[i]) != STATUS_OK;
}

static void test_many_started(void **state)
{
    ranks_succeed(&one_gpu, 2, run_many);
}

/* --- ends --- */

/* Repeats a step until it fails. The step orders work on several streams by events, and then waits
 * for a stream. If an operation fails, this wait must return. */
static void sum_endlessly(struct rank *r)
{
    enum { N = 1000, TURNS = 1000 };
    const struct backend *b = r->dev->backend;
    void *mem;
    struct stream *s;
    struct event *ready, *over;
    enum status st = b->alloc(r->dev, N * sizeof(float), &mem);
    if (st != STATUS_OK || b->stream_open(r->dev, &s) != STATUS_OK ||
        b->event_open(r->dev, &ready) != STATUS_OK || b->event_open(r->dev, &over) != STATUS_OK)
        return;
    for (int i = 0; i < TURNS && st == STATUS_OK; i++) {
        struct comm_op op = {COMM_ALLREDUCE, COMM_SUM,   DTYPE_F32,      .send = mem,
                             .recv = mem,    .count = N, .after = ready, .over = over};
        st = b->event_record(ready, s);
        if (st == STATUS_OK)
            st = comm_start(r->c, &op);
        if (st == STATUS_OK)
            st = comm_wait_on(r->c, &op, s);
        if (st == STATUS_OK)
            st = b->stream_sync(s);
    }
    rank_keep(r, st);
    struct comm_op more = {COMM_BARRIER}; /* later operations fail in the same way */
    r->failures += comm_run(r->c, &more) == STATUS_OK || strcmp(r->message, status_message()) != 0;
    comm_close(r->c); /* its stream may still wait for the events */
    r->c = NULL;
    b->stream_close(s);
    b->event_close(ready);
    b->event_close(over);
}

static void fail_on_rank_0(struct rank *r)
{
    struct comm_op op = {COMM_BARRIER};
    if (comm_rank(r->c) == 0)
        comm_fail(r->c, STATUS_DATA, "cannot read 'x'");
    rank_keep(r, comm_run(r->c, &op));
}

static void use_host_memory(struct rank *r)
{
    double x = 1;
    rank_keep(r, comm_sum(r->c, &x, 1));
}

/* Runs a job of two ranks that ends with `st` and `first` on rank 0, and with `second` (NULL: not
 * checked) on rank 1. */
static void ends(struct nccl_fake_fault fault, void (*body)(struct rank *r), enum status st,
                 const char *first, const char *second)
{
    struct rank rank[RANKS_MAX];
    nccl_fake_fail(&fault);
    ranks_run(rank, &one_gpu, 2, 0.5, body);
    assert_string_equal(rank[0].message, first);
    assert_int_equal(rank[0].st, st);
    assert_int_equal(rank[0].failures, 0);
    if (second)
        assert_string_equal(rank[1].message, second);
}

#define STUCK                                                                                      \
    " did not complete within 0.5 s: another rank did not reach it, or the network is stuck"

static void test_ends(void **state)
{
    static const struct nccl_fake_fault sound = {NCCL_FAKE_SOUND}, no_id = {NCCL_FAKE_NO_ID},
                                        hangs = {NCCL_FAKE_HANGS, 1, 3},
                                        breaks = {NCCL_FAKE_BREAKS, 0, 2},
                                        refuses = {NCCL_FAKE_REFUSES, 0, 2};
    ends(hangs, sum_endlessly, STATUS_LIBRARY, "rank 0: operation 3 (allreduce)" STUCK,
         "rank 1: operation 3 (allreduce)" STUCK);
    ends(breaks, sum_endlessly, STATUS_LIBRARY,
         "rank 0: operation 2 (allreduce): NCCL: remote process exited or there was a network "
         "error: lost rank 1",
         NULL);
    ends(refuses, sum_endlessly, STATUS_LIBRARY,
         "rank 0: operation 2 (allreduce): ncclAllReduce: invalid usage", NULL);
    ends(sound, fail_on_rank_0, STATUS_DATA, "rank 0: cannot read 'x'",
         "rank 1: operation 1 (barrier)" STUCK);
    ends(sound, use_host_memory, STATUS_INVALID,
         "allreduce: NCCL moves device memory, not host memory", NULL);
    ends(no_id, sum_endlessly, STATUS_LIBRARY, "ncclGetUniqueId: unhandled system error",
         "rank 0 could not create a group of GPUs");
    absent = true;
    ends(sound, sum_endlessly, STATUS_LIBRARY,
         "rank 0: the GPUs of 2 ranks could not be connected within 0.5 s", NULL);
}

/* --- the library --- */

static void test_library_missing(void **state)
{
    struct nccl_library lib;
    assert_int_equal(nccl_library_load("libnccl-of-nobody.so.2", &lib), STATUS_UNSUPPORTED);
    assert_non_null(strstr(status_message(), "NCCL cannot be loaded (libnccl-of-nobody.so.2: "));
    assert_int_equal(nccl_library_load("libm.so.6", &lib), STATUS_UNSUPPORTED);
    assert_non_null(strstr(status_message(), "it is not NCCL 2.14 or later"));
}

/* If the NCCL library is installed, it must load. On a machine without a GPU, opening a
 * communicator must then fail with NCCL's message. On a machine with a GPU, opening may succeed. */
static void test_real_library(void **state)
{
    struct nccl_library lib;
    struct nccl_port *real;
    struct nccl_link *link;
    struct device *dev;
    unsigned char id[NCCL_PORT_ID_BYTES];
    if (nccl_library_load("libnccl.so.2", &lib) != STATUS_OK) {
        printf("skipped: %s\n", status_message());
        skip();
    }
    assert_int_equal(stream_device_open(&dev), STATUS_OK);
    assert_int_equal(nccl_port_make(&lib, nccl_fake_streams(), &real), STATUS_OK);
    assert_int_equal(real->id(real, id), STATUS_OK);
    enum status st = real->open(real, 1, &dev, 0, 1, id, &link);
    if (st == STATUS_OK) {
        real->abort(link);
        real->close(link);
    } else {
        const char *why = strstr(status_message(), "ncclCommInitRankConfig: ");
        assert_int_equal(st, STATUS_LIBRARY);
        assert_true(why == status_message() && strlen(why) > 34);
    }
    comm_nccl_drop(real);
    device_close(dev);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_values, begin, end),
        cmocka_unit_test_setup_teardown(test_many_started, begin, end),
        cmocka_unit_test_setup_teardown(test_ends, begin, end),
        cmocka_unit_test(test_library_missing),
        cmocka_unit_test(test_real_library),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
