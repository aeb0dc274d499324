/* Ranks exchange the PCI addresses of their GPUs. NCCL accepts only one rank per GPU, so ranks that
 * share a GPU send their data through the host. */
#include "engine/gpu_group.h"

#include "base/array.h"
#include "comm/nccl_port.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HOST_MAX = 64 };

/* A GPU, as its rank describes it to all ranks. */
struct card {
    char host[HOST_MAX];
    char bus[NCCL_PORT_BUS_MAX];
    int32_t linkable; /* its rank has NCCL */
};

static void describe(const struct nccl_port *port, struct device *dev, struct card *card)
{
    memset(card, 0, sizeof *card);
    if (gethostname(card->host, sizeof card->host - 1) != 0)
        snprintf(card->host, sizeof card->host, "?");
    card->linkable = port != NULL;
    if (port)
        port->gpu->bus(dev, card->bus);
}

/* Writes to `why` the reason why the GPUs of all ranks (`n` per rank) cannot use NCCL; "" if they
 * can. */
static void judge_cards(const struct card *card, int count, int n, char *why, size_t size)
{
    *why = '\0';
    for (int i = 0; i < count; i++)
        if (!card[i].linkable) {
            snprintf(why, size, "rank %d (host %s) has no NCCL", i / n, card[i].host);
            return;
        }
    for (int i = 0; i < count; i++)
        for (int k = 0; k < i; k++)
            if (strcmp(card[i].host, card[k].host) == 0 && strcmp(card[i].bus, card[k].bus) == 0) {
                snprintf(why, size, "ranks %d and %d share the GPU %s of host %s", k / n, i / n,
                         card[i].bus, card[i].host);
                return;
            }
}

static enum status gather_cards(const struct nccl_port *port, struct comm *ranks, int n,
                                struct device *const *device, struct card *all)
{
    struct card own[DEVICES_MAX];
    for (int i = 0; i < n; i++)
        describe(port, device[i], &own[i]);
    TRY(comm_gather(ranks, own, all, (int64_t)n * (int64_t)sizeof *own));
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
    if (comm_via_is_host(via))
        return STATUS_OK;
    struct card *all;
    TRY(array_new(&all, count));
    enum status st = gather_cards(port, ranks, n, device, all);
    if (st == STATUS_OK) {
        judge_cards(all, count, n, g->why, sizeof g->why);
        g->direct = g->why[0] == '\0';
    }
    free(all);
    TRY(st);
    if (via == VIA_NCCL && !g->direct)
        return status_fail(STATUS_USAGE, "--comm nccl: %s; use --comm host", g->why);
    return STATUS_OK;
}

bool gpu_group_is(const struct device_list *list)
{
    return strcmp(list->backend->name, "cuda") == 0;
}

/* Whether this process sees only one GPU, because a scheduler hides the others. */
static bool sees_one_gpu(const struct backend *b, int threads)
{
    struct device *second = NULL;
    bool one = b->open(b, 1, threads, &second) == STATUS_USAGE;
    device_close(second);
    return one;
}

/* With --devices cuda, each process opens the GPU whose index is its local rank. *dev stays NULL if
 * the list already has the right GPU: for local rank 0, and for a process that sees only one
 * GPU. */
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
                       "rank %d has local rank %d, but its host has fewer GPUs; start fewer "
                       "ranks on that host, or name a GPU, as in --devices cuda:0",
                       w->rank, own);
}

enum status gpu_group_open_first(struct device_list *list, const struct world *w, int threads,
                                 struct device **dev)
{
    const struct backend *b = list->backend;
    *dev = NULL;
    if (gpu_group_is(list) && !list->numbered)
        TRY(choose_gpu(list, w, threads, dev));
    return *dev ? STATUS_OK : b->open(b, list->index[0], threads, dev);
}

enum status gpu_group_find(enum comm_via via, bool leads, struct nccl_port **port)
{
    *port = NULL;
    if (comm_via_is_host(via))
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
    return g->direct ? comm_open_nccl(nccl, n, device, c) : comm_open_staged(n, host, device, c);
}
