/* Makes the JSON of a comparison, and writes its files. */
#include "compare/compare_formats.h"

#include "base/file.h"
#include "base/json.h"

static json_t *stats_json(const struct stats *s)
{
    if (s->n == 0)
        return json_pack("{s:i, s:n}", "n", 0, "median");
    return json_pack("{s:I, s:f, s:f, s:f, s:f}", "n", (json_int_t)s->n, "median", s->median, "min",
                     s->min, "max", s->max, "stddev", s->stddev);
}

static json_t *result_json(const void *cell, int64_t i)
{
    const struct compare_result *r = &((const struct compare_cell *)cell)->result[i];
    const struct metric *m = &metrics[r->metric];
    return json_pack(
        "{s:s, s:s, s:s, s:o, s:o, s:b, s:o, s:o, s:o, s:o, s:o, s:b, s:f, s:b, s:s, s:o}", "name",
        m->name, "unit", m->unit, "better", m->more_is_better ? "higher" : "lower", "base",
        stats_json(&r->base), "new", stats_json(&r->new), "paired", r->is.paired, "ratio",
        json_finite(r->is.ratio), "low", json_finite(r->is.low), "high", json_finite(r->is.high),
        "p", json_finite(r->is.p), "corrected_p", json_finite(r->corrected_p), "exact", r->is.exact,
        "threshold", r->threshold, "decides", r->decides, "verdict",
        compare_verdict_str(r->verdict), "deciding_runs",
        r->deciding_runs > 0 ? json_integer(r->deciding_runs) : json_null());
}

static json_t *cell_json(const void *report, int64_t i)
{
    const struct compare_cell *c = &((const struct compare_report *)report)->cell[i];
    return json_pack("{s:s, s:{s:I, s:I}, s:{s:I, s:I}, s:s?, s:O, s:o}", "name", c->name, "runs",
                     "base", (json_int_t)c->n_base, "new", (json_int_t)c->n_new, "disturbed",
                     "base", (json_int_t)c->disturbed_base, "new", (json_int_t)c->disturbed_new,
                     "missing", *c->missing ? c->missing : NULL, "differences", c->differences,
                     "metrics", json_list(c->n_results, result_json, c));
}

json_t *compare_json(const struct compare_report *r)
{
    const int *v = r->verdicts;
    return json_pack(
        "{s:s, s:i, s:b, s:b, s:{s:I, s:I}, s:f, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, "
        "s:i, s:o}",
        "record", "compare", "schema", COMPARE_SCHEMA, "passed", compare_passed(r), "begins",
        r->begins, "disturbed", "base", (json_int_t)r->side[0].disturbed, "new",
        (json_int_t)r->side[1].disturbed, "alpha", r->alpha, "family", r->family, "regressions",
        v[COMPARE_REGRESSION], "better", v[COMPARE_BETTER], "worse", v[COMPARE_WORSE], "equivalent",
        v[COMPARE_EQUIVALENT], "no_regression", v[COMPARE_NOT_WORSE], "inconclusive",
        v[COMPARE_INCONCLUSIVE], "small", v[COMPARE_SMALL], "few", v[COMPARE_FEW], "refused",
        r->refused, "incomplete", r->incomplete, "cells", json_list(r->n_cells, cell_json, r));
}

static json_t *benchmark_json(const struct compare_cell *c, const struct compare_result *r)
{
    char range[64], extra[192];
    snprintf(range, sizeof range, "± %.4g", r->new.stddev);
    snprintf(extra, sizeof extra,
             "%s: ratio %.4f, p %.2g, %lld and %lld runs, of which %lld and %lld were disturbed",
             compare_verdict_str(r->verdict), r->is.ratio, r->is.p, (long long)r->base.n,
             (long long)r->new.n, (long long)c->disturbed_base, (long long)c->disturbed_new);
    json_t *name = json_sprintf("%s: %s", c->name, metrics[r->metric].name);
    return json_pack("{s:o, s:s, s:f, s:s, s:s}", "name", name, "unit", metrics[r->metric].unit,
                     "value", r->new.median, "range", range, "extra", extra);
}

json_t *compare_benchmark_action(const struct compare_report *report)
{
    json_t *list = json_array();
    int n = 0;
    for (int64_t i = 0; i < report->n_cells; i++) {
        const struct compare_cell *c = &report->cell[i];
        for (int k = 0; k < c->n_results; k++) {
            const struct compare_result *r = &c->result[k];
            if (!metrics[r->metric].more_is_better || r->new.n == 0)
                continue;
            json_array_append_new(list, benchmark_json(c, r));
            n++;
        }
    }
    return json_whole(list, n);
}

enum status compare_write(const struct compare_report *report, const struct compare_files *files)
{
    if (files->markdown) {
        struct atomic_file f;
        TRY(atomic_file_open(&f, files->markdown));
        compare_print_markdown(report, f.stream);
        TRY(atomic_file_commit(&f));
    }
    if (files->junit)
        TRY(compare_write_junit(report, files->junit));
    if (files->benchmark_action)
        TRY(json_write(compare_benchmark_action(report), files->benchmark_action, JSON_RECORD));
    return STATUS_OK;
}
