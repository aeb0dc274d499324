/* Measures every rank's own step, and runs the pair tests. */
#include "accept/pair_run.h"

#include "base/array.h"
#include "base/stats.h"
#include "bench/collective.h"
#include "bench/noise_step.h"
#include "model/graph.h"
#include "results/load.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

enum { CLASSES = 1000, WARMUP = 2, SEEN = 3 /* numbers measured in a pair test */ };

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

static int64_t wrong_of(const struct collective_row *row)
{
    int64_t wrong = 0;
    for (int p = 0; p < COLLECTIVE_PLACES; p++)
        wrong += row->place[p].wrong;
    return wrong;
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
    CHECK(collective_measure(&config, comm, &buffers, PAIR_LATENCY_BYTES, &few));
    CHECK(collective_measure(&config, comm, &buffers, c->bytes, &many));
    *link = (struct pair_link){.busbw = many.place[COLLECTIVE_OUT].busbw,
                               .latency = few.place[COLLECTIVE_OUT].time.median,
                               .wrong = wrong_of(&few) + wrong_of(&many)};
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
    noise[comm_rank(comm)] = load_between(begin, &end, c->alone);
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
