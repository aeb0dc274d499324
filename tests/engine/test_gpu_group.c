/* Tests the choice between direct transfers from GPU to GPU and transfers through the host. All
 * ranks must make the same choice. */
#include "comm/nccl_port.h"
#include "engine/gpu_group.h"
#include "kernels/backend.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { RANKS = 2, GPUS = 2 };

/* Writes a bus address that contains the device's number. */
static void bus(struct device *dev, char out[NCCL_PORT_BUS_MAX])
{
    snprintf(out, NCCL_PORT_BUS_MAX, "0000:%02x:00.0", (unsigned)dev->index);
}

static const struct nccl_port library = {.bus = bus};

struct rank {
    struct comm *comm;
    enum comm_via via;
    const struct nccl_port *port;
    struct device device[GPUS];
    int n;
    struct gpu_group group;
    enum status st;
    char message[256];
    pthread_t thread;
};

static void *decide(void *arg)
{
    struct rank *r = arg;
    struct device *device[GPUS] = {&r->device[0], &r->device[1]};
    r->st = gpu_group_decide(r->via, r->port, r->comm, r->n, device, &r->group);
    if (r->st != STATUS_OK)
        snprintf(r->message, sizeof r->message, "%s", status_message());
    return NULL;
}

/* Runs two ranks of `n` GPUs each, on two threads. Each rank determines whether all GPUs can be
 * connected. socket[i][k] is the number in the bus address of GPU k of rank i. */
static void decide_all(struct rank rank[RANKS], enum comm_via via, int n,
                       const int socket[RANKS][GPUS])
{
    struct comm *comm[RANKS];
    assert_int_equal(comm_open_local(RANKS, 60, comm), STATUS_OK);
    for (int i = 0; i < RANKS; i++) {
        rank[i].comm = comm[i];
        rank[i].via = via;
        rank[i].n = n;
        for (int k = 0; k < GPUS; k++)
            rank[i].device[k].index = socket[i][k];
        assert_int_equal(pthread_create(&rank[i].thread, NULL, decide, &rank[i]), 0);
    }
    for (int i = 0; i < RANKS; i++) {
        pthread_join(rank[i].thread, NULL);
        comm_close(comm[i]);
    }
}

static void test_apart(void **state)
{
    (void)state;
    static const int socket[RANKS][GPUS] = {{1, 2}, {3, 4}};
    struct rank rank[RANKS] = {{.port = &library}, {.port = &library}};
    decide_all(rank, VIA_AUTO, 2, socket);
    for (int i = 0; i < RANKS; i++) {
        assert_int_equal(rank[i].st, STATUS_OK);
        assert_true(rank[i].group.direct);
        assert_string_equal(rank[i].group.why, "");
    }
}

static void test_shared(void **state)
{
    (void)state;
    static const int socket[RANKS][GPUS] = {{1, 2}, {3, 2}};
    struct rank rank[RANKS] = {{.port = &library}, {.port = &library}};
    decide_all(rank, VIA_AUTO, 2, socket);
    for (int i = 0; i < RANKS; i++) {
        static const char why[] = "ranks 0 and 1 share the GPU 0000:02:00.0 of host ";
        assert_int_equal(rank[i].st, STATUS_OK);
        assert_false(rank[i].group.direct);
        assert_memory_equal(rank[i].group.why, why, strlen(why));
    }
    decide_all(rank, VIA_NCCL, 2, socket);
    for (int i = 0; i < RANKS; i++) {
        static const char why[] = "--comm nccl: ranks 0 and 1 share the GPU 0000:02:00.0 of host ";
        assert_int_equal(rank[i].st, STATUS_USAGE);
        assert_memory_equal(rank[i].message, why, strlen(why));
        assert_non_null(strstr(rank[i].message, "; use --comm host"));
    }
}

static void test_library_on_one(void **state)
{
    (void)state;
    static const int socket[RANKS][GPUS] = {{1}, {3}};
    struct rank rank[RANKS] = {{.port = &library}};
    decide_all(rank, VIA_AUTO, 1, socket);
    for (int i = 0; i < RANKS; i++) {
        assert_int_equal(rank[i].st, STATUS_OK);
        assert_false(rank[i].group.direct);
        assert_memory_equal(rank[i].group.why, "rank 1 (host ", 13);
    }
}

static void test_by_the_host(void **state)
{
    (void)state;
    static const int socket[RANKS][GPUS] = {{1}, {3}};
    struct rank rank[RANKS] = {{.port = &library}, {.port = &library}};
    decide_all(rank, VIA_HOST, 1, socket);
    for (int i = 0; i < RANKS; i++) {
        assert_int_equal(rank[i].st, STATUS_OK);
        assert_false(rank[i].group.direct);
        assert_string_equal(rank[i].group.why, "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_apart),
        cmocka_unit_test(test_shared),
        cmocka_unit_test(test_library_on_one),
        cmocka_unit_test(test_by_the_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
