/* Collectives between GPUs over a fake NCCL. */
#include "../comm/async_device.h"
#include "../comm/nccl_fake.h"
#include "bench/collective.h"
#include "collective_rig.h"
#include "comm/world.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static struct nccl_port *port;

static enum status open_nccl(struct device *const *device, struct comm *const *host,
                             struct comm **c)
{
    (void)host; /* the only process has both devices */
    struct comm *alone;
    TRY(comm_open_solo(&alone));
    const struct comm_nccl_config config = {.port = port, .host = alone, .timeout_s = 20};
    enum status st = comm_open_nccl(&config, 2, device, c);
    comm_close(alone);
    return st;
}

static void test_nccl(void **state)
{
    (void)state;
    assert_int_equal(nccl_fake_open(&port), STATUS_OK);
    collective_rig_run(open_nccl, true);
    port->drop(port);
}

/* Two processes with two GPUs each. Each process is a thread of this test. */
enum { PROCESSES = 2, EACH = 2 };

struct process {
    struct comm *between;
    struct collective_config config;
    enum status st;
};

static enum status measure(struct process *p)
{
    struct rank_info info[PROCESSES] = {{.host = "node1", .pid = 1}, {.host = "node2", .pid = 2}};
    struct world w = {
        .comm = p->between, .rank = comm_rank(p->between), .size = PROCESSES, .info = info};
    struct device *device[EACH] = {NULL};
    struct comm *local[EACH] = {NULL}, *joint[EACH] = {NULL}, *comm[EACH];
    const struct comm_nccl_config nccl = {.port = port, .host = p->between, .timeout_s = 20};
    const struct collective_ranks ranks = {.members = EACH, .comm = comm, .words = joint};
    enum status st;
    CHECK(comm_open_local(EACH, 20, local));
    for (int i = 0; i < EACH; i++) {
        CHECK(async_device_open(&device[i]));
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

static void *run_process(void *p)
{
    ((struct process *)p)->st = measure(p);
    return NULL;
}

static void check_record(const char *text)
{
    static const char *const hosts[] = {"node1", "node1", "node2", "node2"};
    json_t *o = json_loads(text, 0, NULL);
    const json_t *ranks = json_object_get(o, "ranks");
    assert_int_equal(json_array_size(ranks), PROCESSES * EACH);
    for (size_t i = 0; i < PROCESSES * EACH; i++)
        assert_string_equal(json_string_value(json_object_get(json_array_get(ranks, i), "host")),
                            hosts[i]);
    assert_int_equal(json_array_size(json_object_get(o, "rows")), 2);
    assert_int_equal(json_integer_value(json_object_get(o, "wrong")), 0);
    json_decref(o);
}

static void test_processes(void **state)
{
    (void)state;
    assert_int_equal(nccl_fake_open(&port), STATUS_OK);
    for (enum comm_kind kind = 0; kind < COMM_BARRIER; kind++) {
        struct process process[PROCESSES];
        struct comm *between[PROCESSES];
        pthread_t thread[PROCESSES];
        char *text;
        size_t size;
        struct collective_config c = collective_config_default();
        c.kind = kind;
        c.options.timing = (struct harness_config){.warmup = 1, .most = 2};
        c.first = 64, c.last = 4000, c.step = 3936;
        c.options.format = BENCH_JSON;
        c.options.out = open_memstream(&text, &size);
        assert_int_equal(comm_open_local(PROCESSES, 20, between), STATUS_OK);
        for (int i = 0; i < PROCESSES; i++) {
            process[i] = (struct process){.between = between[i], .config = c};
            assert_int_equal(pthread_create(&thread[i], NULL, run_process, &process[i]), 0);
        }
        for (int i = 0; i < PROCESSES; i++) {
            assert_int_equal(pthread_join(thread[i], NULL), 0);
            assert_int_equal(process[i].st, STATUS_OK);
            comm_close(between[i]);
        }
        fclose(c.options.out);
        check_record(text);
        free(text);
    }
    port->drop(port);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_nccl),
                                       cmocka_unit_test(test_processes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
