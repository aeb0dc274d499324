/* Retests the nodes of a job: every rank measures its own step, then the pairs are tested. */
#include "accept/pair.h"

#include "accept/fleet_job.h"
#include "base/array.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/json.h"
#include "base/stats.h"
#include "bench/collective.h"
#include "bench/noise_step.h"
#include "comm/world.h"
#include "launch/hosts.h"
#include "model/graph.h"
#include "results/load.h"
#include "results/nodes.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    PAIR_SCHEMA = 1,   /* version of pair.json; increases when a program that reads the previous
                        * version would misunderstand the new one */
    LATENCY_BYTES = 8, /* of the short allreduce, whose time is the latency of link and nodes */
    CLASSES = 1000,
    WARMUP = 2,
    SEEN = 3, /* numbers measured in a pair test */
};

/* Runs one training step, prolonged by the injected delay, and measures its time in seconds. */
static enum status timed_step(struct network *net, double delay, double *seconds)
{
    TRY(noise_step_run(net, seconds));
    double more = delay * *seconds;
    struct timespec t = {.tv_sec = (time_t)more, .tv_nsec = (long)(1e9 * (more - floor(more)))};
    if (delay > 0)
        nanosleep(&t, NULL);
    *seconds *= 1 + delay;
    return STATUS_OK;
}

/* Sets *median to the median time, in seconds, of c->step.rounds steps of this rank. */
static enum status own_step(const struct pair_config *c, double *median)
{
    struct graph *graph = NULL;
    struct device *dev = NULL;
    struct network *net = NULL;
    double *seconds = NULL;
    enum status st;
    CHECK(array_new(&seconds, c->step.rounds));
    CHECK(graph_build(c->step.net, CLASSES, c->step.image_size, &graph));
    CHECK(device_open(c->step.devices, c->step.threads, &dev));
    CHECK(noise_step_open(dev, graph, &c->step, false, &net));
    for (int i = 0; i < c->step.rounds; i++)
        CHECK(timed_step(net, c->delay, &seconds[i]));
    *median = stats_median(seconds, c->step.rounds);
done:
    network_close(net);
    device_close(dev);
    graph_free(graph);
    free(seconds);
    return st;
}

/* Every rank measures its own step, at the same time as the others; then every rank gets all
 * times. */
static enum status measure_steps(const struct pair_config *c, struct comm *comm, double *step)
{
    double own = 0;
    if (c->progress)
        fprintf(c->progress, "training step of each node alone: %s, %d images\n", c->step.net,
                c->step.batch);
    TRY(own_step(c, &own));
    step[comm_rank(comm)] = own; /* the other elements are 0, so that the sum gathers all ranks'
                                  * times */
    return comm_sum(comm, step, comm_size(comm));
}

static void print_round(const struct pair_config *c, const struct pair_plan *p, int round)
{
    const char *comma = "";
    if (!c->progress)
        return;
    fprintf(c->progress, "round %d of %d: ", round + 1, p->rounds);
    for (int i = 0; i < p->n; i++) {
        const struct pair_meeting *m = &p->meeting[i];
        if (m->round != round)
            continue;
        fprintf(c->progress, "%s%s and %s", comma, c->name[m->a], c->name[m->b]);
        comma = ", ";
    }
    fputc('\n', c->progress);
    fflush(c->progress);
}

/* Runs the collectives of a pair test; a rank without a partner runs them alone. Every rank runs
 * the same number of operations, so that the operation counts of all ranks' communicators stay
 * equal. */
static enum status meet(const struct pair_config *c, struct comm *comm, struct pair_link *link)
{
    struct collective_config config = collective_config_default();
    struct collective_buffers buffers = {0};
    struct collective_row few, many;
    enum status st;
    config.kind = COMM_ALLREDUCE;
    config.options.timing = (struct harness_config){.warmup = WARMUP, .most = c->samples};
    CHECK(collective_buffers_open(comm, comm, c->bytes, 1, &buffers));
    CHECK(collective_measure(&config, comm, &buffers, LATENCY_BYTES, &few));
    CHECK(collective_measure(&config, comm, &buffers, c->bytes, &many));
    *link = (struct pair_link){.busbw = many.place[COLLECTIVE_OUT].busbw,
                               .latency = few.place[COLLECTIVE_OUT].time.median};
    for (int p = 0; p < COLLECTIVE_PLACES; p++)
        link->wrong += few.place[p].wrong + many.place[p].wrong;
done:
    collective_buffers_close(&buffers);
    return st;
}

/* Runs a round. The first rank of each pair writes the pair's measurements to its part of `seen`
 * (SEEN n). All other elements are 0, so that a sum over the ranks gathers the measurements. */
static enum status run_round(const struct pair_config *c, struct comm *comm,
                             const struct pair_plan *p, int round, double *seen)
{
    int rank = comm_rank(comm), mine = pair_plan_meeting(p, round, rank);
    struct pair_link link;
    print_round(c, p, round);
    TRY(comm_divide(comm, mine >= 0 ? mine : p->n + rank));
    TRY(meet(c, comm, &link));
    if (mine >= 0 && comm_rank(comm) == 0) {
        seen[SEEN * mine] = link.busbw;
        seen[SEEN * mine + 1] = link.latency;
        seen[SEEN * mine + 2] = (double)link.wrong;
    }
    return comm_divide(comm, -1);
}

static enum status run_rounds(const struct pair_config *c, struct comm *comm, struct pair_result *r)
{
    const struct pair_plan *p = &r->plan;
    enum status st = STATUS_OK;
    double *seen;
    TRY(array_new(&seen, SEEN * p->n));
    for (int round = 0; round < p->rounds; round++)
        CHECK(run_round(c, comm, p, round, seen));
    CHECK(comm_sum(comm, seen, SEEN * (int64_t)p->n));
    for (int i = 0; i < p->n; i++) {
        const double *s = &seen[SEEN * i];
        r->link[i] = (struct pair_link){.busbw = s[0], .latency = s[1], .wrong = (int64_t)s[2]};
    }
done:
    free(seen);
    return st;
}

/* Gives every rank the noise of all ranks. */
static enum status share_noise(const struct pair_config *c, struct comm *comm,
                               const struct load *begin, const struct load_meter *meter,
                               struct host_noise *noise)
{
    enum { NUMBERS = sizeof *noise / sizeof(double) };
    _Static_assert(sizeof *noise == NUMBERS * sizeof(double), "all members are double");
    struct load end = load_read(meter);
    struct host_noise *own = &noise[comm_rank(comm)];
    *own = load_between(begin, &end);
    if (!c->alone) /* the counters do not separate the job's other processes from foreign ones */
        own->others = NAN;
    return comm_sum(comm, &noise->seconds, NUMBERS * (int64_t)comm_size(comm));
}

void pair_result_free(struct pair_result *r)
{
    pair_plan_free(&r->plan);
    free(r->step);
    free(r->link);
    free(r->noise);
    free(r->finding);
    *r = (struct pair_result){0};
}

enum status pair_run(const struct pair_config *c, struct comm *comm, struct pair_result *r)
{
    int ranks = comm_size(comm);
    struct load_meter meter;
    enum status st;
    *r = (struct pair_result){0};
    load_open(&meter, NULL, NULL);
    CHECK(pair_plan_make(c->suspect, ranks, c->partners, c->seed, &r->plan));
    CHECK(array_new(&r->step, ranks));
    CHECK(array_new(&r->link, r->plan.n));
    CHECK(array_new(&r->noise, ranks));
    struct load begin = load_read(&meter);
    CHECK(measure_steps(c, comm, r->step));
    CHECK(run_rounds(c, comm, r));
    CHECK(share_noise(c, comm, &begin, &meter, r->noise));
    const struct pair_judging j = {.plan = &r->plan,
                                   .suspect = c->suspect,
                                   .step = r->step,
                                   .link = r->link,
                                   .noise = r->noise,
                                   .name = c->name,
                                   .within = c->within,
                                   .latency_within = c->latency_within};
    CHECK(pair_judge(&j, &r->finding, &r->n));
done:
    if (st != STATUS_OK)
        pair_result_free(r);
    return st;
}

/* --- the result --- */

void pair_print(const struct pair_config *c, const struct pair_result *r, FILE *out)
{
    fprintf(out, "%-28s %-8s %10s\n", "node", "before", "step, ms");
    for (int i = 0; i < r->plan.ranks; i++)
        fprintf(out, "%-28s %-8s %10.4g\n", c->name[i], c->suspect[i] ? "failed" : "passed",
                1e3 * r->step[i]);
    fprintf(out, "%5s  %-28s %-28s %11s %11s %7s\n", "round", "node", "with", "busbw, GB/s",
            "latency, us", "wrong");
    for (int i = 0; i < r->plan.n; i++) {
        const struct pair_meeting *m = &r->plan.meeting[i];
        fprintf(out, "%5d  %-28s %-28s %11.4g %11.4g %7" PRId64 "\n", m->round + 1, c->name[m->a],
                c->name[m->b], r->link[i].busbw, 1e6 * r->link[i].latency, r->link[i].wrong);
    }
    for (int i = 0; i < r->n; i++)
        fprintf(out, "%s: %s\n", c->name[r->finding[i].rank], r->finding[i].reason);
}

/* docs/schema/pair.schema.json. */
static json_t *pair_json(const struct pair_config *c, const struct pair_result *r)
{
    json_t *steps = json_array(), *meetings = json_array(), *findings = json_array();
    for (int i = 0; i < r->plan.ranks; i++)
        json_add(steps,
                 json_new("{s:s, s:b, s:f, s:o}", "node", c->name[i], "suspect", c->suspect[i],
                          "step_s", r->step[i], "noise", host_noise_json(&r->noise[i])));
    for (int i = 0; i < r->plan.n; i++) {
        const struct pair_meeting *m = &r->plan.meeting[i];
        const struct pair_link *l = &r->link[i];
        json_add(meetings,
                 json_new("{s:i, s:b, s:[s, s], s:f, s:f, s:I}", "round", m->round, "reference",
                          m->reference, "nodes", c->name[m->a], c->name[m->b], "busbw", l->busbw,
                          "latency_s", l->latency, "wrong", (json_int_t)l->wrong));
    }
    for (int i = 0; i < r->n; i++) {
        const struct pair_finding *f = &r->finding[i];
        json_add(findings, json_new("{s:s, s:s, s:s}", "node", c->name[f->rank], "verdict",
                                    pair_verdict_str(f->verdict), "reason", f->reason));
    }
    return json_new("{s:s, s:i, s:b, s:I, s:f, s:f, s:I, s:o, s:o, s:o}", "record", "pair",
                    "schema", PAIR_SCHEMA, "passed", pair_exit_code(r->finding, r->n) == 0, "seed",
                    (json_int_t)c->seed, "within", c->within, "latency_within", c->latency_within,
                    "bytes", (json_int_t)c->bytes, "steps", steps, "meetings", meetings, "findings",
                    findings);
}

/* --- the job --- */

struct look {
    struct world world;
    bool *suspect;               /* (ranks) */
    const char **name;           /* (ranks) */
    char (*text)[NODE_NAME_MAX]; /* (ranks) memory of the names */
};

static enum status name_ranks(struct look *l)
{
    TRY(array_new(&l->suspect, l->world.size));
    TRY(array_new(&l->name, l->world.size));
    TRY(array_new(&l->text, l->world.size));
    for (int r = 0; r < l->world.size; r++) {
        fleet_rank_name(l->world.info, r, l->text[r], sizeof l->text[r]);
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
        bool file;
        CHECK(path_look(failing, &file));
        CHECK(file ? launch_hosts_read(&hosts, failing) : launch_hosts_parse(&hosts, failing));
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
    json_t *settings =
        json_new("{s:i, s:I, s:f, s:f, s:I, s:i, s:s, s:i, s:i, s:i, s:s}", "partners", c->partners,
                 "seed", (json_int_t)c->seed, "within", c->within, "latency-within",
                 c->latency_within, "mib", (json_int_t)(c->bytes >> 20), "samples", c->samples,
                 "net", c->step.net, "batch-size", c->step.batch, "image-size", c->step.image_size,
                 "rounds", c->step.rounds, "precision", bench_precision(&c->step));
    enum status st = world_agree(w, settings);
    json_decref(settings);
    return st;
}

/* On rank 0, prints the result, and writes it to the folder `out` if that is given. */
static enum status report(const struct pair_config *c, const struct pair_result *r, const char *out)
{
    if (out) {
        char path[ACCEPT_PATH_SIZE];
        TRY(dir_make(out));
        TRY(path_format(path, sizeof path, "%s/pair.json", out));
        TRY(file_remove(path)); /* so that no old verdict remains */
        TRY(json_write(pair_json(c, r), JSON_RECORD, "%s/pair.json", out));
    }
    if (c->step.format == BENCH_JSON)
        json_print(pair_json(c, r), stdout, JSON_RECORD);
    else
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
    enum status st = STATUS_OK;
    if (w->rank == 0) {
        st = report(&c, &r, job->out);
        *code = pair_exit_code(r.finding, r.n);
    }
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
    st = st == STATUS_OK ? look_again(job, &l, code) : st;
    fflush(stdout); /* comm_fail may end the process */
    if (st != STATUS_OK && l.world.size > 1)
        comm_fail(l.world.comm, st, status_message());
    world_close(&l.world);
    free(l.suspect);
    free(l.name);
    free(l.text);
    return st;
}
