/* Writes a comparison as text: for the terminal, as Markdown, as JUnit. */
#include "compare/compare_formats.h"

#include "base/json.h"
#include "results/verdict.h"

#include <stdlib.h>
#include <string.h>

enum { NUMBER_SIZE = METRIC_TEXT_SIZE, LINE_SIZE = 320 };

/* Writes the conclusion to `out`, without a newline. */
static void conclusion(const struct compare_report *r, char out[LINE_SIZE])
{
    const int *v = r->verdicts;
    /* True if everything was judged, but some results have an interval that is too wide to
     * decide. */
    bool inconclusive =
        r->refused == 0 && r->incomplete == 0 && r->undecided == 0 && r->inconclusive > 0;
    snprintf(
        out, LINE_SIZE,
        "%s: %d %s, %d inconclusive, %d better, %d equivalent, %d without "
        "regression, %d too small to judge, %d of too few repeats; non-gating regressions: %d; "
        "%lld %s: %d refused, %d incomplete",
        compare_passed(r)       ? "passed"
        : v[COMPARE_REGRESSION] ? "REGRESSION"
        : inconclusive          ? "inconclusive"
                                : "incomplete",
        v[COMPARE_REGRESSION], v[COMPARE_REGRESSION] == 1 ? "regression" : "regressions",
        v[COMPARE_INCONCLUSIVE], v[COMPARE_BETTER], v[COMPARE_EQUIVALENT], v[COMPARE_NOT_WORSE],
        v[COMPARE_SMALL], v[COMPARE_FEW], v[COMPARE_WORSE], (long long)r->n_cells,
        r->n_cells == 1 ? "cell" : "cells", r->refused, r->incomplete);
}

static void print_family(const struct compare_report *r, FILE *out)
{
    if (r->family > 1)
        fprintf(out,
                "%d metrics are gating: by Holm's correction each is tested at a level below alpha "
                "%g.\n",
                r->family, r->alpha);
}

/* Returns a sentence that names the test by which a cell was judged. */
static const char *method_of(const struct compare_cell *c)
{
    for (int i = 0; i < c->n_results; i++)
        if (c->result[i].is.paired)
            return "Runs took turns, so that neighbours in time are compared in pairs: signed-rank "
                   "test, ratio within pairs.";
    if (c->never)
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
        p[NUMBER_SIZE], verdict[NUMBER_SIZE];
};

static struct row row_of(const struct compare_result *r)
{
    struct row row;
    char a[NUMBER_SIZE], b[NUMBER_SIZE];
    snprintf(row.base, sizeof row.base, "%s", metric_text("%.5g", r->base.median, a));
    snprintf(row.new, sizeof row.new, "%s", metric_text("%.5g", r->new.median, a));
    snprintf(row.ratio, sizeof row.ratio, "%s", metric_text("%.4f", r->is.ratio, a));
    snprintf(row.interval, sizeof row.interval, "%s..%s", metric_text("%.4f", r->is.low, a),
             metric_text("%.4f", r->is.high, b));
    snprintf(row.p, sizeof row.p, "%s", metric_text("%.2g", r->is.p, a));
    snprintf(row.verdict, sizeof row.verdict, r->decides ? "%s" : "(%s)",
             compare_verdict_str(r->verdict));
    return row;
}

static void print_differences(const struct compare_cell *c, FILE *out)
{
    const char *field;
    json_t *d;
    fprintf(out, "  refused: the runs differ in\n");
    json_object_foreach(c->differences, field, d)
    {
        fprintf(out, "    %s: '%s' in the first run of BASE, '%s' in another run\n", field,
                json_string_value(json_object_get(d, "base")),
                json_string_value(json_object_get(d, "new")));
    }
}

static void print_results(const struct compare_cell *c, FILE *out)
{
    fprintf(out, "  %s\n", method_of(c));
    fprintf(out, "  %-18s %10s %10s %8s %16s %8s %6s  %s\n", "metric", "base", "new", "ratio",
            "95 % interval", "p", "limit", "verdict");
    for (int i = 0; i < c->n_results; i++) {
        const struct compare_result *r = &c->result[i];
        struct row row = row_of(r);
        fprintf(out, "  %-18s %10s %10s %8s %16s %8s %5.3g%%  %s\n", metrics[r->metric].name,
                row.base, row.new, row.ratio, row.interval, row.p, 100 * r->threshold, row.verdict);
    }
}

/* Prints how many runs were disturbed by other work. Prints nothing if no run was disturbed. */
static void print_disturbed(const struct compare_cell *c, const char *indent, FILE *out)
{
    if (c->disturbed_base + c->disturbed_new > 0)
        fprintf(
            out,
            "%sdisturbed by other work: %lld of %lld runs of BASE, %lld of %lld of NEW ('noise' "
            "in summary.json)\n",
            indent, (long long)c->disturbed_base, (long long)c->n_base, (long long)c->disturbed_new,
            (long long)c->n_new);
}

void compare_print(const struct compare_report *report, FILE *out)
{
    char line[LINE_SIZE];
    for (int64_t i = 0; i < report->n_cells; i++) {
        const struct compare_cell *c = &report->cell[i];
        fprintf(out, "%s, %lld and %lld runs\n", c->name, (long long)c->n_base,
                (long long)c->n_new);
        if (*c->missing)
            fprintf(out, "  incomplete: %s\n", c->missing);
        print_disturbed(c, "  ", out);
        if (json_object_size(c->differences) > 0)
            print_differences(c, out);
        else if (c->n_results > 0)
            print_results(c, out);
    }
    print_family(report, out);
    conclusion(report, line);
    fprintf(out, "%s\n", line);
}

/* Prints text of unknown origin, escaped so that Markdown shows it unchanged. */
static void markdown_text(const char *text, FILE *out)
{
    for (; *text; text++)
        fprintf(out, strchr("\\`*_{}[]<>()#|!~&", *text) ? "\\%c" : "%c", *text);
}

static void markdown_differences(const struct compare_cell *c, FILE *out)
{
    const char *field;
    json_t *d;
    fprintf(out, "Refused: the runs differ.\n\n"
                 "| field | first run of BASE | another run |\n|---|---|---|\n");
    json_object_foreach(c->differences, field, d)
    {
        fputs("| ", out);
        markdown_text(field, out);
        fputs(" | ", out);
        markdown_text(json_string_value(json_object_get(d, "base")), out);
        fputs(" | ", out);
        markdown_text(json_string_value(json_object_get(d, "new")), out);
        fputs(" |\n", out);
    }
    fputc('\n', out);
}

static void markdown_results(const struct compare_cell *c, FILE *out)
{
    fprintf(out, "%s\n\n", method_of(c));
    fprintf(out, "| metric | base | new | ratio | 95 %% interval | p | limit | verdict |\n"
                 "|---|--:|--:|--:|--:|--:|--:|---|\n");
    for (int i = 0; i < c->n_results; i++) {
        const struct compare_result *r = &c->result[i];
        struct row row = row_of(r);
        const char *strong = r->verdict == COMPARE_REGRESSION ? "**" : "";
        fprintf(out, "| `%s` | %s | %s | %s | %s | %s | %.3g %% | %s%s%s |\n",
                metrics[r->metric].name, row.base, row.new, row.ratio, row.interval, row.p,
                100 * r->threshold, strong, row.verdict, strong);
    }
    fputc('\n', out);
}

void compare_print_markdown(const struct compare_report *report, FILE *out)
{
    char line[LINE_SIZE];
    fprintf(out, "## Comparison\n\n");
    for (int64_t i = 0; i < report->n_cells; i++) {
        const struct compare_cell *c = &report->cell[i];
        fprintf(out, "### ");
        markdown_text(c->name, out);
        fprintf(out, "\n\n%lld and %lld runs.\n\n", (long long)c->n_base, (long long)c->n_new);
        if (*c->missing) {
            fprintf(out, "Incomplete: ");
            markdown_text(c->missing, out);
            fprintf(out, ".\n\n");
        }
        print_disturbed(c, "", out);
        if (json_object_size(c->differences) > 0)
            markdown_differences(c, out);
        else if (c->n_results > 0)
            markdown_results(c, out);
    }
    print_family(report, out);
    conclusion(report, line);
    fprintf(out, "%s**%s**\n", report->family > 1 ? "\n" : "", line);
}

/* --- JUnit --- */

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

static void add_result(struct junit *j, const struct compare_cell *c,
                       const struct compare_result *r)
{
    const char *verdict = compare_verdict_str(r->verdict);
    char message[256];
    struct row row = row_of(r);
    snprintf(message, sizeof message, "%s: %s in base, %s in new, ratio %s (%s), p %s", verdict,
             row.base, row.new, row.ratio, row.interval, row.p);
    char threshold[NUMBER_SIZE];
    snprintf(threshold, sizeof threshold, "%.3g%%", 100 * r->threshold);
    const struct junit_property property[] = {{"verdict", verdict},       {"base", row.base},
                                              {"new", row.new},           {"ratio", row.ratio},
                                              {"interval", row.interval}, {"p", row.p},
                                              {"threshold", threshold}};
    junit_add(j, &(struct junit_case){.class = c->name,
                                      .name = metrics[r->metric].name,
                                      .verdict = case_of(r),
                                      .type = verdict,
                                      .message = message,
                                      .property = property,
                                      .properties = sizeof property / sizeof *property});
}

/* Adds one case whose message has the names of the fields that differ. */
static enum status add_refused(struct junit *j, const struct compare_cell *c)
{
    const char *field, *comma = " ";
    json_t *d;
    struct text_stream message;
    TRY(text_stream_open(&message));
    fputs("the runs differ in", message.out);
    json_object_foreach(c->differences, field, d)
    {
        fprintf(message.out, "%s%s (%s / %s)", comma, field, json_text_at(d, "base"),
                json_text_at(d, "new"));
        comma = ", ";
    }
    TRY(text_stream_close(&message));
    junit_add(j, &(struct junit_case){.class = c->name,
                                      .name = "configuration",
                                      .verdict = VERDICT_MISSING,
                                      .type = "configuration",
                                      .message = message.text});
    free(message.text);
    return STATUS_OK;
}

enum status compare_write_junit(const struct compare_report *r, const char *path)
{
    struct junit j;
    TRY(junit_begin(&j));
    for (int64_t i = 0; i < r->n_cells; i++) {
        const struct compare_cell *c = &r->cell[i];
        if (*c->missing)
            junit_add(&j, &(struct junit_case){.class = c->name,
                                               .name = "repeats",
                                               .verdict = VERDICT_MISSING,
                                               .type = "repeats",
                                               .message = c->missing});
        if (json_object_size(c->differences) > 0)
            TRY(add_refused(&j, c));
        for (int k = 0; k < c->n_results; k++)
            add_result(&j, c, &c->result[k]);
    }
    return junit_write(&j, "ampscale compare", NULL, NULL, path);
}
