/* Collectives between GPUs over a fake NCCL: two GPUs of one process, and of each of two. The
 * devices are those of stream_device_open, whose memory the host cannot access. */
#include "../comm/nccl_fake.h"
#include "bench/collective.h"
#include "comm/world.h"
#include "tests/kernels/stream_backend.h"
#include "tests/unit.h"

#include <pthread.h>
#include <stdlib.h>

enum { EACH = 2, PROCESSES_MAX = 2 }; /* GPUs of a process, which is a thread here */

static struct nccl_port *port;

struct process {
    int processes;
    struct comm *between;
    struct collective_config config;
    enum status st;
};

static enum status measure(struct process *p)
{
    struct rank_info info[PROCESSES_MAX] = {{.host = "node0", .pid = 1}, {.host = "node1"}};
    struct world w = {.comm = p->processes > 1 ? p->between : NULL,
                      .rank = comm_rank(p->between),
                      .size = p->processes,
                      .info = info};
    struct device *device[EACH] = {NULL};
    struct comm *local[EACH] = {NULL}, *joint[EACH] = {NULL}, *comm[EACH];
    const struct collective_ranks ranks = {.members = EACH, .comm = comm, .words = joint};
    const struct comm_nccl_config nccl = {.port = port, .host = p->between, .timeout_s = 20};
    enum status st;
    CHECK(comm_open_local(EACH, 20, local));
    for (int i = 0; i < EACH; i++) {
        CHECK(stream_device_open(&device[i]));
        CHECK(comm_open_joint(local[i], p->between, &joint[i]));
    }
    CHECK(comm_open_nccl(&nccl, EACH, device, comm));
    CHECK(collective_run(&p->config, &w, &ranks));
done:
    for (int i = 0; i < EACH; i++) {
        comm_close(joint[i]);
        comm_close(local[i]);
        device_close(device[i]);
    }
    return st;
}

static void *process_run(void *p)
{
    ((struct process *)p)->st = measure(p);
    return NULL;
}

static void check_record(const char *text, int processes)
{
    json_t *o = json_loads(text, 0, NULL);
    const json_t *ranks = json_object_get(o, "ranks");
    assert_int_equal(json_array_size(ranks), processes * EACH);
    for (int i = 0; i < processes * EACH; i++)
        assert_string_equal(
            json_string_value(json_object_get(json_array_get(ranks, (size_t)i), "host")),
            i < EACH ? "node0" : "node1");
    assert_string_equal(json_string_value(json_object_get(o, "memory")), "device");
    assert_int_equal(json_array_size(json_object_get(o, "rows")), 2);
    assert_int_equal(json_integer_value(json_object_get(o, "wrong")), 0);
    json_decref(o);
}

/* Measures and checks every kind of operation, and compares the record with the arguments. */
static void measure_all(int processes)
{
    for (enum comm_kind kind = 0; kind < COMM_BARRIER; kind++) {
        struct process process[PROCESSES_MAX];
        struct comm *between[PROCESSES_MAX];
        pthread_t thread[PROCESSES_MAX];
        char *text;
        size_t size;
        struct collective_config c = collective_config_default();
        c.kind = kind;
        c.checks = 2;
        c.options.timing = (struct harness_config){.warmup = 1, .most = 2};
        c.first = 64, c.last = 4000, c.step = 3936;
        c.options.format = BENCH_JSON;
        c.options.out = open_memstream(&text, &size);
        assert_int_equal(comm_open_local(processes, 20, between), STATUS_OK);
        for (int i = 0; i < processes; i++) {
            process[i] = (struct process){processes, between[i], c, STATUS_OK};
            assert_int_equal(pthread_create(&thread[i], NULL, process_run, &process[i]), 0);
        }
        for (int i = 0; i < processes; i++) {
            assert_int_equal(pthread_join(thread[i], NULL), 0);
            assert_int_equal(process[i].st, STATUS_OK);
            comm_close(between[i]);
        }
        fclose(c.options.out);
        check_record(text, processes);
        free(text);
    }
}

static void test_nccl(void **state)
{
    for (int processes = 1; processes <= PROCESSES_MAX; processes++) {
        assert_int_equal(nccl_fake_open(&port), STATUS_OK);
        measure_all(processes);
        comm_nccl_drop(port);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_nccl)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
