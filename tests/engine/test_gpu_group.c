/* Tests the choice between direct transfers from GPU to GPU and transfers through the host. All
 * ranks must make the same choice. */
#include "comm/nccl_port.h"
#include "engine/gpu_group.h"
#include "kernels/backend.h"
#include "tests/unit.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

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

static const struct decision {
    enum comm_via via;
    int n;
    bool library[RANKS];     /* the rank has NCCL */
    int socket[RANKS][GPUS]; /* numbers in the GPUs' bus addresses */
    enum status st;
    bool direct;
    const char *why; /* of the group, or the message; empty: none */
} decisions[] = {
    {VIA_AUTO, 2, {true, true}, {{1, 2}, {3, 4}}, STATUS_OK, true, ""},
    {VIA_AUTO,
     2,
     {true, true},
     {{1, 2}, {3, 2}},
     STATUS_OK,
     false,
     "ranks 0 and 1 share the GPU 0000:02:00.0 of host "},
    {VIA_NCCL,
     2,
     {true, true},
     {{1, 2}, {3, 2}},
     STATUS_USAGE,
     false,
     "--comm nccl: ranks 0 and 1 share the GPU 0000:02:00.0 of host "},
    {VIA_AUTO, 1, {true, false}, {{1}, {3}}, STATUS_OK, false, "rank 1 (host "},
    {VIA_HOST, 1, {true, true}, {{1}, {3}}, STATUS_OK, false, ""},
};

/* Runs two ranks on two threads. Each rank determines whether all GPUs can be connected. */
static void check_decision(const struct decision *d)
{
    struct rank rank[RANKS] = {{0}};
    struct comm *comm[RANKS];
    assert_int_equal(comm_open_local(RANKS, 60, comm), STATUS_OK);
    for (int i = 0; i < RANKS; i++) {
        rank[i].port = d->library[i] ? &library : NULL;
        rank[i].comm = comm[i];
        rank[i].via = d->via;
        rank[i].n = d->n;
        for (int k = 0; k < GPUS; k++)
            rank[i].device[k].index = d->socket[i][k];
        assert_int_equal(pthread_create(&rank[i].thread, NULL, decide, &rank[i]), 0);
    }
    for (int i = 0; i < RANKS; i++) {
        pthread_join(rank[i].thread, NULL);
        comm_close(comm[i]);
        const char *why = d->st == STATUS_OK ? rank[i].group.why : rank[i].message;
        assert_int_equal(rank[i].st, d->st);
        assert_true(rank[i].group.direct == d->direct);
        assert_true(*d->why ? strncmp(why, d->why, strlen(d->why)) == 0 : !*why);
    }
}

static void all_ranks_decide_alike(void **state)
{
    for (size_t i = 0; i < sizeof decisions / sizeof *decisions; i++)
        check_decision(&decisions[i]);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(all_ranks_decide_alike)};
    return cmocka_run_group_tests_name("gpu_group", tests, NULL, NULL);
}
