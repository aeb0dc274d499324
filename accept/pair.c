/* Plans which ranks are paired, and judges whether a node or the network caused a failure. */
#include "accept/pair.h"
#include "base/array.h"
#include "base/rng.h"
#include "base/stats.h"
#include "base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#define ADD_REASON(f, ...) text_append((f)->reason, PAIR_REASON_SIZE, __VA_ARGS__)

/* --- the plan --- */

/* The good ranks, shuffled, and the suspect ranks, ascending. */
struct deal {
    int n_good, n_bad;
    int *good, *bad;
};

static enum status deal_out(const bool *suspect, int ranks, uint64_t seed, struct deal *d)
{
    struct rng rng = rng_at(seed, RNG_SHUFFLE, 0, 0);
    TRY(array_new(&d->good, ranks));
    TRY(array_new(&d->bad, ranks));
    for (int r = 0; r < ranks; r++) {
        if (suspect[r])
            d->bad[d->n_bad++] = r;
        else
            d->good[d->n_good++] = r;
    }
    for (int i = d->n_good - 1; i > 0; i--) {
        int k = (int)rng_below(&rng, (uint32_t)i + 1), held = d->good[i];
        d->good[i] = d->good[k];
        d->good[k] = held;
    }
    if (d->n_bad == 0)
        return status_fail(STATUS_DATA, "no rank has failed: there is nothing to retest");
    if (d->n_good == 0)
        return status_fail(
            STATUS_DATA, "all %d ranks have failed: no good rank is left to pair them with", ranks);
    return STATUS_OK;
}

static void meet(struct pair_plan *p, bool reference, int a, int b)
{
    p->meeting[p->n++] =
        (struct pair_meeting){.round = p->rounds, .reference = reference, .a = a, .b = b};
}

/* Handles the suspects in groups of up to n_good. In each round, every suspect of a group is paired
 * with a different good rank. Each suspect has `partners` rounds. */
static void meet_suspects(struct pair_plan *p, const struct deal *d, int partners)
{
    for (int first = 0; first < d->n_bad; first += d->n_good) {
        int many = d->n_bad - first < d->n_good ? d->n_bad - first : d->n_good;
        for (int turn = 0; turn < partners; turn++, p->rounds++)
            for (int i = 0; i < many; i++)
                meet(p, false, d->bad[first + i], d->good[(i + turn) % d->n_good]);
    }
}

enum status pair_plan_make(const bool *suspect, int ranks, int partners, uint64_t seed,
                           struct pair_plan *plan)
{
    struct deal d = {0};
    enum status st;
    *plan = (struct pair_plan){.ranks = ranks};
    if (ranks < 1 || partners < 1)
        return status_fail(STATUS_INVALID,
                           "cannot pair each suspect with %d partners among %d ranks", partners,
                           ranks);
    CHECK(deal_out(suspect, ranks, seed, &d));
    if (partners > d.n_good)
        partners = d.n_good;
    size_t most = (size_t)d.n_bad * (size_t)partners + PAIR_REFERENCES_MAX;
    CHECK(array_new(&plan->meeting, most));
    for (int i = 0; i < d.n_good / 2 && i < PAIR_REFERENCES_MAX; i++)
        meet(plan, true, d.good[2 * i], d.good[2 * i + 1]);
    plan->rounds = plan->n > 0;
    meet_suspects(plan, &d, partners);
done:
    free(d.good);
    free(d.bad);
    return st;
}

void pair_plan_free(struct pair_plan *plan)
{
    free(plan->meeting);
    *plan = (struct pair_plan){0};
}

int pair_plan_meeting(const struct pair_plan *plan, int round, int rank)
{
    for (int i = 0; i < plan->n; i++) {
        const struct pair_meeting *m = &plan->meeting[i];
        if (m->round == round && (m->a == rank || m->b == rank))
            return i;
    }
    return -1;
}

/* --- the findings --- */

const char *pair_verdict_str(enum pair_verdict v)
{
    static const char *const words[] = {
        [PAIR_GONE] = "gone",
        [PAIR_NODE] = "node",
        [PAIR_PORT] = "connection",
        [PAIR_LINK] = "link",
        [PAIR_EITHER] = "link or connection",
        [PAIR_UNKNOWN] = "not known",
    };
    return words[v];
}

/* The reference: measurements of the good ranks. */
struct good {
    double step, busbw, latency; /* medians; NAN: not measured */
    int meetings;
};

static bool is_disturbed(const struct pair_judging *j, int rank, char text[NOISE_TEXT_MAX])
{
    return j->noise && host_noise_judge(&j->noise[rank], text);
}

/* A rank's own step; NAN if it was not measured, or if the rank was disturbed. */
static double step_of(const struct pair_judging *j, int rank)
{
    return is_disturbed(j, rank, (char[NOISE_TEXT_MAX]){0}) ? NAN : j->step[rank];
}

/* A pair test, without its times if one of the ranks was disturbed. */
static struct pair_link link_of(const struct pair_judging *j, int i)
{
    const struct pair_meeting *m = &j->plan->meeting[i];
    struct pair_link link = j->link[i];
    char text[NOISE_TEXT_MAX];
    if (is_disturbed(j, m->a, text) || is_disturbed(j, m->b, text))
        link.busbw = link.latency = NAN;
    return link;
}

/* Sorts x[0..n), and returns its median; NAN if n is 0. */
static double median_of(double *x, int64_t n)
{
    return n > 0 ? stats_median(x, n) : NAN;
}

/* Sets `g` to the medians of the good ranks' measurements and of the pair tests between two good
 * ranks. */
static enum status know_good(const struct pair_judging *j, struct good *g)
{
    int64_t steps = 0, rates = 0, times = 0;
    int most = j->plan->ranks > j->plan->n ? j->plan->ranks : j->plan->n;
    double *x;
    TRY(array_new(&x, 2 * most));
    for (int r = 0; r < j->plan->ranks; r++)
        if (!j->suspect[r] && isfinite(step_of(j, r)))
            x[steps++] = j->step[r];
    g->step = median_of(x, steps);
    for (int i = 0; i < j->plan->n; i++) {
        struct pair_link link = link_of(j, i);
        if (j->plan->meeting[i].reference && isfinite(link.busbw))
            x[rates++] = link.busbw;
        if (j->plan->meeting[i].reference && isfinite(link.latency))
            x[most + times++] = link.latency;
    }
    g->meetings = (int)rates;
    g->busbw = median_of(x, rates);
    g->latency = median_of(x + most, times);
    free(x);
    return STATUS_OK;
}

enum outcome { OUTCOME_GOOD, OUTCOME_BAD, OUTCOME_UNKNOWN };

static enum outcome outcome_of(const struct pair_judging *j, int i, const struct good *g)
{
    const struct pair_link l = link_of(j, i);
    bool slow = l.busbw < g->busbw * (1 - j->within);
    bool late = l.latency > g->latency * (1 + j->latency_within);
    if (l.wrong > 0)
        return OUTCOME_BAD;
    if (isnan(l.busbw + l.latency + g->busbw + g->latency))
        return OUTCOME_UNKNOWN;
    return slow || late ? OUTCOME_BAD : OUTCOME_GOOD;
}

/* Appends the partners of `rank` whose pair tests had the outcome `which`: " with b (12.3 GB/s, 4
 * us), c (2 wrong values)". */
static void add_partners(struct pair_finding *f, const struct pair_judging *j, const struct good *g,
                         int rank, enum outcome which)
{
    const char *comma = " with ";
    for (int i = 0; i < j->plan->n; i++) {
        const struct pair_meeting *m = &j->plan->meeting[i];
        const struct pair_link *l = &j->link[i];
        if (m->reference || m->a != rank || outcome_of(j, i, g) != which)
            continue;
        ADD_REASON(f, "%s%s", comma, j->name[m->b]);
        if (l->wrong > 0)
            ADD_REASON(f, " (%" PRId64 " wrong values)", l->wrong);
        else if (isfinite(l->busbw) && isfinite(l->latency))
            ADD_REASON(f, " (%.4g GB/s, %.4g us)", l->busbw, 1e6 * l->latency);
        comma = ", ";
    }
}

static enum pair_verdict verdict_of(const struct pair_judging *j, const struct good *g, int rank)
{
    double step = step_of(j, rank);
    int count[OUTCOME_UNKNOWN + 1] = {0};
    for (int i = 0; i < j->plan->n; i++)
        if (!j->plan->meeting[i].reference && j->plan->meeting[i].a == rank)
            count[outcome_of(j, i, g)]++;
    bool unknown = count[OUTCOME_UNKNOWN] > 0, good = count[OUTCOME_GOOD] > 0;
    if (step * (1 - j->within) > g->step)
        return PAIR_NODE;
    if (count[OUTCOME_BAD] > 0 && good)
        return PAIR_LINK;
    if (count[OUTCOME_BAD] > 0)
        return count[OUTCOME_BAD] > 1 && !unknown ? PAIR_PORT : PAIR_EITHER;
    return isnan(step) || isnan(g->step) || !good || unknown ? PAIR_UNKNOWN : PAIR_GONE;
}

/* Gives the disturbed ranks as the reason, if there are any. */
static void say_unknown(const struct pair_judging *j, struct pair_finding *f)
{
    char text[NOISE_TEXT_MAX];
    for (int r = 0; r < j->plan->ranks; r++)
        if (is_disturbed(j, r, text))
            text_join(f->reason, PAIR_REASON_SIZE, "; ", "%s was disturbed: %s", j->name[r], text);
    ADD_REASON(f, *f->reason ? "; repeat on idle nodes"
                             : "not everything was measured, or no two good nodes were left for a "
                               "reference measurement");
}

static void judge_suspect(const struct pair_judging *j, const struct good *g, int rank,
                          struct pair_finding *f)
{
    static const char *const failed[] = {
        [PAIR_LINK] = "a link:",
        [PAIR_PORT] = "the node's connection: the node alone is as fast as the good nodes, but",
        [PAIR_EITHER] = "the link or the node's connection:",
    };
    *f = (struct pair_finding){.rank = rank, .verdict = verdict_of(j, g, rank)};
    switch (f->verdict) {
    case PAIR_NODE:
        ADD_REASON(f,
                   "the node itself: its training step takes %.4g ms, the good nodes' median is "
                   "%.4g ms (%+.0f %%)",
                   1e3 * j->step[rank], 1e3 * g->step, 100 * (j->step[rank] / g->step - 1));
        break;
    case PAIR_LINK:
    case PAIR_PORT:
    case PAIR_EITHER:
        ADD_REASON(f, "%s the retest fails", failed[f->verdict]);
        add_partners(f, j, g, rank, OUTCOME_BAD);
        if (f->verdict == PAIR_LINK) {
            ADD_REASON(f, ", but passes");
            add_partners(f, j, g, rank, OUTCOME_GOOD);
        }
        if (isfinite(g->busbw) && isfinite(g->latency))
            ADD_REASON(f, "; good nodes reach %.4g GB/s and %.4g us with each other", g->busbw,
                       1e6 * g->latency);
        if (f->verdict == PAIR_EITHER)
            ADD_REASON(f, "; repeat with more --partners to distinguish link and connection");
        break;
    case PAIR_GONE:
        ADD_REASON(f,
                   "failure not reproduced: its training step takes %.4g ms, the good nodes' "
                   "median is %.4g ms; the retest passes",
                   1e3 * j->step[rank], 1e3 * g->step);
        add_partners(f, j, g, rank, OUTCOME_GOOD);
        break;
    case PAIR_UNKNOWN:
        say_unknown(j, f);
        break;
    }
}

/* Makes a finding if pair test `i` is between two good ranks and failed; otherwise returns
 * false. */
static bool judge_reference(const struct pair_judging *j, const struct good *g, int i,
                            struct pair_finding *f)
{
    enum { ENOUGH = 3 }; /* least number of pair tests for a median */
    const struct pair_meeting *m = &j->plan->meeting[i];
    const struct pair_link *l = &j->link[i];
    bool slow = g->meetings >= ENOUGH && outcome_of(j, i, g) == OUTCOME_BAD;
    if (!m->reference || (l->wrong <= 0 && !slow))
        return false;
    *f = (struct pair_finding){.rank = m->a, .verdict = PAIR_EITHER};
    ADD_REASON(f, "%s and %s passed before, but fail with each other: ", j->name[m->a],
               j->name[m->b]);
    if (l->wrong > 0)
        ADD_REASON(f, "%" PRId64 " wrong values", l->wrong);
    else
        ADD_REASON(f, "%.4g GB/s and %.4g us; other good pairs reach %.4g GB/s and %.4g us",
                   l->busbw, 1e6 * l->latency, g->busbw, 1e6 * g->latency);
    return true;
}

enum status pair_judge(const struct pair_judging *j, struct pair_finding **finding, int *n)
{
    struct good g = {0};
    TRY(know_good(j, &g));
    *n = 0;
    TRY(array_new(finding, j->plan->ranks + j->plan->n));
    for (int r = 0; r < j->plan->ranks; r++)
        if (j->suspect[r])
            judge_suspect(j, &g, r, &(*finding)[(*n)++]);
    for (int i = 0; i < j->plan->n; i++)
        *n += judge_reference(j, &g, i, &(*finding)[*n]);
    return STATUS_OK;
}

int pair_exit_code(const struct pair_finding *finding, int n)
{
    int code = 0;
    for (int i = 0; i < n; i++) {
        if (finding[i].verdict == PAIR_UNKNOWN && code == 0)
            code = status_exit_code(STATUS_DATA);
        else if (finding[i].verdict != PAIR_GONE && finding[i].verdict != PAIR_UNKNOWN)
            code = status_exit_code(STATUS_MISMATCH);
    }
    return code;
}
