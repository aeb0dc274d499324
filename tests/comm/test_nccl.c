/* Tests the communicator that transfers data between GPUs, with a fake NCCL. Also tests the
 * communicator's watchdog, a thread that ends a hanging operation with a message of one line. */
#include "async_device.h"
#include "exercise.h"
#include "nccl_fake.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { PROCESSES = 3, GPUS = 2 };

static const struct nccl_fake_plan all_well = {
    .hang_rank = -1, .broken_rank = -1, .refused_rank = -1};

/* A thread that acts as a process of a job, and its result. */
struct process {
    struct comm *host;
    const struct nccl_port *port;
    struct device *dev[GPUS];
    int gpus;
    double timeout_s;
    struct comm *c[GPUS];
    void (*body)(struct process *p);
    int failures;
    enum status st;
    char message[512];
    pthread_t thread;
};

static void *run_process(void *arg)
{
    struct process *p = arg;
    p->body(p);
    return NULL;
}

/* Executes `body` as `n` processes with `gpus` GPUs each. */
static void run_processes(struct process *process, int n, int gpus, double timeout_s,
                          void (*body)(struct process *p))
{
    struct comm *host[PROCESSES];
    struct nccl_port *port;
    assert_int_equal(nccl_fake_open(&port), STATUS_OK);
    assert_int_equal(comm_open_local(n, 60, host), STATUS_OK);
    for (int i = 0; i < n; i++) {
        struct process *p = &process[i];
        *p = (struct process){
            .host = host[i], .port = port, .gpus = gpus, .timeout_s = timeout_s, .body = body};
        for (int k = 0; k < gpus; k++)
            assert_int_equal(async_device_open(&p->dev[k]), STATUS_OK);
        assert_int_equal(pthread_create(&p->thread, NULL, run_process, p), 0);
    }
    for (int i = 0; i < n; i++)
        pthread_join(process[i].thread, NULL);
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < gpus; k++)
            device_close(process[i].dev[k]);
        comm_close(host[i]);
    }
    port->drop(port);
}

static bool open_all(struct process *p)
{
    const struct comm_nccl_config config = {p->port, p->host, p->timeout_s};
    p->st = comm_open_nccl(&config, p->gpus, p->dev, p->c);
    if (p->st != STATUS_OK)
        snprintf(p->message, sizeof p->message, "%s", status_message());
    return p->st == STATUS_OK;
}

static void close_all(struct process *p)
{
    for (int k = 0; k < p->gpus; k++)
        comm_close(p->c[k]);
}

/* --- values --- */

struct gpu {
    struct comm *c;
    int failures;
    pthread_t thread;
};

static void *exercise_gpu(void *arg)
{
    struct gpu *g = arg;
    g->failures = exercise_kinds(g->c, 20000) + exercise_same_bits(g->c, 1 << 12) +
                  exercise_factor(g->c) + exercise_under_way(g->c, 1);
    return NULL;
}

/* Tests every operation, with one thread for each GPU of the process. */
static void exercise(struct process *p)
{
    struct gpu gpu[GPUS];
    if (!open_all(p)) {
        printf("FAILED: %s\n", p->message);
        p->failures = 1;
        return;
    }
    for (int k = 0; k < p->gpus; k++) {
        gpu[k] = (struct gpu){.c = p->c[k]};
        p->failures += pthread_create(&gpu[k].thread, NULL, exercise_gpu, &gpu[k]) != 0;
    }
    for (int k = 0; k < p->gpus; k++) {
        pthread_join(gpu[k].thread, NULL);
        p->failures += gpu[k].failures + (strcmp(comm_name(p->c[k]), "NCCL 2.28.9") != 0);
    }
    close_all(p);
}

static void values_are_right(int processes, int gpus)
{
    struct process process[PROCESSES];
    nccl_fake_plan(&all_well);
    run_processes(process, processes, gpus, 60, exercise);
    for (int i = 0; i < processes; i++)
        assert_int_equal(process[i].failures, 0);
}

static void test_values(void **state)
{
    (void)state;
    values_are_right(1, 1);
    values_are_right(3, 1);
    values_are_right(2, 2);
}

/* Starts more operations than a communicator can have on its stream at a time. */
static void run_many(struct process *p)
{
    enum { MANY = 600, N = 100 };
    static struct comm_op op[PROCESSES][MANY];
    struct comm_op *own = op[comm_rank(p->host)];
    void *mem;
    if (!open_all(p))
        return;
    p->failures += p->dev[0]->backend->alloc(p->dev[0], N * sizeof(float), &mem) != STATUS_OK;
    p->failures += comm_reuse(p->c[0], mem, N * sizeof(float)) != STATUS_OK;
    for (int i = 0; i < MANY; i++) {
        own[i] = (struct comm_op){COMM_ALLREDUCE, COMM_MAX,    DTYPE_F32,
                                  .send = mem,    .recv = mem, .count = N};
        p->failures += comm_start(p->c[0], &own[i]) != STATUS_OK;
    }
    for (int i = MANY - 1; i >= 0; i--)
        p->failures += comm_wait(p->c[0], &own[i]) != STATUS_OK;
    close_all(p);
}

static void test_many_started(void **state)
{
    (void)state;
    struct process process[PROCESSES];
    nccl_fake_plan(&all_well);
    run_processes(process, 2, 1, 60, run_many);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(process[i].st, STATUS_OK);
        assert_int_equal(process[i].failures, 0);
    }
}

/* --- ends --- */

/* Repeats a step until it fails. The step orders work on several streams by events, and then waits
 * for a stream. If an operation fails, this wait must return. */
static void sum_endlessly(struct process *p)
{
    enum { N = 1000, TURNS = 1000 };
    void *mem;
    struct stream *s;
    struct event *ready, *over;
    if (!open_all(p))
        return;
    const struct backend *b = p->dev[0]->backend;
    if (b->alloc(p->dev[0], N * sizeof(float), &mem) != STATUS_OK ||
        b->stream_open(p->dev[0], &s) != STATUS_OK ||
        b->event_open(p->dev[0], &ready) != STATUS_OK ||
        b->event_open(p->dev[0], &over) != STATUS_OK)
        return;
    for (int i = 0; i < TURNS && p->st == STATUS_OK; i++) {
        struct comm_op op = {COMM_ALLREDUCE, COMM_SUM,   DTYPE_F32,      .send = mem,
                             .recv = mem,    .count = N, .after = ready, .over = over};
        p->st = b->event_record(ready, s);
        if (p->st == STATUS_OK)
            p->st = comm_start(p->c[0], &op);
        if (p->st == STATUS_OK)
            p->st = comm_wait_on(p->c[0], &op, s);
        if (p->st == STATUS_OK)
            p->st = b->stream_sync(s);
    }
    snprintf(p->message, sizeof p->message, "%s", status_message());
    struct comm_op more = {COMM_BARRIER};
    p->failures +=
        comm_run(p->c[0], &more) == STATUS_OK ||
        strcmp(p->message, status_message()) != 0; /* later operations fail in the same way */
    close_all(p);
    b->stream_close(s);
    b->event_close(ready);
    b->event_close(over);
}

static void ends_with(const struct process *p, enum status st, const char *message)
{
    assert_string_equal(p->message, message);
    assert_int_equal(p->st, st);
    assert_int_equal(p->failures, 0);
}

static void test_hanging_rank(void **state)
{
    (void)state;
    struct process process[PROCESSES];
    struct nccl_fake_plan plan = all_well;
    plan.hang_rank = 1;
    plan.hang_op = 3;
    nccl_fake_plan(&plan);
    run_processes(process, 2, 1, 0.3, sum_endlessly);
    ends_with(&process[0], STATUS_LIBRARY,
              "rank 0: operation 3 (allreduce) did not complete within 0.3 s: another rank did not "
              "reach it, or the network is stuck");
    ends_with(&process[1], STATUS_LIBRARY,
              "rank 1: operation 3 (allreduce) did not complete within 0.3 s: another rank did not "
              "reach it, or the network is stuck");
}

static void test_lost_partner(void **state)
{
    (void)state;
    struct process process[PROCESSES];
    struct nccl_fake_plan plan = all_well;
    plan.broken_rank = 0;
    plan.broken_op = 2;
    nccl_fake_plan(&plan);
    run_processes(process, 2, 1, 0.5, sum_endlessly);
    ends_with(&process[0], STATUS_LIBRARY,
              "rank 0: operation 2 (allreduce): NCCL: remote process exited or there was a "
              "network error: lost rank 1");
}

static void test_refused_call(void **state)
{
    (void)state;
    struct process process[PROCESSES];
    struct nccl_fake_plan plan = all_well;
    plan.refused_rank = 0;
    plan.refused_op = 2;
    nccl_fake_plan(&plan);
    run_processes(process, 1, 1, 0, sum_endlessly);
    ends_with(&process[0], STATUS_LIBRARY,
              "rank 0: operation 2 (allreduce): ncclAllReduce: invalid usage");
}

static void fail_on_rank_0(struct process *p)
{
    struct comm_op op = {COMM_BARRIER};
    if (!open_all(p))
        return;
    if (comm_rank(p->host) == 0)
        comm_fail(p->c[0], STATUS_DATA, "cannot read 'x'");
    p->st = comm_run(p->c[0], &op);
    snprintf(p->message, sizeof p->message, "%s", status_message());
    close_all(p);
}

static void test_fail(void **state)
{
    (void)state;
    struct process process[PROCESSES];
    nccl_fake_plan(&all_well);
    run_processes(process, 2, 1, 0.3, fail_on_rank_0);
    ends_with(&process[0], STATUS_DATA, "rank 0: cannot read 'x'");
    ends_with(
        &process[1], STATUS_LIBRARY,
        "rank 1: operation 1 (barrier) did not complete within 0.3 s: another rank did not reach "
        "it, or the network is stuck");
}

static void just_open(struct process *p)
{
    if (open_all(p))
        close_all(p);
}

static void test_no_id(void **state)
{
    (void)state;
    struct process process[PROCESSES];
    struct nccl_fake_plan plan = all_well;
    plan.no_id = true;
    nccl_fake_plan(&plan);
    run_processes(process, 2, 1, 60, just_open);
    ends_with(&process[0], STATUS_LIBRARY, "ncclGetUniqueId: unhandled system error");
    ends_with(&process[1], STATUS_LIBRARY, "rank 0 could not create a group of GPUs");
}

/* All ranks except rank 1 open the communicator. Rank 1 receives the invitation to join and ignores
 * it. */
static void open_but_rank_1(struct process *p)
{
    unsigned char invitation[4 + NCCL_PORT_ID_BYTES];
    struct comm_op op = {COMM_BROADCAST, .type = DTYPE_U8, .recv = invitation,
                         .count = sizeof invitation};
    if (comm_rank(p->host) == 0)
        just_open(p);
    else
        p->st = comm_run(p->host, &op);
}

static void test_absent_when_opening(void **state)
{
    (void)state;
    struct process process[PROCESSES];
    nccl_fake_plan(&all_well);
    run_processes(process, 2, 1, 0.3, open_but_rank_1);
    ends_with(&process[0], STATUS_LIBRARY,
              "rank 0: the GPUs of 2 ranks could not be connected within 0.3 s");
}

static void refuse_host_memory(struct process *p)
{
    double x = 1;
    if (!open_all(p))
        return;
    p->st = comm_sum(p->c[0], &x, 1);
    snprintf(p->message, sizeof p->message, "%s", status_message());
    close_all(p);
}

static void test_host_memory(void **state)
{
    (void)state;
    struct process process[PROCESSES];
    nccl_fake_plan(&all_well);
    run_processes(process, 1, 1, 60, refuse_host_memory);
    ends_with(&process[0], STATUS_INVALID, "allreduce: NCCL moves device memory, not host memory");
}

/* --- the library --- */

static void test_library_missing(void **state)
{
    (void)state;
    struct nccl_library lib;
    assert_int_equal(nccl_library_load("libnccl-of-nobody.so.2", &lib), STATUS_UNSUPPORTED);
    assert_non_null(strstr(status_message(), "NCCL cannot be loaded (libnccl-of-nobody.so.2: "));
    assert_non_null(strstr(status_message(), "install libnccl2, or use --comm host"));
}

static void test_library_of_another_kind(void **state)
{
    (void)state;
    struct nccl_library lib;
    assert_int_equal(nccl_library_load("libm.so.6", &lib), STATUS_UNSUPPORTED);
    assert_string_equal(status_message(),
                        "'libm.so.6' has no 'ncclGetVersion': it is not NCCL 2.14 or later; "
                        "install a newer libnccl2, or use --comm host");
}

/* If the NCCL library is installed, it must load. On a machine without a GPU, opening a
 * communicator must then fail with NCCL's message. On a machine with a GPU, opening may succeed. */
static void test_real_library(void **state)
{
    (void)state;
    struct nccl_library lib;
    struct nccl_port *port;
    struct nccl_link *link;
    struct device *dev;
    unsigned char id[NCCL_PORT_ID_BYTES];
    if (nccl_library_load("libnccl.so.2", &lib) != STATUS_OK) {
        printf("skipped: %s\n", status_message());
        skip();
    }
    assert_int_equal(async_device_open(&dev), STATUS_OK);
    assert_int_equal(nccl_port_make(&lib, nccl_fake_gpu(), &port), STATUS_OK);
    assert_int_equal(port->id(port, id), STATUS_OK);
    enum status st = port->open(port, 1, &dev, 0, 1, id, &link);
    if (st == STATUS_OK) {
        port->abort(link);
        port->close(link);
    } else {
        static const char call[] = "ncclCommInitRankConfig: ";
        assert_int_equal(st, STATUS_LIBRARY);
        assert_memory_equal(status_message(), call, strlen(call));
        assert_true(strlen(status_message()) > strlen(call) + 10);
    }
    port->drop(port);
    device_close(dev);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_many_started),
        cmocka_unit_test(test_hanging_rank),
        cmocka_unit_test(test_lost_partner),
        cmocka_unit_test(test_refused_call),
        cmocka_unit_test(test_fail),
        cmocka_unit_test(test_no_id),
        cmocka_unit_test(test_absent_when_opening),
        cmocka_unit_test(test_host_memory),
        cmocka_unit_test(test_library_missing),
        cmocka_unit_test(test_library_of_another_kind),
        cmocka_unit_test(test_real_library),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
