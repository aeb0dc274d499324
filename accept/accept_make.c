/* Makes a spec from the results of good hardware. */
#include "accept/accept_make.h"

#include "base/array.h"
#include "base/file.h"
#include "base/json.h"
#include "base/stats.h"
#include "base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SIGMAS       3.5
#define LEAST_DROP   0.02
#define BOUND_SIGMAS 5
#define LEAST_WITHIN 0.03
#define MAD_SIGMA    1.4826

/* --- one metric --- */

/* Drops the outliers among n values with median m and spread s. Moves the values that remain to the
 * front of x, and returns their number. */
static int drop(double *x, int n, enum accept_better better, double m, double s)
{
    int kept = 0;
    double far = fmax(SIGMAS * s, LEAST_DROP * fabs(m));
    for (int i = 0; i < n; i++) {
        double loss = better == ACCEPT_EVEN ? fabs(x[i] - m) : x[i] - m;
        if ((better == ACCEPT_HIGHER ? -loss : loss) <= far)
            x[kept++] = x[i];
    }
    return kept;
}

enum status accept_make_limit(double *x, int n, enum accept_better better, struct accept_made *out)
{
    struct stats t;
    int left = n;
    *out = (struct accept_made){.baseline = NAN};
    for (;;) {
        TRY(stats_of(x, left, &t));
        int kept = drop(x, left, better, t.median, MAD_SIGMA * t.mad);
        if (kept == left)
            break;
        left = kept;
    }
    out->n = left;
    out->dropped = n - left;
    out->spread = MAD_SIGMA * t.mad;
    if (2 * left < n || !(t.median > 0))
        return STATUS_OK;
    out->baseline = t.median;
    out->within = fmax(LEAST_WITHIN, BOUND_SIGMAS * out->spread / t.median);
    if (left < MAKE_ENOUGH)
        out->within *= 2;
    return STATUS_OK;
}

/* --- the results --- */

struct source {
    int n;
    struct accept_report *report; /* (n) */
    FILE *said;
};

/* Whether `r` is the result of the check `check`, or of that check's copy for one device
 * ("name.0"). */
static bool is_of(const struct accept_result *r, const char *check)
{
    size_t n = strlen(check);
    if (strncmp(r->name, check, n) != 0)
        return false;
    return r->name[n] == '\0' || (r->device >= 0 && atoi(r->name + n + 1) == r->device &&
                                  r->name[n] == '.' && !strchr(r->name + n + 1, '.'));
}

/* Collects values of a metric: its median in each result or, if only one result has it, its value
 * in each repeat. Sets *like to one of the metrics found, from which the caller reads the unit and
 * the direction, or to NULL if there is no value. */
static int collect(const struct source *s, const char *check, const char *metric, double *x,
                   int capacity, const struct accept_metric **like)
{
    int n = 0, results = 0;
    const struct accept_metric *only = NULL;
    for (int i = 0; i < s->n; i++) {
        for (int k = 0; k < s->report[i].n_checks; k++) {
            const struct accept_result *r = &s->report[i].check[k];
            const struct accept_metric *m =
                is_of(r, check) && r->ended == VERDICT_PASS ? accept_metric_find(r, metric) : NULL;
            if (!m || !m->number || m->n == 0 || n == capacity)
                continue;
            only = m;
            results++;
            x[n++] = accept_metric_median(m);
        }
    }
    *like = only;
    if (results != 1)
        return n;
    n = only->n < capacity ? only->n : capacity;
    memcpy(x, only->number, (size_t)n * sizeof *x);
    return n;
}

/* --- the new spec --- */

/* A fraction as percent, rounded up to a tenth. */
static double percent(double share)
{
    return ceil(share * 1000) / 10;
}

static json_t *limit_json(const struct accept_made *made, const struct accept_metric *like)
{
    json_t *source = json_sprintf(
        "median of %d values, robust standard deviation %.2g%s%s; %d outliers left out", made->n,
        made->spread, *like->unit ? " " : "", like->unit, made->dropped);
    return json_new("{s:f, s:f, s:f, s:o}", "baseline", made->baseline, "within",
                    percent(made->within), "warn_within", percent(made->within / 2), "source",
                    source);
}

/* The text of a metric, if it is the same in every repeat of every result; else NULL. */
static const char *common_text(const struct source *s, const char *check, const char *metric)
{
    const char *text = NULL;
    for (int i = 0; i < s->n; i++)
        for (int k = 0; k < s->report[i].n_checks; k++) {
            const struct accept_result *r = &s->report[i].check[k];
            const struct accept_metric *m = is_of(r, check) ? accept_metric_find(r, metric) : NULL;
            for (int j = 0; m && m->text && j < m->n; j++) {
                if (text && strcmp(text, m->text[j]) != 0)
                    return NULL;
                text = m->text[j];
            }
        }
    return text;
}

/* Sets a limit that requires the metric's text, if the spec had "same" for the metric and all
 * repeats on all nodes gave the same text. */
static void make_text(const struct source *s, const char *check, const char *metric, json_t *limits)
{
    json_t *limit = json_object_get(limits, metric);
    const char *text = common_text(s, check, metric);
    if (!text || !*text || strpbrk(text, "*?|") || !json_is_true(json_object_get(limit, "same")))
        return;
    json_put(limits, metric,
             json_new("{s:b, s:s, s:s}", "same", 1, "matches", text, "source",
                      "the value of every repeat on every node"));
}

/* Sets the limit of one metric, if accept_make_limit finds a baseline. */
static enum status make_number(const struct source *s, const char *check, const char *metric,
                               json_t *limits)
{
    enum { VALUES_MAX = 65536 };
    const struct accept_metric *like;
    struct accept_made made;
    double *x;
    TRY(array_new(&x, VALUES_MAX));
    int n = collect(s, check, metric, x, VALUES_MAX, &like);
    enum status st = n > 0 ? accept_make_limit(x, n, like->better, &made) : STATUS_OK;
    if (st == STATUS_OK && n > 0 && made.dropped > 0)
        fprintf(s->said, "%s.%s: %d of %d values were left out as outliers\n", check, metric,
                made.dropped, n);
    if (st == STATUS_OK && n > 0 && isnan(made.baseline) && 2 * made.n < n)
        fprintf(s->said,
                "%s.%s: the repeats or nodes gave different values; the limit in the spec stays\n",
                check, metric);
    if (st == STATUS_OK && n > 0 && !isnan(made.baseline)) {
        if (made.n < MAKE_ENOUGH)
            fprintf(s->said,
                    "%s.%s: %d values are too few, %d are needed; the limits are twice as wide\n",
                    check, metric, made.n, MAKE_ENOUGH);
        json_put(limits, metric, limit_json(&made, like));
    }
    free(x);
    return st;
}

/* A new object whose keys are the names of all metrics in the results of a check. */
static json_t *metric_names(const struct source *s, const char *check)
{
    json_t *names = json_object();
    for (int i = 0; i < s->n; i++)
        for (int k = 0; k < s->report[i].n_checks; k++) {
            const struct accept_result *r = &s->report[i].check[k];
            for (int m = 0; is_of(r, check) && m < r->n_metrics; m++)
                json_put(names, r->metric[m].name, json_null());
        }
    return names;
}

/* Whether the spec had a limit for the metric. */
static bool had_limit(const json_t *limits, const char *metric)
{
    const char *name;
    json_t *limit;
    json_object_foreach((json_t *)limits, name, limit)
    {
        if (accept_matches(name, metric))
            return true;
    }
    return false;
}

static enum status make_check(const struct source *s, json_t *check)
{
    const char *name = json_string_value(json_object_get(check, "name")), *metric;
    const json_t *before = json_object_get(check, "limits");
    json_t *value, *names = metric_names(s, name), *limits = json_copy((json_t *)before);
    enum status st = STATUS_OK;
    if (!before)
        goto done;
    if (json_object_size(names) == 0)
        fprintf(s->said, "%s: no results; the limits in the spec stay\n", name);
    json_object_foreach(names, metric, value)
    {
        if (!had_limit(before, metric))
            continue;
        CHECK(make_number(s, name, metric, limits));
        make_text(s, name, metric, limits);
    }
    json_object_set(check, "limits", limits);
done:
    json_decref(limits);
    json_decref(names);
    return st;
}

/* --- the folders --- */

static enum status read_spec(const char *dir, json_t **out)
{
    char path[ACCEPT_PATH_SIZE];
    struct accept_spec spec;
    TRY(path_format(path, sizeof path, "%s/spec.json", dir));
    enum status st = accept_spec_load(path, NULL, 0, &spec);
    if (st == STATUS_USAGE) /* the spec lies in a folder of results: an error in it is bad data, not
                             * a bad argument */
        return status_fail(STATUS_DATA, "%s", status_message());
    TRY(st);
    *out = json_incref(spec.json);
    accept_spec_free(&spec);
    return STATUS_OK;
}

/* Refuses the results of a disturbed node, whose speeds are no limits for others. */
static enum status check_idle(const struct accept_report *r, const char *dir)
{
    for (int i = 0; i < r->n_checks; i++)
        if (accept_withhold(&r->check[i]))
            return status_fail(STATUS_DATA, "'%s' makes no limits: check '%s' was %s", dir,
                               r->check[i].name, r->check[i].reason);
    return STATUS_OK;
}

/* Refuses results of other hardware than the first, and of a node that is there already. Says which
 * were measured by another version. */
static enum status check_alike(const struct source *s, const char *dir)
{
    const struct accept_report *first = s->report, *r = &s->report[s->n - 1];
    if (strcmp(r->device, first->device) != 0)
        return status_fail(STATUS_DATA,
                           "'%s' was measured on '%s', others on '%s': make a spec for each", dir,
                           r->device, first->device);
    for (int k = 0; k < s->n - 1; k++)
        if (*r->node && strcmp(s->report[k].node, r->node) == 0)
            return status_fail(STATUS_DATA, "'%s' holds results of a node '%s' again", dir,
                               r->node);
    if (strcmp(r->version, first->version) != 0)
        text_print(s->said, "ampscale: '%s' was measured by ampscale %s, others by %s", dir,
                   r->version, first->version);
    return STATUS_OK;
}

static enum status read_folder(const char *dir, const char *first, struct source *s, json_t **spec)
{
    json_t *own;
    TRY(accept_report_load(dir, &s->report[s->n]));
    s->n++;
    TRY(check_idle(&s->report[s->n - 1], dir));
    TRY(read_spec(dir, &own));
    bool same = !*spec || json_equal(*spec, own);
    if (!*spec)
        *spec = json_incref(own);
    json_decref(own);
    return same ? check_alike(s, dir)
                : status_fail(STATUS_USAGE,
                              "the results in '%s' and in '%s' are of different specs", dir, first);
}

enum status accept_make_spec(const char *const *dir, int n, FILE *said, json_t **out)
{
    struct source s = {.said = said};
    json_t *spec = NULL, *check;
    size_t i;
    enum status st;
    CHECK(array_new(&s.report, n));
    for (int k = 0; k < n; k++)
        CHECK(read_folder(dir[k], dir[0], &s, &spec));
    *out = json_deep_copy(spec);
    json_put(*out, "about",
             json_sprintf("Made from the results of %d folder%s", n, n == 1 ? "" : "s"));
    json_array_foreach(json_object_get(*out, "checks"), i, check)
    {
        st = make_check(&s, check);
        if (st != STATUS_OK)
            break;
    }
    if (st != STATUS_OK)
        json_decref(*out);
done:
    for (int k = 0; k < s.n; k++)
        accept_report_free(&s.report[k]);
    free(s.report);
    json_decref(spec);
    return st;
}
