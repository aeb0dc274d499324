/* Series of a history, and what is told of them. */
#include "compare/trend.h"

#include "base/file.h"
#include "base/stats.h"
#include "compare/fingerprint.h"
#include "results/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { POINTS_MAX = 5000 }; /* the latest of a series; ranks are counted in pairs */

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

/* Of each entry the first that agrees with it, itself perhaps. */
static enum status group(const struct history *h, int64_t *first)
{
    for (int64_t i = 0; i < h->n; i++) {
        first[i] = i;
        for (int64_t k = 0; k < i && first[i] == i; k++) {
            bool same = false;
            if (first[k] != k)
                continue;
            TRY(fingerprint_agrees(h->entry[k].repeat.fingerprint, h->entry[i].repeat.fingerprint,
                                   NULL, 0, &same));
            first[i] = same ? k : i;
        }
    }
    return STATUS_OK;
}

/* One point of the entries [from, to) of a group; false where none knows the metric. */
static enum status make_point(const struct history *h, const int64_t *first, int64_t of,
                              int64_t from, int64_t to, enum metric_id id, struct trend_point *p,
                              bool *some)
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
    *some = p->runs > 0;
    if (*some) {
        stats_sort(x, p->runs);
        p->value = stats_quantile(x, p->runs, 0.5);
    }
    return STATUS_OK;
}

static enum status add_points(const struct history *h, const int64_t *first, int64_t of,
                              struct trend_series *s)
{
    for (int64_t from = 0, to; from < h->n; from = to) {
        bool some;
        for (to = from; to < h->n && h->entry[to].added_s == h->entry[from].added_s; to++)
            ;
        TRY(make_point(h, first, of, from, to, s->metric, &s->point[s->n], &some));
        s->n += some;
    }
    if (s->n > POINTS_MAX) {
        memmove(s->point, s->point + s->n - POINTS_MAX, POINTS_MAX * sizeof *s->point);
        s->n = POINTS_MAX;
    }
    return STATUS_OK;
}

static enum status find_steps(struct trend_series *s, double alpha, double threshold)
{
    double *x = malloc((size_t)s->n * sizeof *x + 1);
    s->step = calloc((size_t)s->n + 1, sizeof *s->step);
    if (!x || !s->step) {
        free(x);
        return status_fail(STATUS_OOM, "no memory for a series");
    }
    for (int64_t i = 0; i < s->n; i++)
        x[i] = s->point[i].value;
    enum status st = trend_find(x, s->n, alpha, threshold, s->step, &s->n_steps);
    free(x);
    return st;
}

/* The name of the configuration of entry `of`, with what tells it apart from others of that name.
 */
static enum status name_of(const struct history *h, const int64_t *first, int64_t of,
                           char name[TREND_NAME_SIZE])
{
    char other[TREND_NAME_SIZE];
    json_t *own = h->entry[of].repeat.fingerprint, *told = json_object();
    enum status st = STATUS_OK;
    if (!told)
        return status_fail(STATUS_OOM, "no memory to name a configuration");
    fingerprint_name(own, name, TREND_NAME_SIZE);
    for (int64_t i = 0; i < h->n; i++) {
        if (first[i] != i || i == of)
            continue;
        fingerprint_name(h->entry[i].repeat.fingerprint, other, sizeof other);
        if (strcmp(name, other) == 0)
            CHECK(fingerprint_tell_apart(own, h->entry[i].repeat.fingerprint, told));
    }
    fingerprint_name_apart(told, name, TREND_NAME_SIZE);
done:
    json_decref(told);
    return st;
}

static enum status add_series(const struct history *h, const int64_t *first, int64_t of,
                              enum metric_id id, const char *name, struct trend *t)
{
    struct trend_series *more = realloc(t->series, (size_t)(t->n + 1) * sizeof *more);
    if (!more)
        return status_fail(STATUS_OOM, "no memory for a series");
    t->series = more;
    struct trend_series *s = &t->series[t->n++];
    *s = (struct trend_series){.metric = id};
    snprintf(s->name, sizeof s->name, "%s", name);
    s->point = calloc((size_t)h->n + 1, sizeof *s->point);
    if (!s->point)
        return status_fail(STATUS_OOM, "no memory for a series");
    TRY(add_points(h, first, of, s));
    if (s->n == 0) {
        free(s->point);
        t->n--;
        return STATUS_OK;
    }
    return find_steps(s, t->alpha, t->threshold);
}

/* A series for each metric that is wanted, of the configuration of entry `of`. */
static enum status add_configuration(const struct history *h, const int64_t *first, int64_t of,
                                     const bool wanted[METRICS], struct trend *t)
{
    char name[TREND_NAME_SIZE];
    TRY(name_of(h, first, of, name));
    for (int id = 0; id < METRICS; id++)
        if (wanted[id])
            TRY(add_series(h, first, of, (enum metric_id)id, name, t));
    return STATUS_OK;
}

enum status trend_of(const struct history *h, const bool wanted[METRICS], double alpha,
                     double threshold, struct trend *out)
{
    enum status st;
    *out = (struct trend){.alpha = alpha, .threshold = threshold};
    int64_t *first = calloc((size_t)h->n + 1, sizeof *first);
    if (!first)
        return status_fail(STATUS_OOM, "no memory for %lld results", (long long)h->n);
    CHECK(group(h, first));
    for (int64_t i = 0; i < h->n; i++)
        if (first[i] == i)
            CHECK(add_configuration(h, first, i, wanted, out));
done:
    free(first);
    if (st != STATUS_OK)
        trend_free(out);
    return st;
}

/* ---- telling ---- */

bool trend_worse(const struct trend_series *s, const struct trend_step *step)
{
    return metrics[s->metric].more_is_better ? step->ratio < 1 : step->ratio > 1;
}

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
                s->n < 2 * TREND_LEAST ? "too few to look for steps"
                : s->n_steps == 0      ? "no step"
                                       : "steps:");
        for (int64_t k = 0; k < s->n_steps; k++) {
            const struct trend_step *step = &s->step[k];
            const struct trend_point *p = &s->point[step->at];
            fprintf(out, "  %s  point %-4lld %-12.12s ratio %.4f (%s..%s)  p %.2g  %s\n",
                    date(p->time_s, from), (long long)step->at + 1, *p->commit ? p->commit : "-",
                    step->ratio, metric_text("%.4f", step->low, low),
                    metric_text("%.4f", step->high, high), step->p,
                    trend_worse(s, step) ? "worse" : "better");
        }
    }
}

/* ---- as JSON ---- */

static json_t *point_json(const struct trend_series *s, int64_t i)
{
    const struct trend_point *p = &s->point[i];
    return json_pack("{s:f, s:s, s:f, s:I, s:b}", "time_s", p->time_s, "commit", p->commit, "value",
                     p->value, "runs", (json_int_t)p->runs, "accepted", p->accepted);
}

static json_t *step_json(const struct trend_series *s, int64_t i)
{
    const struct trend_step *t = &s->step[i];
    const struct trend_point *p = &s->point[t->at];
    return json_pack("{s:I, s:f, s:s, s:o, s:o, s:o, s:f, s:b}", "point", (json_int_t)t->at,
                     "time_s", p->time_s, "commit", p->commit, "ratio", metric_json(t->ratio),
                     "low", metric_json(t->low), "high", metric_json(t->high), "p", t->p, "worse",
                     trend_worse(s, t));
}

/* One of `n` for each; NULL without memory. */
static json_t *list_json(const struct trend_series *s, int64_t n,
                         json_t *(*item)(const struct trend_series *s, int64_t i))
{
    json_t *list = json_array();
    for (int64_t i = 0; i < n; i++)
        if (json_array_append_new(list, item(s, i)) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static json_t *series_json(const struct trend *t)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < t->n; i++) {
        const struct trend_series *s = &t->series[i];
        const struct metric *m = &metrics[s->metric];
        json_t *o =
            json_pack("{s:s, s:s, s:s, s:s, s:o, s:o}", "name", s->name, "metric", m->name, "unit",
                      m->unit, "better", m->more_is_better ? "higher" : "lower", "points",
                      list_json(s, s->n, point_json), "steps", list_json(s, s->n_steps, step_json));
        if (json_array_append_new(list, o) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

enum status trend_write(const struct trend *t, const char *path)
{
    struct atomic_file f;
    json_t *o = json_pack("{s:s, s:i, s:f, s:f, s:o}", "record", "trend", "schema", TREND_SCHEMA,
                          "alpha", t->alpha, "threshold", t->threshold, "series", series_json(t));
    if (!o)
        return status_fail(STATUS_OOM, "no memory to write '%s'", path);
    enum status st = atomic_file_open(&f, path);
    if (st == STATUS_OK) {
        json_dumpf(o, f.stream, JSON_INDENT(1) | JSON_REAL_PRECISION(15));
        fputc('\n', f.stream);
        st = atomic_file_commit(&f);
    }
    json_decref(o);
    return st;
}
