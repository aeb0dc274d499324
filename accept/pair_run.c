/* Every rank's own step, and the meetings of pairs. */
#include "accept/pair_run.h"

#include "base/stats.h"
#include "bench/collective.h"
#include "kernels/device_list.h"
#include "model/graph.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

enum { CLASSES = 1000, WARMUP = 2, SEEN = 3 /* numbers of a meeting */ };

static void sleep_for(double seconds)
{
    struct timespec t = {.tv_sec = (time_t)seconds,
                         .tv_nsec = (long)(1e9 * (seconds - floor(seconds)))};
    nanosleep(&t, NULL);
}

/* Seconds of a step, as slow as the fault makes it. */
static enum status timed_step(struct network *net, double drag, double *seconds)
{
    TRY(noise_step_run(net, seconds));
    if (drag > 0)
        sleep_for(drag * *seconds);
    *seconds *= 1 + drag;
    return STATUS_OK;
}

/* The median over c->net.rounds steps. */
static enum status own_step(const struct pair_config *c, double *median)
{
    struct graph *graph = NULL;
    struct device *dev = NULL;
    struct network *net = NULL;
    struct stats s;
    enum status st = STATUS_OK;
    double *seconds = calloc((size_t)c->net.rounds, sizeof *seconds);
    if (!seconds) {
        st = status_fail(STATUS_OOM, "no memory for %d steps", c->net.rounds);
        goto done;
    }
    CHECK(graph_build(c->net.net, CLASSES, c->net.image_size, &graph));
    CHECK(device_open(c->net.devices, c->net.threads, &dev));
    CHECK(noise_step_open(dev, graph, &c->net, &net));
    for (int i = 0; i < c->net.rounds; i++)
        CHECK(timed_step(net, c->drag, &seconds[i]));
    CHECK(stats_of(seconds, c->net.rounds, &s));
    *median = s.median;
done:
    network_close(net);
    device_close(dev);
    graph_free(graph);
    free(seconds);
    return st;
}

/* One after the other on each node, all nodes at a time; then each rank knows all. */
static enum status measure_steps(const struct pair_config *c, struct comm *comm, double *step)
{
    double own = 0;
    if (c->progress)
        fprintf(c->progress, "each node's own step: %s, %d images\n", c->net.net, c->net.batch);
    TRY(own_step(c, &own));
    step[comm_rank(comm)] = own; /* among zeros */
    return comm_sum(comm, step, comm_size(comm));
}

static void tell_round(const struct pair_config *c, const struct pair_plan *p, int round)
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

/* The collectives of a meeting; ranks that rest do the same alone. Always as many operations, so
 * that all ranks' communicators stay in step. */
static enum status meet(const struct pair_config *c, struct comm *comm, struct pair_link *link)
{
    struct collective_config config = collective_config_default();
    struct collective_buffers buffers = {0};
    struct collective_row few, many;
    enum status st;
    config.kind = COMM_ALLREDUCE;
    config.timing = (struct harness_config){.warmup = WARMUP, .most = c->samples};
    CHECK(collective_buffers_open(comm, comm, c->bytes, &buffers));
    CHECK(collective_measure(&config, comm, &buffers, PAIR_LATENCY_BYTES, &few));
    CHECK(collective_measure(&config, comm, &buffers, c->bytes, &many));
    *link = (struct pair_link){.busbw = many.place[COLLECTIVE_OUT].busbw,
                               .latency = few.place[COLLECTIVE_OUT].time.median,
                               .wrong = wrong_of(&few) + wrong_of(&many)};
done:
    collective_buffers_close(&buffers);
    return st;
}

/* `seen` (SEEN n) takes what the round's meetings measured, among zeros. */
static enum status run_round(const struct pair_config *c, struct comm *comm,
                             const struct pair_plan *p, int round, double *seen)
{
    int rank = comm_rank(comm), mine = pair_plan_meeting(p, round, rank);
    struct pair_link link;
    tell_round(c, p, round);
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
    double *seen = calloc(SEEN * (size_t)p->n + 1, sizeof *seen);
    if (!seen)
        return status_fail(STATUS_OOM, "no memory for %d meetings", p->n);
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

void pair_result_free(struct pair_result *r)
{
    pair_plan_free(&r->plan);
    free(r->step);
    free(r->link);
    free(r->finding);
    *r = (struct pair_result){0};
}

enum status pair_run(const struct pair_config *c, struct comm *comm, struct pair_result *r)
{
    int ranks = comm_size(comm);
    enum status st;
    *r = (struct pair_result){0};
    CHECK(pair_plan_make(c->suspect, ranks, c->partners, c->seed, &r->plan));
    r->step = calloc((size_t)ranks, sizeof *r->step);
    r->link = calloc((size_t)r->plan.n + 1, sizeof *r->link);
    if (!r->step || !r->link) {
        st = status_fail(STATUS_OOM, "no memory for %d ranks", ranks);
        goto done;
    }
    CHECK(measure_steps(c, comm, r->step));
    CHECK(run_rounds(c, comm, r));
    const struct pair_judging j = {.plan = &r->plan,
                                   .suspect = c->suspect,
                                   .step = r->step,
                                   .link = r->link,
                                   .name = c->name,
                                   .within = c->within,
                                   .latency_within = c->latency_within};
    CHECK(pair_judge(&j, &r->finding, &r->n));
done:
    if (st != STATUS_OK)
        pair_result_free(r);
    return st;
}
