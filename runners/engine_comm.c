/* With whom the engine's replicas share, and through what.
 *
 *   local[i]    between the devices of this process
 *   joint[i]    between all devices of all ranks
 *   device[i]   the gradients of replica i, where devices go on beside the host and there are
 *               several in the process
 *   lead        between the ranks' first devices, in their memory; the ranks' own communicator
 *               where that is the host's
 *
 * Sums of host memory (batch norm's) that may meet gradients on their way take the communicator
 * that keeps both in order. */
#include "runners/engine_parts.h"

static bool beside_host(const struct engine *e)
{
    return e->config.devices->backend->asynchronous;
}

/* The communicator of the host between replica i and all others; NULL: there are none. */
static struct comm *host_partners(const struct engine *e, int i)
{
    if (e->n == 1)
        return engine_ranks(e) > 1 ? e->config.ranks : NULL;
    return engine_ranks(e) > 1 ? e->joint[i] : e->local[i];
}

enum status engine_comm_open(struct engine *e)
{
    e->lead = e->config.ranks;
    if (e->n == 1)
        return STATUS_OK;
    TRY(comm_open_local(e->n, e->config.train->comm_timeout, e->local));
    for (int i = 0; i < e->n && engine_ranks(e) > 1; i++)
        TRY(comm_open_joint(e->local[i], e->config.ranks, &e->joint[i]));
    return STATUS_OK;
}

/* Communicators c[0 .. n-1] of the first n devices of every rank. */
static enum status open_group(struct engine *e, int n, struct comm *const *host,
                              struct device *const *device, struct comm **c)
{
    const struct comm_nccl_config nccl = {.port = e->config.nccl,
                                          .host = e->config.ranks,
                                          .timeout_s = e->config.train->comm_timeout};
    return gpu_group_open(&e->group, &nccl, n, host, device, c);
}

enum status engine_comm_open_devices(struct engine *e)
{
    struct comm *host[DEVICES_MAX];
    struct device *device[DEVICES_MAX];
    bool between_replicas = e->n > 1 && !e->central, between_ranks = engine_ranks(e) > 1;
    int n = between_replicas ? e->n : 1;
    if (!beside_host(e) || n * engine_ranks(e) == 1)
        return STATUS_OK;
    for (int i = 0; i < n; i++) {
        host[i] = between_replicas ? host_partners(e, i) : e->config.ranks;
        device[i] = e->replica[i].dev;
    }
    TRY(gpu_group_decide(e->config.train->comm, e->config.nccl, e->config.ranks, n, device,
                         &e->group));
    if (!between_replicas) {
        TRY(open_group(e, n, host, device, &e->device_lead));
    } else {
        TRY(open_group(e, n, host, device, e->device));
        if (between_ranks) /* for weights and statistics, now and then */
            TRY(comm_open_staged(1, &e->config.ranks, device, &e->device_lead));
    }
    if (e->device_lead)
        e->lead = e->device_lead;
    return STATUS_OK;
}

void engine_comm_close_devices(struct engine *e)
{
    for (int i = 0; i < e->n; i++)
        comm_close(e->device[i]);
    comm_close(e->device_lead);
}

void engine_comm_close(struct engine *e)
{
    for (int i = 0; i < e->n; i++)
        comm_close(e->joint[i]);
    for (int i = 0; i < e->n; i++)
        comm_close(e->local[i]);
}

struct comm *engine_gradient_comm(const struct engine *e, int i)
{
    if (e->n == 1 || e->central)
        return engine_ranks(e) > 1 ? e->lead : NULL;
    return e->device[i] ? e->device[i] : host_partners(e, i);
}

struct comm *engine_sum_comm(const struct engine *e, int i)
{
    return e->central || e->group.direct ? host_partners(e, i) : engine_gradient_comm(e, i);
}
