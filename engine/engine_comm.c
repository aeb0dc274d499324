/* The communicators between the engine's replicas.
 *
 *   local[i]    between the devices of this process
 *   joint[i]    between all devices of all ranks
 *   device[i]   for the gradients of replica i, if devices are asynchronous and the process has
 *               several replicas that reduce gradients
 *   lead        between the ranks' first devices, for data in device memory; on synchronous devices
 *               this is the communicator of the ranks
 *
 * If batch norm sums host memory while gradients are reduced through the host, batch norm and the
 * gradients share a communicator. It executes their operations in order. */
#include "engine/engine_parts.h"

/* The host communicator between replica i and all other replicas; NULL: there is no other
 * replica. */
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
    TRY(comm_open_local(e->n, e->config.comm_timeout, e->local));
    for (int i = 0; i < e->n && engine_ranks(e) > 1; i++)
        TRY(comm_open_joint(e->local[i], e->config.ranks, &e->joint[i]));
    return STATUS_OK;
}

/* Opens communicators c[0 .. n-1] of the first n devices of every rank. */
static enum status open_group(struct engine *e, int n, struct comm *const *host,
                              struct device *const *device, struct comm **c)
{
    const struct comm_nccl_config nccl = {
        .port = e->config.nccl, .host = e->config.ranks, .timeout_s = e->config.comm_timeout};
    return gpu_group_open(&e->group, &nccl, n, host, device, c);
}

enum status engine_comm_open_devices(struct engine *e)
{
    struct comm *host[DEVICES_MAX];
    struct device *device[DEVICES_MAX];
    bool between_replicas = e->n > 1 && !e->central, between_ranks = engine_ranks(e) > 1;
    int n = between_replicas ? e->n : 1;
    if (!e->config.devices->backend->asynchronous || n * engine_ranks(e) == 1)
        return STATUS_OK;
    for (int i = 0; i < n; i++) {
        host[i] = between_replicas ? host_partners(e, i) : e->config.ranks;
        device[i] = e->replica[i].dev;
    }
    TRY(gpu_group_decide(e->config.via, e->config.nccl, e->config.ranks, n, device, &e->group));
    if (!between_replicas) {
        TRY(open_group(e, n, host, device, &e->device_lead));
    } else {
        TRY(open_group(e, n, host, device, e->device));
        if (between_ranks) /* for weights and statistics, which are rarely sent */
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
