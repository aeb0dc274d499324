/* The ranks of a measurement of collectives: processes of a job, or threads of this process. */
#include "bench/collective.h"

#include "runners/team.h"
#include "runners/world.h"

#include <inttypes.h>
#include <stdlib.h>

struct job {
    const struct collective_config *config;
    struct world world;                      /* the processes */
    int members;                             /* threads of this process that are ranks */
    struct comm *comm[COLLECTIVE_RANKS_MAX]; /* (members) */
    struct team *team;
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

static enum status join(struct job *j)
{
    const struct device_list host = {.n = 1};
    struct train_config train = train_config_default();
    int ranks = j->config->ranks ? j->config->ranks : 2;
    if (comm_under_mpi() && j->config->ranks)
        return status_fail(STATUS_USAGE, "--ranks is for threads of one process, but a launcher "
                                         "started several; leave it out");
    TRY(world_open(&train, &host, &j->world));
    j->members = comm_under_mpi() ? 1 : ranks;
    if (comm_under_mpi() && j->world.size > COLLECTIVE_RANKS_MAX)
        return status_fail(STATUS_USAGE, "%d ranks are more than %d", j->world.size,
                           COLLECTIVE_RANKS_MAX);
    if (!comm_under_mpi())
        return comm_open_local(ranks, train.comm_timeout, j->comm);
    j->comm[0] = j->world.comm;
    return STATUS_OK;
}

/* Settings that all processes need alike. */
static enum status agree(struct job *j)
{
    const struct collective_config *c = j->config;
    json_t *settings =
        json_pack("{s:s, s:s, s:i, s:I, s:I, s:I, s:i, s:i, s:i, s:i}", "collective",
                  comm_kind_str(c->kind), "type", collective_type_str(c->type), "reduction",
                  (int)c->reduction, "min-bytes", (json_int_t)c->first, "max-bytes",
                  (json_int_t)c->last, "step-bytes", (json_int_t)c->step, "step-factor", c->factor,
                  "iters", c->timing.most, "warmup", c->timing.warmup, "check", c->checks);
    if (!settings)
        return status_fail(STATUS_OOM, "no memory for settings");
    enum status st = world_agree(&j->world, settings);
    json_decref(settings);
    return st;
}

static enum status report_begin(struct job *j, int ranks, struct collective_report *r)
{
    json_t *versions = json_pack("{s:s}", "MPI", comm_mpi_version());
    if (!versions)
        return status_fail(STATUS_OOM, "no memory for the record");
    for (int i = 0; i < ranks; i++) {
        const struct rank_info *info = &j->world.info[j->world.size > 1 ? i : 0];
        j->rank[i] = (struct collective_rank){.host = info->host, .pid = info->pid};
    }
    *r = (struct collective_report){.config = j->config,
                                    .network = comm_name(j->comm[0]),
                                    .versions = versions,
                                    .ranks = ranks,
                                    .threads = j->members,
                                    .rank = j->rank};
    return collective_report_begin(r);
}

static int64_t next_size(const struct collective_config *c, int64_t bytes)
{
    return c->step ? bytes + c->step : bytes * c->factor;
}

/* What a rank does; the first one tells. */
static enum status measure(struct job *j, struct comm *comm)
{
    const struct collective_config *c = j->config;
    bool tells = comm_rank(comm) == 0;
    struct collective_report r = {.config = c};
    struct collective_buffers b = {0};
    struct collective_row row;
    int64_t wrong = 0;
    enum status st;
    if (tells)
        CHECK(report_begin(j, comm_size(comm), &r));
    CHECK(collective_buffers_open(comm, c->last, &b));
    for (int64_t bytes = c->first; bytes <= c->last; bytes = next_size(c, bytes)) {
        CHECK(collective_measure(c, comm, &b, bytes, &row));
        for (int p = 0; p < COLLECTIVE_PLACES; p++)
            wrong += row.place[p].wrong > 0 ? row.place[p].wrong : 0;
        if (tells)
            CHECK(collective_report_row(&r, &row));
    }
    if (tells)
        CHECK(collective_report_end(&r));
    if (comm == j->comm[0])
        j->wrong = wrong;
done:
    collective_buffers_close(&b);
    json_decref((json_t *)r.versions);
    collective_report_close(&r);
    return st;
}

static enum status member_run(void *context, int member)
{
    struct job *j = context;
    struct comm *comm = j->comm[member];
    enum status st = measure(j, comm);
    if (st != STATUS_OK)
        comm_fail(comm, st, status_message());
    return st;
}

static enum status run(struct job *j)
{
    TRY(join(j));
    TRY(agree(j));
    TRY(team_open(j->members, &j->team));
    TRY(team_run(j->team, member_run, j));
    if (j->wrong == 0)
        return STATUS_OK;
    return status_fail(STATUS_MISMATCH, "%" PRId64 " elements that %s gave are wrong", j->wrong,
                       comm_kind_str(j->config->kind));
}

enum status bench_collective(const struct collective_config *c)
{
    TRY(check_config(c));
    struct job *j = calloc(1, sizeof *j);
    if (!j)
        return status_fail(STATUS_OOM, "no memory for a benchmark");
    j->config = c;
    enum status st = run(j);
    if (st != STATUS_OK && j->world.size > 1)
        comm_fail(j->world.comm, st, status_message());
    team_close(j->team);
    for (int i = 0; i < j->members; i++)
        if (j->comm[i] != j->world.comm)
            comm_close(j->comm[i]);
    world_close(&j->world);
    free(j);
    return st;
}
