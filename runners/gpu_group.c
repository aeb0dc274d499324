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

static bool are_gpus(const struct device_list *list)
{
    return strcmp(list->backend->name, "cuda") == 0;
}

/* Whether a process sees one GPU alone, which is what a scheduler may give it. */
static bool sees_one_gpu(const struct backend *b, int threads)
{
    struct device *second = NULL;
    bool one = b->open(b, 1, threads, &second) == STATUS_USAGE;
    device_close(second);
    return one;
}

/* Processes that are told "cuda" take a GPU of their host each, by their place among its ranks; who
 * sees one alone takes that, and *dev is NULL. */
static enum status choose_gpu(struct device_list *list, const struct world *w, int threads,
                              struct device **dev)
{
    const struct backend *b = list->backend;
    int own;
    TRY(world_local_rank(w, &own));
    if (own == 0)
        return STATUS_OK;
    enum status st = b->open(b, own, threads, dev);
    if (st == STATUS_OK)
        list->index[0] = own;
    if (st != STATUS_USAGE || sees_one_gpu(b, threads))
        return st == STATUS_USAGE ? STATUS_OK : st;
    return status_fail(STATUS_USAGE,
                       "rank %d is number %d of its host, which has no GPU of that number; start "
                       "fewer ranks there, or name GPUs as in --devices cuda:0",
                       w->rank, own);
}

enum status gpu_group_open_first(struct device_list *list, const struct world *w, int threads,
                                 struct device **dev)
{
    const struct backend *b = list->backend;
    *dev = NULL;
    if (are_gpus(list) && !list->numbered)
        TRY(choose_gpu(list, w, threads, dev));
    return *dev ? STATUS_OK : b->open(b, list->index[0], threads, dev);
}

enum status gpu_group_find(enum comm_via via, bool leads, struct nccl_port **port)
{
    *port = NULL;
    if (via == VIA_HOST)
        return STATUS_OK;
    enum status st = comm_nccl_find(port);
    if (st != STATUS_UNSUPPORTED || via == VIA_NCCL)
        return st;
    if (leads)
        fprintf(stderr, "ampscale: warning: %s\n", status_message());
    return STATUS_OK;
}

enum status gpu_group_open(const struct gpu_group *g, const struct comm_nccl_config *nccl, int n,
                           struct comm *const *host, struct device *const *device, struct comm **c)
{
    if (g->direct)
        return comm_open_nccl(nccl, n, device, c);
    return comm_open_staged(n, host, device, c);
}
