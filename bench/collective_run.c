/* The ranks of a measurement of collectives: processes of a job, or threads of this process. */
#include "bench/collective.h"

#include "base/thread_pool.h"
#include "runners/world.h"

#include <inttypes.h>
#include <stdlib.h>

struct job {
    const struct collective_config *config;
    struct world *world;                  /* the processes */
    const struct collective_ranks *ranks; /* threads of this process */
    struct thread_pool *pool;
    struct collective_buffers buffers[COLLECTIVE_RANKS_MAX]; /* (members) */
    struct collective_rank rank[COLLECTIVE_RANKS_MAX];
    int64_t wrong; /* written by the first member */
};

static enum status check_config(const struct collective_config *c)
{
    if (c->last < c->first)
        return status_fail(STATUS_USAGE,
                           "the largest size, %" PRId64 ", is below the smallest, "
                           "%" PRId64,
                           c->last, c->first);
    if (collective_reduces(c->kind) && c->type == DTYPE_U8)
        return status_fail(STATUS_USAGE, "bytes can only be moved: %s has no -d uint8",
                           comm_kind_str(c->kind));
    return STATUS_OK;
}

/* Settings that all processes need alike. */
static enum status agree(const struct collective_config *c, struct world *w)
{
    json_t *settings = json_pack(
        "{s:s, s:s, s:i, s:I, s:I, s:I, s:i, s:i, s:i, s:i, s:i, s:s, s:i}", "collective",
        comm_kind_str(c->kind), "type", collective_type_str(c->type), "reduction",
        (int)c->reduction, "min-bytes", (json_int_t)c->first, "max-bytes", (json_int_t)c->last,
        "step-bytes", (json_int_t)c->step, "step-factor", c->factor, "iters", c->timing.most,
        "warmup", c->timing.warmup, "check", c->checks, "deepbench", c->listed, "devices",
        c->devices ? c->devices : "host", "comm", (int)c->via);
    if (!settings)
        return status_fail(STATUS_OOM, "no memory for settings");
    enum status st = world_agree(w, settings);
    json_decref(settings);
    return st;
}

static enum status report_begin(struct job *j, int ranks, struct collective_report *r)
{
    json_t *versions = json_pack("{s:s}", "MPI", comm_mpi_version());
    if (!versions)
        return status_fail(STATUS_OOM, "no memory for the record");
    for (int i = 0; i < ranks; i++) {
        const struct rank_info *info = &j->world->info[i / j->ranks->members];
        j->rank[i] = (struct collective_rank){.host = info->host, .pid = info->pid};
    }
    *r = (struct collective_report){.config = j->config,
                                    .network = comm_name(j->ranks->comm[0]),
                                    .memory = comm_device(j->ranks->comm[0]) ? "device" : "host",
                                    .why = j->ranks->why ? j->ranks->why : "",
                                    .versions = versions,
                                    .ranks = ranks,
                                    .threads = j->ranks->members,
                                    .rank = j->rank};
    return collective_report_begin(r);
}

/* Sizes number 0, 1 ...; -1 when there are no more. `before` is the one before. */
static int64_t size_number(const struct collective_config *c, int i, int64_t before)
{
    if (c->list)
        return i < c->listed ? c->list[i] : -1;
    int64_t bytes = i == 0 ? c->first : c->step ? before + c->step : before * c->factor;
    return bytes <= c->last ? bytes : -1;
}

/* What a rank does; the first one tells. */
static enum status measure(struct job *j, int member)
{
    const struct collective_config *c = j->config;
    struct comm *comm = j->ranks->comm[member];
    struct collective_buffers *b = &j->buffers[member];
    bool tells = comm_rank(comm) == 0;
    struct collective_report r = {.config = c};
    struct collective_row row;
    int64_t wrong = 0;
    enum status st;
    if (tells)
        CHECK(report_begin(j, comm_size(comm), &r));
    CHECK(collective_buffers_open(comm, j->ranks->words[member], c->last, b));
    int64_t bytes = 0;
    for (int i = 0; (bytes = size_number(c, i, bytes)) > 0; i++) {
        CHECK(collective_measure(c, comm, b, bytes, &row));
        for (int p = 0; p < COLLECTIVE_PLACES; p++)
            wrong += row.place[p].wrong > 0 ? row.place[p].wrong : 0;
        if (tells)
            CHECK(collective_report_row(&r, &row));
    }
    if (tells)
        CHECK(collective_report_end(&r));
    if (member == 0)
        j->wrong = wrong;
done:
    json_decref((json_t *)r.versions);
    collective_report_close(&r);
    return st;
}

static enum status member_run(void *context, int member)
{
    struct job *j = context;
    enum status st = measure(j, member);
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
    enum status st = STATUS_OK;
    struct job *j = calloc(1, sizeof *j);
    if (!j) {
        st = status_fail(STATUS_OOM, "no memory for a benchmark");
        goto done;
    }
    *j = (struct job){.config = c, .world = w, .ranks = ranks};
    CHECK(thread_pool_open(ranks->members, &j->pool));
    CHECK(thread_pool_run(j->pool, member_run, j));
    if (j->wrong > 0)
        st = status_fail(STATUS_MISMATCH, "%" PRId64 " elements that %s gave are wrong", j->wrong,
                         comm_kind_str(c->kind));
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

/* The processes of the job, or threads. */
static enum status run(const struct collective_config *c, struct world *w,
                       struct collective_devices *d)
{
    const struct device_list host = {.n = 1};
    const struct train_config train = train_config_default();
    struct comm *comm[COLLECTIVE_RANKS_MAX];
    bool launched = comm_under_mpi();
    int members = launched ? 1 : c->ranks ? c->ranks : 2;
    if (launched && c->ranks)
        return status_fail(STATUS_USAGE, "--ranks is for threads of one process, but a launcher "
                                         "started several; leave it out");
    if (c->devices && c->ranks)
        return status_fail(STATUS_USAGE, "--ranks and --devices: give one of them");
    if (c->devices)
        TRY(collective_devices_find(c, d));
    TRY(world_open(&train, c->devices ? &d->list : &host, w));
    members = c->devices ? d->list.n : members;
    if (w->size > COLLECTIVE_RANKS_MAX / members)
        return status_fail(STATUS_USAGE, "%d ranks in each of %d processes are more than %d",
                           members, w->size, COLLECTIVE_RANKS_MAX);
    TRY(agree(c, w));
    if (c->devices)
        return run_on_devices(c, w, d);
    struct collective_ranks ranks = {.members = 1, .comm = &w->comm, .words = &w->comm};
    if (!launched) {
        TRY(comm_open_local(members, train.comm_timeout, comm));
        ranks = (struct collective_ranks){.members = members, .comm = comm, .words = comm};
    }
    return collective_run(c, w, &ranks);
}

enum status bench_collective(const struct collective_config *c)
{
    struct world w = {0};
    struct collective_devices d = {.n = 0};
    TRY(check_config(c));
    enum status st = run(c, &w, &d);
    fflush(c->out); /* comm_fail may end the process */
    if (st != STATUS_OK && w.size > 1)
        comm_fail(w.comm, st, status_message());
    collective_devices_close(&d);
    world_close(&w);
    return st;
}
