/* Measures collectives between ranks that are processes of a job, or threads of this process. */
#include "bench/collective.h"

#include "base/array.h"
#include "base/json.h"
#include "base/thread_pool.h"

#include <inttypes.h>
#include <stdlib.h>

struct job {
    const struct collective_config *config;
    struct world *world;                  /* the processes */
    const struct collective_ranks *ranks; /* threads of this process */
    struct thread_pool *pool;
    struct collective_buffers buffers[COLLECTIVE_RANKS_MAX]; /* (members) */
    int64_t wrong;                                           /* written by the first member */
};

/* Checks that all processes have the same settings. */
static enum status collective_agree(const struct collective_config *c, struct world *w)
{
    json_t *settings = collective_config_json(c);
    const char *devices = c->options.devices ? c->options.devices : "host";
    enum status st;
    CHECK(json_put(settings, "devices", json_string(devices)));
    CHECK(json_put(settings, "gpus", json_integer(c->gpus)));
    CHECK(json_put(settings, "comm", json_integer((int)c->via)));
    CHECK(world_agree(w, settings));
done:
    json_decref(settings);
    return st;
}

static enum status report_begin(struct job *j, int ranks, struct collective_report *r)
{
    json_t *versions;
    TRY(json_new(&versions, "{s:s}", "MPI", comm_mpi_version()));
    *r = (struct collective_report){.config = j->config,
                                    .network = comm_name(j->ranks->comm[0]),
                                    .memory = comm_device(j->ranks->comm[0]) ? "device" : "host",
                                    .why = j->ranks->why ? j->ranks->why : "",
                                    .versions = versions,
                                    .ranks = ranks,
                                    .threads = j->ranks->members,
                                    .process = j->world->info};
    collective_report_begin(r);
    return STATUS_OK;
}

/* Returns size number i, in bytes, or -1 if i is beyond the last size. `before` is the previous
 * size. */
static int64_t size_number(const struct collective_config *c, int i, int64_t before)
{
    int64_t bytes = i == 0 ? c->first : c->step ? before + c->step : before * c->factor;
    return bytes <= c->last ? bytes : -1;
}

static int count_sizes(const struct collective_config *c)
{
    int n = 0;
    for (int64_t bytes = 0; (bytes = size_number(c, n, bytes)) > 0;)
        n++;
    return n;
}

/* Measures all sizes as one rank of the communicator. Rank 0 prints the report. */
static enum status collective_member(struct job *j, int member)
{
    const struct collective_config *c = j->config;
    struct comm *comm = j->ranks->comm[member];
    struct collective_buffers *b = &j->buffers[member];
    bool reports = comm_rank(comm) == 0;
    struct bar *bar = c->options.timing.bar; /* progress bar, which rank 0 draws */
    struct collective_report r = {.config = c};
    struct collective_row row;
    int64_t wrong = 0;
    enum status st;
    if (reports)
        CHECK(report_begin(j, comm_size(comm), &r));
    CHECK(collective_buffers_open(comm, j->ranks->words[member], c->last, c->aggregated, b));
    int64_t bytes = 0;
    if (reports)
        bar_begin(bar, count_sizes(c));
    for (int i = 0; (bytes = size_number(c, i, bytes)) > 0; i++) {
        CHECK(collective_measure(c, comm, b, bytes, &row));
        for (int p = 0; p < COLLECTIVE_PLACES; p++)
            wrong += row.place[p].wrong > 0 ? row.place[p].wrong : 0;
        if (!reports)
            continue;
        collective_report_row(&r, &row);
        bar_step(bar);
    }
    if (reports)
        CHECK(collective_report_end(&r));
    if (member == 0)
        j->wrong = wrong;
done:
    json_decref((json_t *)r.versions);
    bench_table_close(&r.table);
    return st;
}

static enum status member_run(void *context, int member)
{
    struct job *j = context;
    enum status st = collective_member(j, member);
    if (st == STATUS_OK)
        return st;
    char why[512];
    snprintf(why, sizeof why, "%s", status_message());
    comm_fail(j->ranks->comm[member], st, why);
    if (j->ranks->words[member] != j->ranks->comm[member])
        comm_fail(j->ranks->words[member], st, why);
    return status_fail(st, "%s", why);
}

enum status collective_run(const struct collective_config *c, struct world *w,
                           const struct collective_ranks *ranks)
{
    struct job *j;
    enum status st;
    CHECK(array_new(&j, 1));
    *j = (struct job){.config = c, .world = w, .ranks = ranks};
    CHECK(thread_pool_open(ranks->members, &j->pool));
    CHECK(thread_pool_run(j->pool, member_run, j));
    if (j->wrong > 0)
        st = status_fail(STATUS_MISMATCH, "%" PRId64 " elements of the results of %s are wrong",
                         j->wrong, comm_kind_str(c->kind));
done:
    for (int i = 0; i < ranks->members; i++)
        if (ranks->comm[i] != w->comm)
            comm_close(ranks->comm[i]);
    for (int i = 0; j && i < ranks->members; i++)
        collective_buffers_close(&j->buffers[i]);
    if (j)
        thread_pool_close(j->pool);
    free(j);
    return st;
}

static enum status run_on_devices(const struct collective_config *c, struct world *w,
                                  struct collective_devices *d)
{
    TRY(collective_devices_open(c, w, d));
    const struct collective_ranks ranks = {
        .members = d->n, .comm = d->comm, .words = d->words, .why = d->group.why};
    return collective_run(c, w, &ranks);
}

/* Opens the ranks and measures. The ranks are the processes of the job, threads of this process, or
 * devices. */
static enum status collective_job(const struct collective_config *c, struct world *w,
                                  struct collective_devices *d)
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
        TRY(collective_devices_find(c, d));
    meeting.via = c->via;
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
    if (devices)
        return run_on_devices(c, w, d);
    TRY(world_check_data(w));
    struct collective_ranks ranks = {.members = 1, .comm = &w->comm, .words = &w->comm};
    if (!launched) {
        TRY(comm_open_local(members, meeting.timeout_s, comm));
        ranks = (struct collective_ranks){.members = members, .comm = comm, .words = comm};
    }
    return collective_run(c, w, &ranks);
}

enum status bench_collective(const struct collective_config *c)
{
    struct world w = {0};
    struct collective_devices d = {.n = 0};
    if (c->last < c->first)
        return status_fail(STATUS_USAGE,
                           "the largest size, %" PRId64 ", is below the smallest, "
                           "%" PRId64,
                           c->last, c->first);
    if (comm_reduces(c->kind) && c->type == DTYPE_U8)
        return status_fail(
            STATUS_USAGE, "%s cannot reduce bytes; -d uint8 is for collectives that only move data",
            comm_kind_str(c->kind));
    enum status st = collective_job(c, &w, &d);
    fflush(c->options.out); /* comm_fail may end the process before the output is flushed */
    if (st != STATUS_OK && w.size > 1)
        comm_fail(w.comm, st, status_message());
    collective_devices_close(&d);
    world_close(&w);
    return st;
}
