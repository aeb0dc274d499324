/* Measures collectives between ranks: processes of a job, threads of this process, or devices. */
#include "bench/collective.h"

#include "base/json.h"
#include "engine/gpu_group.h"
#include "kernels/device_list.h"

#include <inttypes.h>

struct collective_config collective_config_default(void)
{
    return (struct collective_config){
        .kind = COMM_ALLREDUCE,
        .reduction = COMM_SUM,
        .type = DTYPE_F32,
        .first = 1 << 10,
        .last = 64 << 20,
        .factor = 2,
        .checks = 1,
        .aggregated = 1,
        .options = {.timing = {.warmup = 5,
                               .most = 20,
                               .within = 0.02,
                               .seconds = 2,
                               .repeats = HARNESS_REPEATS},
                    .out = stdout},
    };
}

bool collective_has_parts(enum comm_kind kind)
{
    return kind == COMM_ALLGATHER || kind == COMM_REDUCE_SCATTER || kind == COMM_ALLTOALL ||
           kind == COMM_GATHER || kind == COMM_SCATTER;
}

int64_t collective_count(enum comm_kind kind, enum dtype type, int64_t bytes, int ranks)
{
    int64_t element = (int64_t)dtype_size(type), count = bytes / element;
    if (!collective_has_parts(kind))
        return count;
    int64_t line = 16 / element;
    return count / ranks / line * line;
}

void collective_bandwidth(enum comm_kind kind, int ranks, int64_t bytes, struct collective_time *t)
{
    double others = (double)(ranks - 1) / ranks;
    double factor = kind == COMM_ALLREDUCE ? 2 * others : collective_has_parts(kind) ? others : 1;
    t->algbw = t->time.median > 0 ? (double)bytes * 1e-9 / t->time.median : 0;
    t->busbw = ranks > 1 ? factor * t->algbw : 0;
}

/* --- devices --- */

/* The devices of this process, and their communicators. */
struct devices {
    struct device_list list;
    char flag[96]; /* the flag that named the devices */
    int n;
    struct device *device[DEVICES_MAX];
    struct nccl_port *port;
    struct gpu_group group;
    struct comm *local[DEVICES_MAX]; /* connects the threads of this process; NULL if n is 1 */
    struct comm *joint[DEVICES_MAX]; /* connects the threads of several processes; NULL with one
                                      * process */
    struct comm *comm[DEVICES_MAX], *words[DEVICES_MAX];
};

/* Finds the devices that --devices names, before the world is opened. */
static enum status devices_find(const struct collective_config *c, struct devices *d)
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
static enum status open_host(struct world *w, double timeout_s, struct devices *d,
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
                             struct devices *d)
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

/* Opens the devices of this process, and communicators that connect those of all processes. */
static enum status devices_open(const struct collective_config *c, struct world *w,
                                struct devices *d)
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

/* Does not close comm[], because collective_run closes it. */
static void devices_close(struct devices *d)
{
    for (int i = 0; i < DEVICES_MAX; i++)
        comm_close(d->joint[i]);
    for (int i = 0; i < DEVICES_MAX; i++)
        comm_close(d->local[i]);
    comm_nccl_drop(d->port);
    for (int i = 0; i < DEVICES_MAX; i++)
        device_close(d->device[i]);
}

/* --- the benchmark --- */

/* Checks that all processes have the same settings. */
static enum status collective_agree(const struct collective_config *c, struct world *w)
{
    json_t *settings = collective_config_json(c);
    const char *devices = c->options.devices ? c->options.devices : "host";
    json_put(settings, "devices", json_utf8(devices));
    json_put(settings, "gpus", json_integer(c->gpus));
    json_put(settings, "comm", json_integer((int)c->via));
    enum status st = world_agree(w, settings);
    json_decref(settings);
    return st;
}

/* Opens the ranks and measures. The ranks are the processes of the job, threads of this process, or
 * devices. */
static enum status collective_job(const struct collective_config *c, struct world *w,
                                  struct devices *d)
{
    struct world_config meeting = world_config_default();
    struct comm *comm[COLLECTIVE_RANKS_MAX];
    bool launched = world_launched(&meeting);
    int members = launched ? 1 : c->ranks ? c->ranks : 2;
    if (launched && c->ranks)
        return status_fail(STATUS_USAGE, "--ranks is for threads of one process, but a launcher "
                                         "started several processes; leave out --ranks");
    if (!launched && (c->via == VIA_MPI || c->via == VIA_GLOO))
        return status_fail(STATUS_USAGE,
                           "--comm %s is for the processes of a job: start them with "
                           "'ampscale launch --nproc 2 -- bench collective ...'",
                           c->via == VIA_MPI ? "mpi" : "gloo");
    bool devices = c->options.devices || c->gpus;
    if ((c->ranks != 0) + (c->gpus != 0) + (c->options.devices != NULL) > 1)
        return status_fail(STATUS_USAGE, "--ranks, --devices and --ngpus: give one of them");
    if (devices)
        TRY(devices_find(c, d));
    meeting.via = c->via;
    meeting.blocking = !devices; /* whose operations threads carry out */
    TRY(world_open(&meeting, w));
    members = devices ? d->list.n : members;
    if (w->size > COLLECTIVE_RANKS_MAX / members)
        return status_fail(
            STATUS_USAGE,
            "%d ranks in each of %d processes are too many: the limit is %d ranks in total",
            members, w->size, COLLECTIVE_RANKS_MAX);
    if (comm_has_root(c->kind) && c->root >= w->size * members)
        return status_fail(STATUS_USAGE, "--root %d: there are %d ranks, from 0 to %d", c->root,
                           w->size * members, w->size * members - 1);
    TRY(collective_agree(c, w));
    struct collective_ranks ranks = {.members = members, .comm = &w->comm, .words = &w->comm};
    if (devices) {
        TRY(devices_open(c, w, d));
        ranks.comm = d->comm, ranks.words = d->words, ranks.why = d->group.why;
    } else if (!launched) {
        TRY(comm_open_local(members, meeting.timeout_s, comm));
        ranks.comm = ranks.words = comm;
    } else {
        TRY(world_check_data(w));
    }
    return collective_run(c, w, &ranks);
}

enum status bench_collective(const struct collective_config *c)
{
    struct world w = {0};
    struct devices d = {.n = 0};
    if (c->last < c->first)
        return status_fail(STATUS_USAGE,
                           "the largest size, %" PRId64 ", is below the smallest, %" PRId64,
                           c->last, c->first);
    if (comm_reduces(c->kind) && c->type == DTYPE_U8)
        return status_fail(
            STATUS_USAGE, "%s cannot reduce bytes; -d uint8 is for collectives that only move data",
            comm_kind_str(c->kind));
    enum status st = collective_job(c, &w, &d);
    fflush(c->options.out); /* comm_fail may end the process before the output is flushed */
    if (st != STATUS_OK && w.size > 1)
        comm_fail(w.comm, st, status_message());
    devices_close(&d);
    world_close(&w);
    return st;
}
