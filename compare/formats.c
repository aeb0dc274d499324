/* Comparisons as JSON, and the files of a comparison. */
#include "compare/formats.h"

#include "base/file.h"

#include <stdlib.h>

static json_t *stats_json(const struct stats *s)
{
    if (s->n == 0)
        return json_pack("{s:i, s:n}", "n", 0, "median");
    return json_pack("{s:I, s:f, s:f, s:f, s:f}", "n", (json_int_t)s->n, "median", s->median, "min",
                     s->min, "max", s->max, "stddev", s->stddev);
}

static json_t *result_json(const struct compare_result *r)
{
    const struct metric *m = &metrics[r->metric];
    return json_pack("{s:s, s:s, s:s, s:o, s:o, s:b, s:o, s:o, s:o, s:o, s:o, s:b, s:f, s:b, s:s}",
                     "name", m->name, "unit", m->unit, "better",
                     m->more_is_better ? "higher" : "lower", "base", stats_json(&r->base), "new",
                     stats_json(&r->new), "paired", r->is.paired, "ratio", metric_json(r->is.ratio),
                     "low", metric_json(r->is.low), "high", metric_json(r->is.high), "p",
                     metric_json(r->is.p), "corrected_p", metric_json(r->corrected_p), "exact",
                     r->is.exact, "threshold", r->threshold, "decides", r->decides, "verdict",
                     compare_verdict_str(r->verdict));
}

static json_t *cell_json(const struct compare_cell *c)
{
    json_t *list = json_array();
    for (int i = 0; i < c->n_results; i++)
        if (json_array_append_new(list, result_json(&c->result[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    return json_pack("{s:s, s:{s:I, s:I}, s:s?, s:O, s:o}", "name", c->name, "runs", "base",
                     (json_int_t)c->n_base, "new", (json_int_t)c->n_new, "missing",
                     *c->missing ? c->missing : NULL, "differences", c->differences, "metrics",
                     list);
}

json_t *compare_json(const struct compare_report *r)
{
    json_t *cells = json_array();
    for (int64_t i = 0; i < r->n_cells; i++)
        if (json_array_append_new(cells, cell_json(&r->cell[i])) != 0) {
            json_decref(cells);
            return NULL;
        }
    const int *v = r->verdicts;
    return json_pack("{s:s, s:i, s:b, s:f, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:o}",
                     "record", "compare", "schema", COMPARE_SCHEMA, "passed", compare_passed(r),
                     "alpha", r->alpha, "family", r->family, "regressions", v[COMPARE_REGRESSION],
                     "unconfirmed", v[COMPARE_UNCONFIRMED], "better", v[COMPARE_BETTER], "worse",
                     v[COMPARE_WORSE], "same", v[COMPARE_SAME], "small", v[COMPARE_SMALL], "few",
                     v[COMPARE_FEW], "refused", r->refused, "incomplete", r->incomplete, "cells",
                     cells);
}

static json_t *benchmark_json(const struct compare_cell *c, const struct compare_result *r)
{
    char range[64], extra[160];
    snprintf(range, sizeof range, "± %.4g", r->new.stddev);
    snprintf(extra, sizeof extra, "%s: ratio %.4f, p %.2g, %lld and %lld runs",
             compare_verdict_str(r->verdict), r->is.ratio, r->is.p, (long long)r->base.n,
             (long long)r->new.n);
    json_t *name = json_sprintf("%s: %s", c->name, metrics[r->metric].name);
    return json_pack("{s:o, s:s, s:f, s:s, s:s}", "name", name, "unit", metrics[r->metric].unit,
                     "value", r->new.median, "range", range, "extra", extra);
}

json_t *compare_benchmark_action(const struct compare_report *report)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < report->n_cells; i++) {
        const struct compare_cell *c = &report->cell[i];
        for (int k = 0; k < c->n_results; k++) {
            const struct compare_result *r = &c->result[k];
            if (!metrics[r->metric].more_is_better || r->new.n == 0)
                continue;
            if (json_array_append_new(list, benchmark_json(c, r)) != 0) {
                json_decref(list);
                return NULL;
            }
        }
    }
    return list;
}

/* Takes `o` over. */
static enum status write_json(json_t *o, const char *path)
{
    char *text = o ? json_dumps(o, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(o);
    if (!text)
        return status_fail(STATUS_OOM, "no memory to write '%s'", path);
    struct atomic_file f;
    enum status st = atomic_file_open(&f, path);
    if (st == STATUS_OK) {
        fprintf(f.stream, "%s\n", text);
        st = atomic_file_commit(&f);
    }
    free(text);
    return st;
}

static enum status write_text(const struct compare_report *report, const char *path,
                              void (*print)(const struct compare_report *, FILE *))
{
    struct atomic_file f;
    TRY(atomic_file_open(&f, path));
    print(report, f.stream);
    return atomic_file_commit(&f);
}

enum status compare_write(const struct compare_report *report, const struct compare_files *files)
{
    if (files->markdown)
        TRY(write_text(report, files->markdown, compare_print_markdown));
    if (files->junit)
        TRY(write_text(report, files->junit, compare_print_junit));
    if (files->json)
        TRY(write_json(compare_json(report), files->json));
    if (files->benchmark_action)
        TRY(write_json(compare_benchmark_action(report), files->benchmark_action));
    return STATUS_OK;
}
