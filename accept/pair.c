/* Telling the node from the network. */
#include "accept/pair.h"
#include "base/stats.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* What the good ones do. */
struct good {
    double step, busbw, latency; /* medians; NAN: none was measured */
    int meetings;
};

/* NAN of none. */
static enum status median_of(const double *x, int64_t n, double *median)
{
    struct stats s;
    *median = NAN;
    if (n == 0)
        return STATUS_OK;
    TRY(stats_of(x, n, &s));
    *median = s.median;
    return STATUS_OK;
}

/* Of the meetings of good ones; x has room for them. */
static enum status know_meetings(const struct pair_judging *j, double *x, struct good *g)
{
    int64_t n = 0;
    for (int i = 0; i < j->plan->n; i++)
        if (j->plan->meeting[i].reference && isfinite(j->link[i].busbw))
            x[n++] = j->link[i].busbw;
    g->meetings = (int)n;
    TRY(median_of(x, n, &g->busbw));
    n = 0;
    for (int i = 0; i < j->plan->n; i++)
        if (j->plan->meeting[i].reference && isfinite(j->link[i].latency))
            x[n++] = j->link[i].latency;
    return median_of(x, n, &g->latency);
}

static enum status know_good(const struct pair_judging *j, struct good *g)
{
    int64_t n = 0;
    int room = j->plan->ranks > j->plan->n ? j->plan->ranks : j->plan->n;
    double *x = calloc((size_t)room + 1, sizeof *x);
    if (!x)
        return status_fail(STATUS_OOM, "no memory for %d numbers", room);
    for (int r = 0; r < j->plan->ranks; r++)
        if (!j->suspect[r] && isfinite(j->step[r]))
            x[n++] = j->step[r];
    enum status st = median_of(x, n, &g->step);
    if (st == STATUS_OK)
        st = know_meetings(j, x, g);
    free(x);
    return st;
}

enum outcome { OUTCOME_GOOD, OUTCOME_BAD, OUTCOME_UNKNOWN };

static enum outcome outcome_of(const struct pair_judging *j, const struct pair_link *l,
                               const struct good *g)
{
    if (l->wrong > 0)
        return OUTCOME_BAD;
    if (isnan(l->busbw) || isnan(l->latency) || isnan(g->busbw) || isnan(g->latency))
        return OUTCOME_UNKNOWN;
    bool slow = l->busbw < g->busbw * (1 - j->within);
    bool late = l->latency > g->latency * (1 + j->latency_within);
    return slow || late ? OUTCOME_BAD : OUTCOME_GOOD;
}

/* Words that grow; what does not fit is cut. */
struct phrase {
    char *out;
    size_t used, size;
};

static void say(struct phrase *p, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void say(struct phrase *p, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(p->out + p->used, p->size - p->used, fmt, args);
    va_end(args);
    if (n > 0)
        p->used = p->used + (size_t)n < p->size ? p->used + (size_t)n : p->size - 1;
}

/* " with b (12.3 GB/s, 4 us), c (wrong values)": the partners of that outcome. */
static void say_partners(struct phrase *p, const struct pair_judging *j, const struct good *g,
                         int rank, enum outcome which)
{
    const char *comma = " with ";
    for (int i = 0; i < j->plan->n; i++) {
        const struct pair_meeting *m = &j->plan->meeting[i];
        const struct pair_link *l = &j->link[i];
        if (m->reference || m->a != rank || outcome_of(j, l, g) != which)
            continue;
        say(p, "%s%s", comma, j->name[m->b]);
        if (l->wrong > 0)
            say(p, " (%" PRId64 " wrong values)", l->wrong);
        else if (isfinite(l->busbw) && isfinite(l->latency))
            say(p, " (%.4g GB/s, %.4g us)", l->busbw, 1e6 * l->latency);
        comma = ", ";
    }
}

static void say_reference(struct phrase *p, const struct good *g)
{
    if (isfinite(g->busbw) && isfinite(g->latency))
        say(p, "; good nodes reach %.4g GB/s and %.4g us with each other", g->busbw,
            1e6 * g->latency);
}

/* How a suspect's meetings went, by outcome. */
struct tally {
    int of[OUTCOME_UNKNOWN + 1];
};

static struct tally count_meetings(const struct pair_judging *j, const struct good *g, int rank)
{
    struct tally t = {{0}};
    for (int i = 0; i < j->plan->n; i++)
        if (!j->plan->meeting[i].reference && j->plan->meeting[i].a == rank)
            t.of[outcome_of(j, &j->link[i], g)]++;
    return t;
}

static enum pair_verdict verdict_of(const struct pair_judging *j, const struct good *g, int rank,
                                    const struct tally *t)
{
    double step = j->step[rank];
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

static void judge_suspect(const struct pair_judging *j, const struct good *g, int rank,
                          struct pair_finding *f)
{
    struct tally t = count_meetings(j, g, rank);
    struct phrase p = {.out = f->reason, .size = sizeof f->reason};
    *f = (struct pair_finding){.rank = rank, .verdict = verdict_of(j, g, rank, &t)};
    switch (f->verdict) {
    case PAIR_NODE:
        say(&p,
            "the node itself: alone its step takes %.4g ms, and the good ones' %.4g ms (%+.0f %%)",
            1e3 * j->step[rank], 1e3 * g->step, 100 * (j->step[rank] / g->step - 1));
        break;
    case PAIR_LINK:
        say(&p, "a link: it fails");
        say_partners(&p, j, g, rank, OUTCOME_BAD);
        say(&p, ", and not");
        say_partners(&p, j, g, rank, OUTCOME_GOOD);
        say_reference(&p, g);
        break;
    case PAIR_PORT:
        say(&p, "the node's connection: alone it is as fast as the good ones, and it fails");
        say_partners(&p, j, g, rank, OUTCOME_BAD);
        say_reference(&p, g);
        break;
    case PAIR_EITHER:
        say(&p, "the link or the node's connection: it fails");
        say_partners(&p, j, g, rank, OUTCOME_BAD);
        say_reference(&p, g);
        say(&p, "; more partners would tell which");
        break;
    case PAIR_GONE:
        say(&p,
            "gone the second time: alone its step takes %.4g ms, and the good ones' %.4g ms; it "
            "does well",
            1e3 * j->step[rank], 1e3 * g->step);
        say_partners(&p, j, g, rank, OUTCOME_GOOD);
        break;
    case PAIR_UNKNOWN:
        say(&p,
            "not everything was measured, or there are no two good nodes whose meeting would be "
            "a measure");
        break;
    }
}

/* A meeting of good ones that was none; false where it was good. */
static bool judge_reference(const struct pair_judging *j, const struct good *g, int i,
                            struct pair_finding *f)
{
    enum { ENOUGH = 3 }; /* meetings of which a median is one */
    const struct pair_meeting *m = &j->plan->meeting[i];
    const struct pair_link *l = &j->link[i];
    bool slow = g->meetings >= ENOUGH && outcome_of(j, l, g) == OUTCOME_BAD;
    struct phrase p = {.out = f->reason, .size = sizeof f->reason};
    if (!m->reference || (l->wrong <= 0 && !slow))
        return false;
    *f = (struct pair_finding){.rank = m->a, .verdict = PAIR_EITHER};
    say(&p, "%s and %s passed, and fail with each other: ", j->name[m->a], j->name[m->b]);
    if (l->wrong > 0)
        say(&p, "%" PRId64 " wrong values", l->wrong);
    else
        say(&p, "%.4g GB/s and %.4g us, where others reach %.4g and %.4g", l->busbw,
            1e6 * l->latency, g->busbw, 1e6 * g->latency);
    return true;
}

enum status pair_judge(const struct pair_judging *j, struct pair_finding **finding, int *n)
{
    struct good g = {0};
    TRY(know_good(j, &g));
    *n = 0;
    *finding = calloc((size_t)j->plan->ranks + (size_t)j->plan->n + 1, sizeof **finding);
    if (!*finding)
        return status_fail(STATUS_OOM, "no memory for %d findings", j->plan->ranks);
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
