/* With whom the engine's replicas share, and through what.
 *
 *   local[i]    between the devices of this process
 *   joint[i]    between all devices of all ranks
 *   device[i]   the gradients of replica i, where devices go on beside the host
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

enum status engine_comm_open_devices(struct engine *e)
{
    struct comm *host[DEVICES_MAX];
    struct device *device[DEVICES_MAX];
    bool between_replicas = e->n > 1 && !e->central;
    if (!beside_host(e))
        return STATUS_OK;
    for (int i = 0; i < e->n; i++) {
        host[i] = host_partners(e, i);
        device[i] = e->replica[i].dev;
    }
    if (between_replicas)
        TRY(comm_open_staged(e->n, host, device, e->device));
    if (engine_ranks(e) == 1)
        return STATUS_OK;
    TRY(comm_open_staged(1, &e->config.ranks, device, &e->device_lead));
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
    return e->central ? host_partners(e, i) : engine_gradient_comm(e, i);
}
