/* Retests the nodes of a job, one rank on each node. */
#include "accept/pair_job.h"

#include "accept/fleet_job.h"
#include "base/array.h"
#include "base/file.h"
#include "base/json.h"
#include "comm/world.h"
#include "launch/hosts.h"
#include "results/nodes.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct look {
    struct world world;
    bool *suspect;               /* (ranks) */
    const char **name;           /* (ranks) */
    char (*text)[NODE_NAME_MAX]; /* (ranks) memory of the names */
};

static enum status name_ranks(struct look *l)
{
    const struct world *w = &l->world;
    TRY(array_new(&l->suspect, w->size));
    TRY(array_new(&l->name, w->size));
    TRY(array_new(&l->text, w->size));
    for (int r = 0; r < w->size; r++) {
        fleet_rank_name(w->info, r, l->text[r], sizeof l->text[r]);
        l->name[r] = l->text[r];
    }
    return STATUS_OK;
}

/* Marks a node as suspect; `node` is its name or its rank. */
static enum status mark(struct look *l, const char *node)
{
    char *end;
    long rank = strtol(node, &end, 10);
    for (int r = 0; r < l->world.size; r++) {
        if (strcmp(l->name[r], node) == 0) {
            l->suspect[r] = true;
            return STATUS_OK;
        }
    }
    if (!isdigit((unsigned char)*node) || *end != '\0' || rank >= l->world.size)
        return status_fail(STATUS_USAGE,
                           "--failing '%s': neither the name of a node of this job nor a rank; "
                           "rank 0 is '%s', and the job has %d ranks",
                           node, l->name[0], l->world.size);
    l->suspect[rank] = true;
    return STATUS_OK;
}

/* Marks the failing nodes; rank 0 reads the list for all ranks. */
static enum status mark_failing(const char *failing, struct look *l)
{
    struct launch_hosts hosts = {0};
    enum status st = STATUS_OK;
    if (l->world.rank == 0) {
        CHECK(path_exists(failing) ? launch_hosts_read(&hosts, failing)
                                   : launch_hosts_parse(&hosts, failing));
        for (int i = 0; i < hosts.n; i++)
            CHECK(mark(l, hosts.v[i].name));
    }
    CHECK(world_share(&l->world, l->suspect, (size_t)l->world.size * sizeof *l->suspect));
done:
    launch_hosts_free(&hosts);
    return st;
}

static enum status agree(const struct pair_config *c, struct world *w)
{
    json_t *settings;
    TRY(json_new(&settings, "{s:i, s:I, s:f, s:f, s:I, s:i, s:s, s:i, s:i, s:i, s:s}", "partners",
                 c->partners, "seed", (json_int_t)c->seed, "within", c->within, "latency-within",
                 c->latency_within, "mib", (json_int_t)(c->bytes >> 20), "samples", c->samples,
                 "net", c->step.net, "batch-size", c->step.batch, "image-size", c->step.image_size,
                 "rounds", c->step.rounds, "precision", bench_precision(&c->step)));
    enum status st = world_agree(w, settings);
    json_decref(settings);
    return st;
}

/* On rank 0, prints the result, and writes it to the folder `out` if that is given. */
static enum status report(const struct pair_config *c, const struct pair_result *r, const char *out)
{
    char path[4096];
    if (out) {
        TRY(dir_make(out));
        TRY(path_format(path, sizeof path, "%s/pair.json", out));
        TRY(json_write(pair_json(c, r), path, JSON_RECORD));
    }
    if (c->step.format == BENCH_JSON)
        return json_print(pair_json(c, r), stdout, JSON_RECORD);
    pair_print(c, r, stdout);
    return STATUS_OK;
}

static enum status look_again(const struct pair_job *job, struct look *l, int *code)
{
    struct pair_result r = {{0}};
    struct world *w = &l->world;
    struct pair_config c = job->run;
    TRY(name_ranks(l));
    TRY(agree(&c, w));
    TRY(mark_failing(job->failing, l));
    c.suspect = l->suspect;
    c.name = l->name;
    c.alone = true;
    for (int k = 0; k < w->size; k++)
        c.alone = c.alone && (k == w->rank || strcmp(w->info[k].host, w->info[w->rank].host) != 0);
    c.delay = inject_delay(&job->faults, w->rank);
    c.progress = w->rank == 0 && !c.step.quiet ? stderr : NULL;
    if (c.step.threads == 0)
        c.step.threads = world_threads(w, 1);
    TRY(pair_run(&c, w->comm, &r));
    enum status st = w->rank == 0 ? report(&c, &r, job->out) : STATUS_OK;
    if (w->rank == 0)
        *code = pair_exit_code(r.finding, r.n);
    pair_result_free(&r);
    return st;
}

enum status pair_job_run(const struct pair_job *job, int *code)
{
    const struct world_config meeting = world_config_default();
    struct look l = {{0}};
    if (!comm_under_mpi())
        return status_fail(STATUS_USAGE, "pair must run as the ranks of a job, one rank per node: "
                                         "'ampscale launch --hosts a,b,c -- pair ...'");
    enum status st = world_open(&meeting, &l.world);
    if (st == STATUS_OK)
        st = look_again(job, &l, code);
    fflush(stdout); /* comm_fail may end the process */
    if (st != STATUS_OK && l.world.size > 1)
        comm_fail(l.world.comm, st, status_message());
    world_close(&l.world);
    free(l.suspect);
    free(l.name);
    free(l.text);
    return st;
}
