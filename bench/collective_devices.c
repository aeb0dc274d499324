/* Uses devices as ranks: one thread per device, in one process or in each process of a job. */
#include "bench/collective.h"

#include <stdio.h>

enum status collective_devices_find(const struct collective_config *c, struct collective_devices *d)
{
    if (c->gpus)
        snprintf(d->flag, sizeof d->flag, "-g %d", c->gpus);
    else
        snprintf(d->flag, sizeof d->flag, "--devices %.80s", c->options.devices);
    TRY(device_list_parse(c->gpus ? "cuda" : c->options.devices, &d->list));
    for (int i = 0; i < c->gpus; i++)
        d->list.index[i] = i;
    d->list.n = c->gpus ? c->gpus : d->list.n;
    if (!d->list.backend->asynchronous)
        return status_fail(
            STATUS_USAGE,
            "--devices %s uses the host's memory; name GPUs, or leave out --devices to "
            "measure the host's memory",
            c->options.devices);
    return STATUS_OK;
}

/* Chooses the GPUs of this process by number. With -g 2, the first process of a host takes GPUs 0
 * and 1, the second process takes GPUs 2 and 3, and so on. */
static enum status number_gpus(struct world *w, struct device_list *list)
{
    int own;
    TRY(world_local_rank(w, &own));
    for (int i = 0; i < list->n; i++)
        list->index[i] = own * list->n + i;
    list->numbered = true;
    return STATUS_OK;
}

/* Opens a host communicator for each device's thread. It connects the threads of all devices in all
 * processes. */
static enum status open_host(struct world *w, double timeout_s, struct collective_devices *d,
                             struct comm *host[DEVICES_MAX])
{
    host[0] = w->comm;
    if (d->n == 1)
        return STATUS_OK;
    TRY(comm_open_local(d->n, timeout_s, d->local));
    for (int i = 0; i < d->n; i++) {
        if (w->size > 1)
            TRY(comm_open_joint(d->local[i], w->comm, &d->joint[i]));
        host[i] = w->size > 1 ? d->joint[i] : d->local[i];
    }
    return STATUS_OK;
}

/* Finds NCCL. One rank moves no data to others, so all that it can check is NCCL itself. */
static enum status find_nccl(const struct collective_config *c, const struct world *w,
                             struct collective_devices *d)
{
    if (w->size * d->list.n > 1)
        return gpu_group_find(c->via, w->rank == 0, &d->port);
    if (comm_via_is_host(c->via))
        return status_fail(STATUS_USAGE,
                           "%s: a collective through the host needs at least two ranks; name "
                           "several GPUs, start a job, or check NCCL with --comm nccl",
                           d->flag);
    if (comm_nccl_find(&d->port) == STATUS_OK)
        return STATUS_OK;
    return status_fail(STATUS_USAGE, "%s: a collective needs at least two ranks, or NCCL: %s",
                       d->flag, status_message());
}

enum status collective_devices_open(const struct collective_config *c, struct world *w,
                                    struct collective_devices *d)
{
    const struct backend *b = d->list.backend;
    if (c->gpus > 1)
        TRY(number_gpus(w, &d->list));
    TRY(gpu_group_open_first(&d->list, w, 1, &d->device[0]));
    for (d->n = 1; d->n < d->list.n; d->n++)
        TRY(b->open(b, d->list.index[d->n], 1, &d->device[d->n]));
    TRY(find_nccl(c, w, d));
    const double timeout_s = world_config_default().timeout_s;
    struct comm *host[DEVICES_MAX];
    TRY(open_host(w, timeout_s, d, host));
    const struct comm_nccl_config nccl = {.port = d->port, .host = w->comm, .timeout_s = timeout_s};
    TRY(gpu_group_decide(c->via, d->port, w->comm, d->n, d->device, &d->group));
    if (!d->group.direct)
        TRY(world_check_data(w));
    if (!d->group.direct && w->size > 1 && d->n > 1 && c->kind != COMM_ALLREDUCE)
        return status_fail(
            STATUS_USAGE,
            "%s: several GPUs in each of %d processes support only allreduce, not %s, if data pass "
            "through host memory; give each process one GPU, as --devices cuda does",
            d->flag, w->size, comm_kind_str(c->kind));
    TRY(gpu_group_open(&d->group, &nccl, d->n, host, d->device, d->comm));
    /* If data pass through the host, comm[i] uses host[i], so nothing else may use host[i]. */
    for (int i = 0; i < d->n; i++)
        d->words[i] = d->group.direct ? host[i] : d->comm[i];
    return STATUS_OK;
}

void collective_devices_close(struct collective_devices *d)
{
    for (int i = 0; i < DEVICES_MAX; i++)
        comm_close(d->joint[i]);
    for (int i = 0; i < DEVICES_MAX; i++)
        comm_close(d->local[i]);
    comm_nccl_drop(d->port);
    for (int i = 0; i < DEVICES_MAX; i++)
        device_close(d->device[i]);
}
