/* Judges whether a node or the network caused a failure. */
#include "accept/pair.h"
#include "base/array.h"
#include "base/stats.h"
#include "base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

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
    TRY(array_new(&x, most));
    for (int r = 0; r < j->plan->ranks; r++)
        if (!j->suspect[r] && isfinite(step_of(j, r)))
            x[steps++] = j->step[r];
    g->step = median_of(x, steps);
    for (int i = 0; i < j->plan->n; i++)
        if (j->plan->meeting[i].reference && isfinite(link_of(j, i).busbw))
            x[rates++] = j->link[i].busbw;
    g->meetings = (int)rates;
    g->busbw = median_of(x, rates);
    for (int i = 0; i < j->plan->n; i++)
        if (j->plan->meeting[i].reference && isfinite(link_of(j, i).latency))
            x[times++] = j->link[i].latency;
    g->latency = median_of(x, times);
    free(x);
    return STATUS_OK;
}

enum outcome { OUTCOME_GOOD, OUTCOME_BAD, OUTCOME_UNKNOWN };

static enum outcome outcome_of(const struct pair_judging *j, int i, const struct good *g)
{
    const struct pair_link link = link_of(j, i), *l = &link;
    if (l->wrong > 0)
        return OUTCOME_BAD;
    if (isnan(l->busbw) || isnan(l->latency) || isnan(g->busbw) || isnan(g->latency))
        return OUTCOME_UNKNOWN;
    bool slow = l->busbw < g->busbw * (1 - j->within);
    bool late = l->latency > g->latency * (1 + j->latency_within);
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
        text_append(f->reason, PAIR_REASON_SIZE, "%s%s", comma, j->name[m->b]);
        if (l->wrong > 0)
            text_append(f->reason, PAIR_REASON_SIZE, " (%" PRId64 " wrong values)", l->wrong);
        else if (isfinite(l->busbw) && isfinite(l->latency))
            text_append(f->reason, PAIR_REASON_SIZE, " (%.4g GB/s, %.4g us)", l->busbw,
                        1e6 * l->latency);
        comma = ", ";
    }
}

static void add_reference(struct pair_finding *f, const struct good *g)
{
    if (isfinite(g->busbw) && isfinite(g->latency))
        text_append(f->reason, PAIR_REASON_SIZE,
                    "; good nodes reach %.4g GB/s and %.4g us with each other", g->busbw,
                    1e6 * g->latency);
}

/* A suspect's pair tests, counted by outcome. */
struct tally {
    int of[OUTCOME_UNKNOWN + 1];
};

static struct tally count_meetings(const struct pair_judging *j, const struct good *g, int rank)
{
    struct tally t = {{0}};
    for (int i = 0; i < j->plan->n; i++)
        if (!j->plan->meeting[i].reference && j->plan->meeting[i].a == rank)
            t.of[outcome_of(j, i, g)]++;
    return t;
}

static enum pair_verdict verdict_of(const struct pair_judging *j, const struct good *g, int rank,
                                    const struct tally *t)
{
    double step = step_of(j, rank);
    int bad = t->of[OUTCOME_BAD], good = t->of[OUTCOME_GOOD];
    if (step * (1 - j->within) > g->step)
        return PAIR_NODE;
    if (bad > 0 && good > 0)
        return PAIR_LINK;
    if (bad > 0 && t->of[OUTCOME_UNKNOWN] == 0)
        return bad > 1 ? PAIR_PORT : PAIR_EITHER;
    if (bad > 0)
        return PAIR_EITHER;
    return isnan(step) || isnan(g->step) || good == 0 || t->of[OUTCOME_UNKNOWN] > 0 ? PAIR_UNKNOWN
                                                                                    : PAIR_GONE;
}

/* Gives the disturbed ranks as the reason, if there are any. */
static void say_unknown(const struct pair_judging *j, struct pair_finding *f)
{
    char text[NOISE_TEXT_MAX];
    for (int r = 0; r < j->plan->ranks; r++)
        if (is_disturbed(j, r, text))
            text_join(f->reason, PAIR_REASON_SIZE, "; ", "%s was disturbed: %s", j->name[r], text);
    text_append(f->reason, PAIR_REASON_SIZE,
                *f->reason ? "; repeat on idle nodes"
                           : "not everything was measured, or no two good nodes were left for a "
                             "reference measurement");
}

static void judge_suspect(const struct pair_judging *j, const struct good *g, int rank,
                          struct pair_finding *f)
{
    struct tally t = count_meetings(j, g, rank);
    *f = (struct pair_finding){.rank = rank, .verdict = verdict_of(j, g, rank, &t)};
    switch (f->verdict) {
    case PAIR_NODE:
        text_append(f->reason, PAIR_REASON_SIZE,
                    "the node itself: its training step takes %.4g ms, the good nodes' median is "
                    "%.4g ms (%+.0f %%)",
                    1e3 * j->step[rank], 1e3 * g->step, 100 * (j->step[rank] / g->step - 1));
        break;
    case PAIR_LINK:
        text_append(f->reason, PAIR_REASON_SIZE, "a link: the retest fails");
        add_partners(f, j, g, rank, OUTCOME_BAD);
        text_append(f->reason, PAIR_REASON_SIZE, ", but passes");
        add_partners(f, j, g, rank, OUTCOME_GOOD);
        add_reference(f, g);
        break;
    case PAIR_PORT:
        text_append(f->reason, PAIR_REASON_SIZE,
                    "the node's connection: the node alone is as fast as the good nodes, but the "
                    "retest fails");
        add_partners(f, j, g, rank, OUTCOME_BAD);
        add_reference(f, g);
        break;
    case PAIR_EITHER:
        text_append(f->reason, PAIR_REASON_SIZE,
                    "the link or the node's connection: the retest fails");
        add_partners(f, j, g, rank, OUTCOME_BAD);
        add_reference(f, g);
        text_append(f->reason, PAIR_REASON_SIZE,
                    "; repeat with more --partners to distinguish link and connection");
        break;
    case PAIR_GONE:
        text_append(f->reason, PAIR_REASON_SIZE,
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
    text_append(f->reason, PAIR_REASON_SIZE,
                "%s and %s passed before, but fail with each other: ", j->name[m->a],
                j->name[m->b]);
    if (l->wrong > 0)
        text_append(f->reason, PAIR_REASON_SIZE, "%" PRId64 " wrong values", l->wrong);
    else
        text_append(f->reason, PAIR_REASON_SIZE,
                    "%.4g GB/s and %.4g us; other good pairs reach %.4g GB/s and %.4g us", l->busbw,
                    1e6 * l->latency, g->busbw, 1e6 * g->latency);
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
