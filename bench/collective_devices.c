/* Devices as ranks: a thread for each in one process, or one in each process of a job. */
#include "bench/collective.h"

enum status collective_devices_find(const struct collective_config *c, struct collective_devices *d)
{
    TRY(device_list_parse(c->devices, &d->list));
    if (!d->list.backend->asynchronous)
        return status_fail(STATUS_USAGE,
                           "--devices %s has the host's memory, which is measured without "
                           "--devices; name GPUs",
                           c->devices);
    return STATUS_OK;
}

static enum status open_devices(struct collective_devices *d, const struct world *w)
{
    const struct backend *b = d->list.backend;
    TRY(gpu_group_open_first(&d->list, w, 1, &d->device[0]));
    for (d->n = 1; d->n < d->list.n; d->n++)
        TRY(b->open(b, d->list.index[d->n], 1, &d->device[d->n]));
    return STATUS_OK;
}

/* Each device's, and those of the host beside them. */
static enum status open_comms(const struct collective_config *c, struct world *w,
                              struct collective_devices *d)
{
    const struct train_config train = train_config_default();
    struct comm *host[DEVICES_MAX] = {w->comm};
    if (d->n > 1) {
        TRY(comm_open_local(d->n, train.comm_timeout, d->local));
        for (int i = 0; i < d->n; i++)
            host[i] = d->local[i];
    }
    const struct comm_nccl_config nccl = {
        .port = d->port, .host = w->comm, .timeout_s = train.comm_timeout};
    TRY(gpu_group_decide(c->via, d->port, w->comm, d->n, d->device, &d->group));
    TRY(gpu_group_open(&d->group, &nccl, d->n, host, d->device, d->comm));
    for (int i = 0; i < d->n; i++) /* a staged communicator has the host's for itself */
        d->words[i] = d->group.direct ? host[i] : d->comm[i];
    return STATUS_OK;
}

enum status collective_devices_open(const struct collective_config *c, struct world *w,
                                    struct collective_devices *d)
{
    if (w->size > 1 && d->list.n > 1)
        return status_fail(STATUS_USAGE,
                           "--devices %s in each of %d processes: give each process "
                           "one GPU, as --devices cuda does",
                           c->devices, w->size);
    if (w->size * d->list.n == 1)
        return status_fail(STATUS_USAGE,
                           "--devices %s: one GPU has nobody to talk to; name several, or start a "
                           "job",
                           c->devices);
    TRY(open_devices(d, w));
    TRY(gpu_group_find(c->via, w->rank == 0, &d->port));
    return open_comms(c, w, d);
}

void collective_devices_close(struct collective_devices *d)
{
    for (int i = 0; i < DEVICES_MAX; i++)
        comm_close(d->local[i]);
    comm_nccl_drop(d->port);
    for (int i = 0; i < DEVICES_MAX; i++)
        device_close(d->device[i]);
}
