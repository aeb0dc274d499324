/* Writes a comparison as text for the terminal, as Markdown, JUnit and JSON. */
#include "compare/compare_formats.h"

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "results/verdict.h"

#include <string.h>

enum { NUMBER_SIZE = METRIC_TEXT_SIZE, LINE_SIZE = 512 };

/* Writes "1 of 9 runs of BASE, 0 of 9 of NEW"; "" if no run was disturbed. */
static const char *disturbed_text(const struct compare_side side[2], char out[LINE_SIZE])
{
    *out = '\0';
    if (side[0].disturbed + side[1].disturbed > 0)
        snprintf(out, LINE_SIZE, "%lld of %lld runs of BASE, %lld of %lld of NEW",
                 (long long)side[0].disturbed, (long long)side[0].runs,
                 (long long)side[1].disturbed, (long long)side[1].runs);
    return out;
}

/* Writes the conclusion to `out`, without a newline. */
static void conclusion(const struct compare_report *r, char out[LINE_SIZE])
{
    const int *v = r->verdicts;
    const struct {
        int n;
        const char *text;
    } counts[] = {{v[COMPARE_INCONCLUSIVE], "inconclusive"},
                  {v[COMPARE_BETTER], "better"},
                  {v[COMPARE_EQUIVALENT], "equivalent"},
                  {v[COMPARE_NOT_WORSE], "without regression"},
                  {v[COMPARE_SMALL], "too small to judge"},
                  {v[COMPARE_FEW], "of too few repeats"},
                  {v[COMPARE_WORSE], "non-gating but worse"},
                  {r->refused, r->refused == 1 ? "cell refused" : "cells refused"},
                  {r->incomplete, r->incomplete == 1 ? "cell incomplete" : "cells incomplete"}};
    char disturbed[LINE_SIZE];
    /* True if everything was judged, but some results have an interval that is too wide to
     * decide. */
    bool inconclusive =
        r->refused == 0 && r->incomplete == 0 && r->undecided == 0 && r->inconclusive > 0;
    snprintf(out, LINE_SIZE, "%s: %d regression%s",
             r->begins               ? "not compared, begins a base"
             : compare_passed(r)     ? "passed"
             : v[COMPARE_REGRESSION] ? "REGRESSION"
             : inconclusive          ? "inconclusive"
                                     : "incomplete",
             v[COMPARE_REGRESSION], v[COMPARE_REGRESSION] == 1 ? "" : "s");
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (counts[i].n > 0)
            text_append(out, LINE_SIZE, ", %d %s", counts[i].n, counts[i].text);
    if (*disturbed_text(r->side, disturbed))
        text_append(out, LINE_SIZE, "; disturbed by other work: %s", disturbed);
}

static void print_family(const struct compare_report *r, FILE *out)
{
    if (r->family > 1)
        fprintf(out,
                "%d metrics are gating: by Hochberg's correction, all together raise a false alarm "
                "with a probability of at most alpha, %g.\n",
                r->family, r->alpha);
}

static bool decides(const struct compare_cell *c)
{
    bool any = false;
    for (int i = 0; i < c->n_results; i++)
        any = any || c->result[i].decides;
    return any;
}

/* Returns a sentence that names the test by which a cell was judged. */
static const char *method_of(const struct compare_report *r, const struct compare_cell *c)
{
    for (int i = 0; i < c->n_results; i++)
        if (c->result[i].is.paired && (c->result[i].decides || !decides(c)))
            return "Runs took turns, so that neighbours in time are compared in pairs: signed-rank "
                   "test, ratio within pairs.";
    if (r->pairing == COMPARE_PAIR_NEVER)
        return "Compared without pairs, by --pair never: rank test of the two sides, ratio of "
               "medians.";
    return c->turns ? "Runs took turns, but there are too few pairs: rank test of the two sides, "
                      "ratio of medians."
                    : "Runs did not take turns: rank test of the two sides, ratio of medians; a "
                      "drift of the machine's speed appears as a difference.";
}

/* The texts of a result's row in the table. */
struct row {
    char base[NUMBER_SIZE], new[NUMBER_SIZE], ratio[NUMBER_SIZE], interval[2 * NUMBER_SIZE + 2],
        p[NUMBER_SIZE], limit[NUMBER_SIZE], verdict[NUMBER_SIZE];
};

static struct row row_of(const struct compare_result *r)
{
    struct row row;
    char a[NUMBER_SIZE], b[NUMBER_SIZE];
    metric_text("%.5g", r->base.median, row.base);
    metric_text("%.5g", r->new.median, row.new);
    metric_text("%.4f", r->is.ratio, row.ratio);
    snprintf(row.interval, sizeof row.interval, "%s..%s", metric_text("%.4f", r->is.low, a),
             metric_text("%.4f", r->is.high, b));
    metric_text("%.2g", r->is.p, row.p);
    metric_text("%.3g%%", 100 * r->threshold, row.limit);
    snprintf(row.verdict, sizeof row.verdict, r->decides ? "%s" : "(%s)",
             compare_verdict_str(r->verdict));
    return row;
}

/* Returns the verdict of the JUnit case of a result. The case of a non-gating metric never fails:
 * at worst it is skipped. */
static enum verdict case_of(const struct compare_result *r)
{
    if (r->verdict == COMPARE_REGRESSION)
        return VERDICT_FAIL;
    bool judged = r->verdict != COMPARE_FEW && r->verdict != COMPARE_INCONCLUSIVE;
    if (!judged && r->decides)
        return VERDICT_MISSING;
    return !judged || r->verdict == COMPARE_SMALL ? VERDICT_SKIP : VERDICT_PASS;
}

static void print_results(const struct compare_report *report, const struct compare_cell *c,
                          FILE *out)
{
    fprintf(out, "  %s\n", method_of(report, c));
    fprintf(out, "  %-18s %10s %10s %8s %16s %8s %6s  %s\n", "metric", "base", "new", "ratio",
            "95 % interval", "p", "limit", "verdict");
    for (int i = 0; i < c->n_results; i++) {
        const struct compare_result *r = &c->result[i];
        struct row row = row_of(r);
        fprintf(out, "  %-18s %10s %10s %8s %16s %8s %6s  %s\n", metrics[r->metric].name, row.base,
                row.new, row.ratio, row.interval, row.p, row.limit, row.verdict);
    }
}

void compare_print(const struct compare_report *report, FILE *out)
{
    char line[LINE_SIZE];
    const char *field;
    json_t *d;
    for (int64_t i = 0; i < report->n_cells; i++) {
        const struct compare_cell *c = &report->cell[i];
        fprintf(out, "%s, %lld and %lld runs\n", c->name, (long long)c->side[0].runs,
                (long long)c->side[1].runs);
        if (*c->missing)
            fprintf(out, "  incomplete: %s\n", c->missing);
        if (report->begins)
            text_print(out, "  not compared, begins a base: %s", report->lacking);
        if (*disturbed_text(c->side, line))
            fprintf(out, "  disturbed by other work: %s ('noise' in summary.json)\n", line);
        if (json_object_size(c->differences) > 0)
            fprintf(out, "  refused: the runs differ in\n");
        json_object_foreach(c->differences, field, d)
        {
            fprintf(out, "    %s: '%s' in the first run of BASE, '%s' in another run\n", field,
                    json_text_at(d, "base"), json_text_at(d, "new"));
        }
        if (c->n_results > 0)
            print_results(report, c, out);
    }
    print_family(report, out);
    conclusion(report, line);
    fprintf(out, "%s\n", line);
}

/* --- Markdown --- */

/* A file that is being written. A row that does not fit in COMPARE_MARKDOWN_MAX is left out. */
struct markdown {
    FILE *out;
    const char *head; /* to print before the next row; NULL: printed */
    int left_out;
};

enum { MARKDOWN_ROW_MAX = 5000 }; /* bytes of the longest row, and of all that follows the rows */

/* Prints a row of a table. Texts of unknown origin are cut, and escaped so that Markdown shows them
 * unchanged. */
static void markdown_row(struct markdown *m, int n, const char *const text[])
{
    char shown[COMPARE_TEXT_SIZE];
    if (ftell(m->out) > COMPARE_MARKDOWN_MAX - MARKDOWN_ROW_MAX) {
        m->left_out++;
        return;
    }
    fputs(m->head ? m->head : "", m->out);
    m->head = NULL;
    for (int i = 0; i < n; i++) {
        text_clean(shown, sizeof shown, text[i]);
        fputs("| ", m->out);
        for (const char *c = shown; *c; c++)
            fprintf(m->out, strchr("\\`*_{}[]<>()#|!~&", *c) ? "\\%c" : "%c", *c);
        fputc(' ', m->out);
    }
    fputs("|\n", m->out);
}

/* Prints why a cell was not judged. */
static void markdown_missing(struct markdown *m, const struct compare_report *r,
                             const struct compare_cell *c)
{
    const char *field, *why = r->begins ? r->lacking : c->missing;
    json_t *d;
    if (*why)
        markdown_row(m, 9, (const char *const[]){c->name, "", "", "", "", "", "", "", why});
    json_object_foreach(c->differences, field, d)
    {
        markdown_row(m, 9,
                     (const char *const[]){c->name, field, json_text_at(d, "base"),
                                           json_text_at(d, "new"), "", "", "", "", "refused"});
    }
}

/* Prints the results of a cell that failed the comparison (`failed`), or those that did not but are
 * not equivalent either. Returns the number of rows. */
static int markdown_results(struct markdown *m, const struct compare_cell *c, bool failed)
{
    int n = 0;
    for (int i = 0; i < c->n_results; i++) {
        const struct compare_result *r = &c->result[i];
        struct row row = row_of(r);
        enum verdict v = case_of(r);
        bool changed = r->verdict == COMPARE_BETTER || r->verdict == COMPARE_WORSE ||
                       (r->decides && r->verdict == COMPARE_NOT_WORSE);
        if (failed ? v != VERDICT_FAIL && v != VERDICT_MISSING : !changed)
            continue;
        markdown_row(m, 9,
                     (const char *const[]){c->name, metrics[r->metric].name, row.base, row.new,
                                           row.ratio, row.interval, row.p, row.limit, row.verdict});
        n++;
    }
    return n;
}

/* Prints the verdict, and then the results that are not equivalent, in at most COMPARE_MARKDOWN_MAX
 * bytes, which a comment of a code host can hold; counts the rows left out. */
static void print_markdown(const struct compare_report *report, FILE *out)
{
    struct markdown m = {.out = out,
                         .head = "| side | runs | commits | hosts |\n|---|--:|---|---|\n"};
    char line[LINE_SIZE];
    int rest = 0;
    conclusion(report, line);
    fprintf(out, "## Comparison\n\n**%s**\n\n", line);
    for (int i = 0; i < 2; i++) {
        const struct compare_side *s = &report->side[i];
        char runs[NUMBER_SIZE];
        snprintf(runs, sizeof runs, "%lld", (long long)s->runs);
        markdown_row(&m, 4, (const char *const[]){i ? "NEW" : "BASE", runs, s->commits, s->hosts});
    }
    fputs("\n", out);
    print_family(report, out);
    m.head = "\n| cell | metric | base | new | ratio | 95 % interval | p | limit | verdict |\n"
             "|---|---|--:|--:|--:|--:|--:|--:|---|\n";
    for (int64_t i = 0; i < report->n_cells; i++) {
        markdown_missing(&m, report, &report->cell[i]);
        rest += report->cell[i].n_results - markdown_results(&m, &report->cell[i], true);
    }
    for (int64_t i = 0; i < report->n_cells; i++)
        rest -= markdown_results(&m, &report->cell[i], false);
    if (m.left_out > 0)
        fprintf(out, "\n%d more rows do not fit here; `--json` has all.\n", m.left_out);
    if (rest > 0)
        fprintf(out, "\nNot shown: %d metric%s, equivalent, too small to judge or non-gating.\n",
                rest, rest == 1 ? "" : "s");
    if (report->n_cells == 1 && report->cell->n_results > 0)
        fprintf(out, "\n%s\n", method_of(report, report->cell));
}

/* --- JUnit --- */

static void add_result(struct junit *j, const struct compare_cell *c,
                       const struct compare_result *r)
{
    const char *verdict = compare_verdict_str(r->verdict);
    char message[256];
    struct row row = row_of(r);
    snprintf(message, sizeof message, "%s: %s in base, %s in new, ratio %s (%s), p %s", verdict,
             row.base, row.new, row.ratio, row.interval, row.p);
    char disturbed[LINE_SIZE];
    disturbed_text(c->side, disturbed);
    const struct junit_property property[] = {
        {"verdict", verdict},       {"base", row.base},
        {"new", row.new},           {"ratio", row.ratio},
        {"interval", row.interval}, {"p", row.p},
        {"threshold", row.limit},   {"disturbed", *disturbed ? disturbed : NULL}};
    junit_add(j, &(struct junit_case){.class = c->name,
                                      .name = metrics[r->metric].name,
                                      .verdict = case_of(r),
                                      .type = verdict,
                                      .message = message,
                                      .property = property,
                                      .properties = sizeof property / sizeof *property});
}

/* Adds a case with the reason why a cell was not compared. */
static void add_reason(struct junit *j, const struct compare_cell *c, const char *type,
                       enum verdict verdict, const char *reason)
{
    junit_add(
        j,
        &(struct junit_case){
            .class = c->name, .name = type, .verdict = verdict, .type = type, .message = reason});
}

/* Writes a JUnit test suite with a case for each metric of each cell. A regression is a failure. A
 * metric that could not be judged is an error if it is gating; else it is skipped. */
static enum status write_junit(const struct compare_report *r, const char *path)
{
    struct junit j;
    TRY(junit_begin(&j));
    j.output = true;
    for (int64_t i = 0; i < r->n_cells; i++) {
        const struct compare_cell *c = &r->cell[i];
        char differ[8192] = "";
        const char *field;
        json_t *d;
        if (r->begins)
            add_reason(&j, c, "repeats", VERDICT_SKIP, r->lacking);
        else if (*c->missing)
            add_reason(&j, c, "repeats", VERDICT_MISSING, c->missing);
        json_object_foreach(c->differences, field, d)
        {
            text_append(differ, sizeof differ, "%s %s (%s / %s)",
                        *differ ? "," : "the runs differ in", field, json_text_at(d, "base"),
                        json_text_at(d, "new"));
        }
        if (*differ)
            add_reason(&j, c, "configuration", VERDICT_MISSING, differ);
        for (int k = 0; k < c->n_results; k++)
            add_result(&j, c, &c->result[k]);
    }
    return junit_write(&j, "ampscale compare", NULL, NULL, path);
}

/* --- JSON --- */

static json_t *stats_json(const struct stats *s)
{
    if (s->n == 0)
        return json_new("{s:i, s:n}", "n", 0, "median");
    return json_new("{s:I, s:f, s:f, s:f, s:f}", "n", (json_int_t)s->n, "median", s->median, "min",
                    s->min, "max", s->max, "stddev", s->stddev);
}

static json_t *result_json(const void *cell, int64_t i)
{
    const struct compare_result *r = &((const struct compare_cell *)cell)->result[i];
    const struct metric *m = &metrics[r->metric];
    return json_new(
        "{s:s, s:s, s:s, s:o, s:o, s:b, s:f, s:f, s:f, s:f, s:f, s:b, s:f, s:b, s:s, s:o}", "name",
        m->name, "unit", m->unit, "better", m->more_is_better ? "higher" : "lower", "base",
        stats_json(&r->base), "new", stats_json(&r->new), "paired", r->is.paired, "ratio",
        r->is.ratio, "low", r->is.low, "high", r->is.high, "p", r->is.p, "corrected_p",
        r->corrected_p, "exact", r->is.exact, "threshold", r->threshold, "decides", r->decides,
        "verdict", compare_verdict_str(r->verdict), "deciding_runs",
        r->deciding_runs > 0 ? json_integer(r->deciding_runs) : json_null());
}

static json_t *cell_json(const void *report, int64_t i)
{
    const struct compare_cell *c = &((const struct compare_report *)report)->cell[i];
    return json_new("{s:s, s:{s:I, s:I}, s:{s:I, s:I}, s:s?, s:O, s:o}", "name", c->name, "runs",
                    "base", (json_int_t)c->side[0].runs, "new", (json_int_t)c->side[1].runs,
                    "disturbed", "base", (json_int_t)c->side[0].disturbed, "new",
                    (json_int_t)c->side[1].disturbed, "missing", *c->missing ? c->missing : NULL,
                    "differences", c->differences, "metrics",
                    json_list(c->n_results, result_json, c));
}

json_t *compare_json(const struct compare_report *r)
{
    const int *v = r->verdicts;
    return json_new(
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
             (long long)r->new.n, (long long)c->side[0].disturbed, (long long)c->side[1].disturbed);
    json_t *name = json_sprintf("%s: %s", c->name, metrics[r->metric].name);
    return json_new("{s:o, s:s, s:f, s:s, s:s}", "name", name, "unit", metrics[r->metric].unit,
                    "value", r->new.median, "range", range, "extra", extra);
}

/* Returns the new side in the customBiggerIsBetter format of github-action-benchmark: [{"name",
 * "unit", "value", "range", "extra"}]. It has only the metrics for which higher values are
 * better. */
static json_t *benchmark_action(const struct compare_report *report)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < report->n_cells; i++) {
        const struct compare_cell *c = &report->cell[i];
        for (int k = 0; k < c->n_results; k++) {
            const struct compare_result *r = &c->result[k];
            if (metrics[r->metric].more_is_better && r->new.n > 0)
                json_add(list, benchmark_json(c, r));
        }
    }
    return list;
}

/* Writes Markdown, or JSON for github-action-benchmark. */
static enum status write_text(const struct compare_report *r, const char *path, bool markdown)
{
    struct atomic_file f;
    TRY(output_file_open(&f, path));
    if (markdown)
        print_markdown(r, f.stream);
    else
        json_print(benchmark_action(r), f.stream, JSON_RECORD);
    return atomic_file_commit(&f);
}

enum status compare_write(const struct compare_report *r, const struct compare_files *files)
{
    enum status markdown = files->markdown ? write_text(r, files->markdown, true) : STATUS_OK;
    enum status junit = files->junit ? write_junit(r, files->junit) : STATUS_OK;
    TRY(files->benchmark_action ? write_text(r, files->benchmark_action, false) : STATUS_OK);
    return markdown != STATUS_OK ? markdown : junit;
}
