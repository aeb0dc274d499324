/* Verdicts. */
#include "gate/compare.h"

#include "base/file.h"
#include "gate/fingerprint.h"
#include "gate/repeats.h"
#include "gate/significance.h"
#include "results/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *gate_verdict_str(enum gate_verdict v)
{
    static const char *const names[] = {
        [GATE_SAME] = "same",
        [GATE_BETTER] = "better",
        [GATE_REGRESSION] = "REGRESSION",
        [GATE_SMALL] = "too small to judge",
        [GATE_FEW] = "not enough repeats",
    };
    return names[v];
}

bool gate_passed(const struct gate_report *r)
{
    return r->regressions == 0 && r->few == 0 && r->refused == 0 && r->incomplete == 0;
}

void gate_report_free(struct gate_report *r)
{
    for (int64_t i = 0; i < r->n_cells; i++)
        json_decref(r->cell[i].differences);
    free(r->cell);
    *r = (struct gate_report){0};
}

static enum status new_cell(struct gate_report *r, const char *name, struct gate_cell **out)
{
    if (r->n_cells == r->capacity) {
        int64_t capacity = r->capacity ? 2 * r->capacity : 8;
        struct gate_cell *more = realloc(r->cell, (size_t)capacity * sizeof *more);
        if (!more)
            return status_fail(STATUS_OOM, "no memory for %lld cells", (long long)capacity);
        r->cell = more;
        r->capacity = capacity;
    }
    *out = &r->cell[r->n_cells];
    **out = (struct gate_cell){.differences = json_object()};
    if (!(*out)->differences)
        return status_fail(STATUS_OOM, "no memory for a cell");
    text_clean((*out)->name, sizeof(*out)->name, name);
    r->n_cells++;
    return STATUS_OK;
}

/* Those of the repeats that have the metric; returns how many. */
static int64_t values_of(const struct repeats *r, enum metric_id id, double *x)
{
    int64_t n = 0;
    for (int64_t i = 0; i < r->n; i++)
        if (isfinite(r->repeat[i].value[id]))
            x[n++] = r->repeat[i].value[id];
    return n;
}

static bool same_end(const struct repeat *a, const struct repeat *b)
{
    return *a->end.by && strcmp(a->end.by, b->end.by) == 0 && a->end.steps == b->end.steps &&
           a->end.epochs == b->end.epochs;
}

/* Whether all runs of both sides ended alike. */
static bool end_alike(const struct repeats *base, const struct repeats *new)
{
    for (int64_t i = 0; i < base->n; i++)
        if (!same_end(&base->repeat[0], &base->repeat[i]))
            return false;
    for (int64_t i = 0; i < new->n; i++)
        if (!same_end(&base->repeat[0], &new->repeat[i]))
            return false;
    return true;
}

static double ratio_of(double base, double new)
{
    if (base == 0)
        return new == 0 ? 1 : INFINITY;
    return new / base;
}

static enum gate_verdict judge(const struct gate_result *r, const struct gate_config *config)
{
    double worse = metrics[r->metric].more_is_better ? 1 - r->ratio : r->ratio - 1;
    if (r->base.n < GATE_LEAST_REPEATS || r->new.n < GATE_LEAST_REPEATS ||
        mann_whitney_least(r->base.n, r->new.n) >= config->alpha)
        return GATE_FEW;
    if (r->p >= config->alpha || fabs(worse) <= r->threshold)
        return GATE_SAME;
    return worse > 0 ? GATE_REGRESSION : GATE_BETTER;
}

/* `x` and `y`: the values of base and new. */
static enum status measure(const double *x, const double *y, const struct gate_config *config,
                           struct gate_result *r)
{
    struct mann_whitney test;
    int64_t n = r->base.n, m = r->new.n;
    if (n > 0)
        TRY(stats_of(x, n, &r->base));
    if (m > 0)
        TRY(stats_of(y, m, &r->new));
    if (n > 0 && m > 0) {
        TRY(mann_whitney(x, n, y, m, &test));
        TRY(ratio_interval(x, n, y, m, 0.95, GATE_RESAMPLES, GATE_SEED, &r->low, &r->high));
        r->p = test.p;
        r->exact = test.exact;
        r->ratio = ratio_of(r->base.median, r->new.median);
    }
    r->verdict = judge(r, config);
    return STATUS_OK;
}

/* Parts come after the step that they belong to. */
static bool is_small(const struct gate_cell *c, const struct gate_result *r)
{
    const struct gate_result *step = NULL;
    for (int i = 0; i < c->n_results; i++)
        if (c->result[i].metric == METRIC_STEP)
            step = &c->result[i];
    return step && metrics[r->metric].part &&
           r->base.median < GATE_LEAST_SHARE * step->base.median &&
           r->new.median < GATE_LEAST_SHARE * step->new.median;
}

static enum status compare_metric(const struct repeats *base, const struct repeats *new,
                                  enum metric_id id, const struct gate_config *config,
                                  struct gate_cell *c)
{
    double x[REPEATS_MAX], y[REPEATS_MAX];
    const struct stats nothing = {.median = NAN};
    struct gate_result r = {.metric = id,
                            .base = nothing,
                            .new = nothing,
                            .ratio = NAN,
                            .low = NAN,
                            .high = NAN,
                            .p = NAN,
                            .threshold = config->threshold[id]};
    r.base.n = values_of(base, id, x);
    r.new.n = values_of(new, id, y);
    if (r.base.n == 0)
        return STATUS_OK; /* nothing to hold it against */
    TRY(measure(x, y, config, &r));
    if (r.base.max == 0 && r.new.n > 0 && r.new.max == 0 && metrics[id].part)
        return STATUS_OK; /* a part that these runs do not have */
    if (r.verdict != GATE_FEW && is_small(c, &r))
        r.verdict = GATE_SMALL;
    c->result[c->n_results++] = r;
    return STATUS_OK;
}

/* Every run against the first of the base. */
static enum status list_differences(const struct repeats *base, const struct repeats *new,
                                    const struct gate_config *config, struct gate_cell *c)
{
    const struct repeats *const sides[] = {base, new};
    for (int side = 0; side < 2; side++)
        for (int64_t i = 0; i < sides[side]->n; i++)
            TRY(fingerprint_differ(base->repeat[0].fingerprint, sides[side]->repeat[i].fingerprint,
                                   config->allowed, config->n_allowed, c->differences));
    return STATUS_OK;
}

/* What a side lacks, into `missing` behind what is there already. */
static void list_missing(const struct repeats *r, const char *side, struct gate_cell *c)
{
    size_t at = strlen(c->missing);
    if (r->damaged > 0)
        snprintf(c->missing + at, sizeof c->missing - at, "%s%lld damaged run%s of %s left out: %s",
                 at ? "; " : "", (long long)r->damaged, r->damaged > 1 ? "s" : "", side, r->damage);
    at = strlen(c->missing);
    size_t room = sizeof c->missing - at;
    const char *comma = at ? "; " : "";
    if (r->unfinished > 0)
        snprintf(c->missing + at, room,
                 "%s%lld of %lld runs of %s did not end in order, '%s' first", comma,
                 (long long)r->unfinished, (long long)(r->unfinished + r->n), side, r->example);
    else if (r->n < GATE_LEAST_REPEATS)
        snprintf(c->missing + at, room, "%s%lld of at least %d repeats of %s", comma,
                 (long long)r->n, GATE_LEAST_REPEATS, side);
}

static enum status compare_metrics(const struct repeats *base, const struct repeats *new,
                                   const struct gate_config *config, struct gate_cell *c)
{
    bool alike = end_alike(base, new);
    for (int id = 0; id < METRICS; id++)
        if (id != METRIC_VAL_TOP1 || alike)
            TRY(compare_metric(base, new, (enum metric_id)id, config, c));
    return STATUS_OK;
}

static enum status compare_repeats(const struct repeats *base, const struct repeats *new,
                                   const struct gate_config *config, struct gate_cell *c)
{
    c->n_base = base->n;
    c->n_new = new->n;
    list_missing(base, "BASE", c);
    list_missing(new, "NEW", c);
    if (base->n == 0 || new->n == 0)
        return STATUS_OK;
    TRY(list_differences(base, new, config, c));
    return json_object_size(c->differences) == 0 ? compare_metrics(base, new, config, c)
                                                 : STATUS_OK;
}

static void count(struct gate_report *r)
{
    for (int64_t i = 0; i < r->n_cells; i++) {
        const struct gate_cell *c = &r->cell[i];
        r->refused += json_object_size(c->differences) > 0;
        r->incomplete += *c->missing != '\0';
        for (int k = 0; k < c->n_results; k++) {
            enum gate_verdict v = c->result[k].verdict;
            r->regressions += v == GATE_REGRESSION;
            r->better += v == GATE_BETTER;
            r->same += v == GATE_SAME;
            r->small += v == GATE_SMALL;
            r->few += v == GATE_FEW;
        }
    }
}

/* "resnet18 fp32 nd", as the first run's configuration says. */
static void name_of(const struct repeats *r, char name[GATE_NAME_SIZE])
{
    static const char *const fields[] = {"config.arch", "config.precision", "config.mode"};
    snprintf(name, GATE_NAME_SIZE, "runs");
    for (size_t i = 0, at = 0; r->n > 0 && i < sizeof fields / sizeof *fields; i++) {
        const char *v = json_string_value(json_object_get(r->repeat[0].fingerprint, fields[i]));
        if (v && at < GATE_NAME_SIZE)
            at += (size_t)snprintf(name + at, GATE_NAME_SIZE - at, "%s%s", at ? " " : "", v);
    }
}

static enum status add_runs(char *const *dir, int n, struct repeats *r)
{
    for (int i = 0; i < n; i++) {
        int64_t before = r->n + r->unfinished + r->damaged;
        TRY(repeats_add(dir[i], r));
        if (r->n + r->unfinished + r->damaged == before)
            return status_fail(STATUS_DATA, "'%s' is no run, no folder of runs and no study",
                               dir[i]);
    }
    return STATUS_OK;
}

static enum status compare_runs(char *const *base, int n_base, char *const *new, int n_new,
                                const struct gate_config *config, struct gate_report *report)
{
    enum status st;
    char name[GATE_NAME_SIZE];
    struct gate_cell *cell;
    struct repeats b = {0}, n = {0};
    CHECK(add_runs(base, n_base, &b));
    CHECK(add_runs(new, n_new, &n));
    name_of(&b, name);
    CHECK(new_cell(report, name, &cell));
    CHECK(compare_repeats(&b, &n, config, cell));
done:
    repeats_free(&b);
    repeats_free(&n);
    return st;
}

/* A side's runs of a cell; none where the study lacks it. */
static enum status add_cell(const char *study, const char *cell, struct repeats *r)
{
    char path[REPEATS_PATH_SIZE];
    TRY(path_format(path, sizeof path, "%s/cells/%s", study, cell));
    return path_is_dir(path) ? repeats_add(path, r) : STATUS_OK;
}

static enum status compare_cell(const char *base, const char *new, const char *name,
                                const struct gate_config *config, struct gate_report *report)
{
    enum status st;
    struct gate_cell *cell;
    struct repeats b = {0}, n = {0};
    CHECK(add_cell(base, name, &b));
    CHECK(add_cell(new, name, &n));
    CHECK(new_cell(report, name, &cell));
    CHECK(compare_repeats(&b, &n, config, cell));
done:
    repeats_free(&b);
    repeats_free(&n);
    return st;
}

/* The cells of both, by name. */
static enum status compare_studies(const char *base, const char *new,
                                   const struct gate_config *config, struct gate_report *report)
{
    enum status st;
    struct cell_names b = {0}, n = {0};
    CHECK(repeats_cells(base, &b));
    CHECK(repeats_cells(new, &n));
    for (int i = 0, k = 0; i < b.n || k < n.n;) {
        int order = i == b.n ? 1 : k == n.n ? -1 : strcmp(b.name[i], n.name[k]);
        CHECK(compare_cell(base, new, order <= 0 ? b.name[i] : n.name[k], config, report));
        i += order <= 0;
        k += order >= 0;
    }
done:
    cell_names_free(&b);
    cell_names_free(&n);
    return st;
}

static bool any_study(char *const *dir, int n)
{
    for (int i = 0; i < n; i++)
        if (repeats_is_study(dir[i]))
            return true;
    return false;
}

enum status gate_compare(char *const *base, int n_base, char *const *new, int n_new,
                         const struct gate_config *config, struct gate_report *report)
{
    enum status st;
    *report = (struct gate_report){.alpha = config->alpha};
    if (!any_study(base, n_base) && !any_study(new, n_new))
        st = compare_runs(base, n_base, new, n_new, config, report);
    else if (n_base == 1 && n_new == 1 && any_study(base, 1) && any_study(new, 1))
        st = compare_studies(base[0], new[0], config, report);
    else
        st = status_fail(STATUS_USAGE, "a study is held against one other study: give BASE NEW");
    if (st == STATUS_OK)
        count(report);
    else
        gate_report_free(report);
    return st;
}
