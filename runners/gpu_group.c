/* Ranks tell each other where their GPUs are plugged in. A library that links GPUs takes each GPU
 * once, so that ranks that share one pass their data through the host. */
#include "runners/gpu_group.h"

#include "comm/nccl_port.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HOST_MAX = 64 };

/* A GPU, as all ranks know it. */
struct card {
    char host[HOST_MAX];
    char bus[NCCL_PORT_BUS_MAX];
    int32_t linkable; /* its rank has the library */
};

static void describe(const struct nccl_port *port, struct device *dev, struct card *card)
{
    memset(card, 0, sizeof *card);
    if (gethostname(card->host, sizeof card->host - 1) != 0)
        snprintf(card->host, sizeof card->host, "?");
    card->linkable = port != NULL;
    if (port)
        port->bus(dev, card->bus);
}

static bool same_card(const struct card *a, const struct card *b)
{
    return strcmp(a->host, b->host) == 0 && strcmp(a->bus, b->bus) == 0;
}

/* Why the cards of all ranks, `n` of each, cannot be linked; "" where they can. */
static void judge(const struct card *card, int count, int n, char *why, size_t size)
{
    *why = '\0';
    for (int i = 0; i < count; i++)
        if (!card[i].linkable) {
            snprintf(why, size, "rank %d (host %s) has no NCCL", i / n, card[i].host);
            return;
        }
    for (int i = 0; i < count; i++)
        for (int k = 0; k < i; k++)
            if (same_card(&card[i], &card[k])) {
                snprintf(why, size, "ranks %d and %d share the GPU %s of host %s", k / n, i / n,
                         card[i].bus, card[i].host);
                return;
            }
}

static enum status gather(const struct nccl_port *port, struct comm *ranks, int n,
                          struct device *const *device, struct card *all)
{
    struct card own[DEVICES_MAX];
    for (int i = 0; i < n; i++)
        describe(port, device[i], &own[i]);
    struct comm_op op = {.kind = COMM_ALLGATHER,
                         .type = DTYPE_U8,
                         .send = own,
                         .recv = all,
                         .count = (int64_t)((size_t)n * sizeof *own)};
    TRY(comm_run(ranks, &op));
    for (int i = 0; i < n * comm_size(ranks); i++) {
        all[i].host[sizeof all[i].host - 1] = '\0';
        all[i].bus[sizeof all[i].bus - 1] = '\0';
    }
    return STATUS_OK;
}

enum status gpu_group_decide(enum comm_via via, const struct nccl_port *port, struct comm *ranks,
                             int n, struct device *const *device, struct gpu_group *g)
{
    int count = n * comm_size(ranks);
    *g = (struct gpu_group){0};
    if (via == VIA_HOST)
        return STATUS_OK;
    struct card *all = calloc((size_t)count, sizeof *all);
    if (!all)
        return status_fail(STATUS_OOM, "no memory for %d devices", count);
    enum status st = gather(port, ranks, n, device, all);
    if (st == STATUS_OK) {
        judge(all, count, n, g->why, sizeof g->why);
        g->direct = g->why[0] == '\0';
    }
    free(all);
    TRY(st);
    if (via == VIA_NCCL && !g->direct)
        return status_fail(STATUS_USAGE, "--comm nccl: %s; use --comm host", g->why);
    return STATUS_OK;
}
