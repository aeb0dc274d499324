/* Makes series of points from a history, and reports their steps. */
#include "compare/trend.h"

#include "base/array.h"
#include "base/json.h"
#include "base/stats.h"
#include "compare/fingerprint.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void trend_free(struct trend *t)
{
    for (int64_t i = 0; i < t->n; i++) {
        free(t->series[i].point);
        free(t->series[i].step);
    }
    free(t->series);
    *t = (struct trend){0};
}

/* ---- series ---- */

/* Sets first[i] to the index of the first entry with the same configuration as entry i; that entry
 * may be i itself. */
static void group(const struct history *h, const struct trend_config *c, int64_t *first)
{
    for (int64_t i = 0; i < h->n; i++) {
        first[i] = i;
        for (int64_t k = 0; k < i && first[i] == i; k++) {
            if (first[k] == k &&
                fingerprint_agrees(h->entry[k].repeat.fingerprint, h->entry[i].repeat.fingerprint,
                                   c->allowed, c->n_allowed))
                first[i] = k;
        }
    }
}

/* Makes one point from the entries in [from, to) that have the configuration of h->entry[of].
 * Returns false if none of these entries has the metric. */
static bool make_point(const struct history *h, const int64_t *first, int64_t of, int64_t from,
                       int64_t to, enum metric_id id, struct trend_point *p)
{
    double x[REPEATS_MAX];
    *p = (struct trend_point){.accepted = true, .commit = ""};
    for (int64_t i = from; i < to; i++) {
        const struct history_entry *e = &h->entry[i];
        if (first[i] != of || !isfinite(e->repeat.value[id]) || p->runs == REPEATS_MAX)
            continue;
        if (p->runs == 0) {
            p->time_s = isfinite(e->repeat.started_s) ? e->repeat.started_s : e->added_s;
            p->commit = e->repeat.commit;
        }
        p->accepted = p->accepted && e->accepted;
        x[p->runs++] = e->repeat.value[id];
    }
    if (p->runs > 0)
        p->value = stats_median(x, p->runs);
    return p->runs > 0;
}

/* Whether the metric is worse after the step. */
static bool trend_worse(const struct trend_series *s, const struct trend_step *step)
{
    return metrics[s->metric].more_is_better ? step->ratio < 1 : step->ratio > 1;
}

static enum status find_steps(struct trend_series *s, struct trend *t)
{
    double *x, since = 1;
    TRY(array_new(&s->step, s->n));
    TRY(array_new(&x, s->n));
    for (int64_t i = 0; i < s->n; i++)
        x[i] = s->point[i].value;
    enum status st = trend_find(x, s->n, t->alpha, t->threshold, s->step, &s->n_steps);
    free(x);
    for (int64_t i = s->n_steps - 1; i >= 0; i--) {
        struct trend_step *step = &s->step[i];
        since *= step->ratio;
        step->taken_back =
            step->ratio > 1 ? !(since > 1 + t->threshold) : !(since < 1 - t->threshold);
        t->worse = t->worse || (trend_worse(s, step) && !step->taken_back);
    }
    return st;
}

/* Makes the name of the configuration of h->entry[of]. The name has the fields that distinguish
 * this configuration from other configurations. */
static void name_of(const struct history *h, const struct trend_config *c, const int64_t *first,
                    int64_t of, char name[TREND_NAME_SIZE])
{
    char other[TREND_NAME_SIZE];
    json_t *own = h->entry[of].repeat.fingerprint, *distinct = json_object();
    fingerprint_name(own, name, TREND_NAME_SIZE);
    for (int64_t i = 0; i < h->n; i++) {
        if (first[i] != i || i == of)
            continue;
        fingerprint_name(h->entry[i].repeat.fingerprint, other, sizeof other);
        if (strcmp(name, other) == 0)
            fingerprint_distinguish(own, h->entry[i].repeat.fingerprint, c->allowed, c->n_allowed,
                                    distinct);
    }
    fingerprint_name_apart(distinct, name, TREND_NAME_SIZE);
    json_decref(distinct);
}

static enum status add_series(const struct history *h, const struct trend_config *c,
                              const int64_t *first, int64_t of, enum metric_id id, const char *name,
                              struct trend *t)
{
    TRY(array_reserve(&t->series, t->n));
    struct trend_series *s = &t->series[t->n++];
    *s = (struct trend_series){.metric = id};
    snprintf(s->name, sizeof s->name, "%s", name);
    TRY(array_new(&s->point, h->n));
    for (int64_t from = 0, to; from < h->n; from = to) {
        for (to = from; to < h->n && h->entry[to].added_s == h->entry[from].added_s; to++)
            ;
        struct trend_point p;
        if (!make_point(h, first, of, from, to, id, &p))
            continue;
        int64_t at = s->n++;
        for (; at > 0 && s->point[at - 1].time_s > p.time_s; at--)
            s->point[at] = s->point[at - 1];
        s->point[at] = p;
    }
    if (s->n > c->last) {
        memmove(s->point, s->point + s->n - c->last, (size_t)c->last * sizeof *s->point);
        s->n = c->last;
    }
    if (s->n == 0) {
        free(s->point);
        t->n--;
        return STATUS_OK;
    }
    return find_steps(s, t);
}

/* Adds the series of the configuration of h->entry[of]: one series for each wanted metric. */
static enum status add_configuration(const struct history *h, const struct trend_config *c,
                                     const int64_t *first, int64_t of, struct trend *t)
{
    char name[TREND_NAME_SIZE];
    name_of(h, c, first, of, name);
    for (int id = 0; id < METRICS; id++)
        if (c->wanted[id])
            TRY(add_series(h, c, first, of, (enum metric_id)id, name, t));
    return STATUS_OK;
}

enum status trend_of(const struct history *h, const struct trend_config *c, struct trend *out)
{
    enum status st;
    *out = (struct trend){.alpha = c->alpha, .threshold = c->threshold};
    int64_t *first;
    TRY(array_new(&first, h->n));
    group(h, c, first);
    for (int64_t i = 0; i < h->n; i++)
        if (first[i] == i)
            CHECK(add_configuration(h, c, first, i, out));
done:
    free(first);
    if (st != STATUS_OK)
        trend_free(out);
    return st;
}

/* ---- reporting ---- */

/* "2024-01-31", UTC. */
static const char *date(double time_s, char out[16])
{
    struct tm utc;
    time_t t = (time_t)fmin(fmax(time_s, 0), 253402300799.0);
    gmtime_r(&t, &utc);
    strftime(out, 16, "%Y-%m-%d", &utc);
    return out;
}

void trend_print(const struct trend *t, FILE *out)
{
    char from[16], to[16], low[METRIC_TEXT_SIZE], high[METRIC_TEXT_SIZE];
    for (int64_t i = 0; i < t->n; i++) {
        const struct trend_series *s = &t->series[i];
        fprintf(out, "%s, %s: %lld point%s from %s to %s, %s\n", s->name, metrics[s->metric].name,
                (long long)s->n, s->n == 1 ? "" : "s", date(s->point[0].time_s, from),
                date(s->point[s->n - 1].time_s, to),
                s->n < 2 * TREND_SURE ? "too few points to look for changes"
                : s->n_steps == 0     ? "no change"
                                      : "steps:");
        for (int64_t k = 0; k < s->n_steps; k++) {
            const struct trend_step *step = &s->step[k];
            const struct trend_point *p = &s->point[step->at];
            fprintf(out, "  %s  point %-4lld %-12.12s ratio %.4f (%s..%s)  p %.2g  %s%s\n",
                    date(p->time_s, from), (long long)step->at + 1, *p->commit ? p->commit : "-",
                    step->ratio, metric_text("%.4f", step->low, low),
                    metric_text("%.4f", step->high, high), step->p,
                    trend_worse(s, step) ? "worse" : "better",
                    step->taken_back ? ", taken back" : "");
        }
    }
}

/* ---- as JSON ---- */

static json_t *point_json(const void *series, int64_t i)
{
    const struct trend_point *p = &((const struct trend_series *)series)->point[i];
    return json_new("{s:f, s:s, s:o, s:I, s:b}", "time_s", p->time_s, "commit", p->commit, "value",
                    json_measured(p->value), "runs", (json_int_t)p->runs, "accepted", p->accepted);
}

static json_t *step_json(const void *series, int64_t i)
{
    const struct trend_series *s = series;
    const struct trend_step *t = &s->step[i];
    const struct trend_point *p = &s->point[t->at];
    return json_new("{s:I, s:f, s:s, s:o, s:o, s:o, s:o, s:b, s:b}", "point", (json_int_t)t->at,
                    "time_s", p->time_s, "commit", p->commit, "ratio", json_measured(t->ratio),
                    "low", json_measured(t->low), "high", json_measured(t->high), "p",
                    json_measured(t->p), "worse", trend_worse(s, t), "taken_back", t->taken_back);
}

static json_t *series_json(const void *trend, int64_t i)
{
    const struct trend_series *s = &((const struct trend *)trend)->series[i];
    const struct metric *m = &metrics[s->metric];
    return json_new("{s:s, s:s, s:s, s:s, s:o, s:o}", "name", s->name, "metric", m->name, "unit",
                    m->unit, "better", m->more_is_better ? "higher" : "lower", "points",
                    json_list(s->n, point_json, s), "steps", json_list(s->n_steps, step_json, s));
}

json_t *trend_json(const struct trend *t)
{
    return json_new("{s:s, s:i, s:f, s:f, s:o}", "record", "trend", "schema", TREND_SCHEMA, "alpha",
                    t->alpha, "threshold", t->threshold, "series", json_list(t->n, series_json, t));
}
