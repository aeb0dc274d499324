/* Tests the choice between direct transfers from GPU to GPU and transfers through the host. All
 * ranks must make the same choice. */
#include "comm/nccl_port.h"
#include "engine/gpu_group.h"
#include "kernels/backend.h"
#include "tests/comm/ranks.h"
#include "tests/unit.h"

#include <stdio.h>
#include <string.h>

enum { RANKS = 2, GPUS = 2 };

/* Writes a bus address that contains the device's number. */
static void bus(struct device *dev, char out[NCCL_PORT_BUS_MAX])
{
    snprintf(out, NCCL_PORT_BUS_MAX, "0000:%02x:00.0", (unsigned)dev->index);
}

static const struct nccl_gpu functions = {.bus = bus};
static const struct nccl_port library = {.gpu = &functions};

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

static const struct decision *now;
static struct gpu_group group[RANKS];

/* Determines on one rank whether all GPUs can be connected. */
static void decide(struct rank *r)
{
    int own = comm_rank(r->c);
    struct device gpu[GPUS] = {{.index = now->socket[own][0]}, {.index = now->socket[own][1]}};
    struct device *device[GPUS] = {&gpu[0], &gpu[1]};
    group[own] = (struct gpu_group){0};
    rank_keep(r, gpu_group_decide(now->via, now->library[own] ? &library : NULL, r->c, now->n,
                                  device, &group[own]));
}

static void all_ranks_decide_alike(void **state)
{
    for (now = decisions; now < decisions + COUNT(decisions); now++) {
        struct rank rank[RANKS];
        ranks_run(rank, &local_transport, RANKS, 60, decide);
        for (int i = 0; i < RANKS; i++) {
            const char *why = now->st == STATUS_OK ? group[i].why : rank[i].message;
            assert_int_equal(rank[i].st, now->st);
            assert_true(group[i].direct == now->direct);
            assert_true(*now->why ? strncmp(why, now->why, strlen(now->why)) == 0 : !*why);
        }
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(all_ranks_decide_alike)};
    return cmocka_run_group_tests_name("gpu_group", tests, NULL, NULL);
}
