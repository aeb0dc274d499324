/* Comparisons as text: terminal, Markdown, JUnit. */
#include "compare/formats.h"

#include "base/xml.h"

#include <stdbool.h>
#include <string.h>

enum { NUMBER_SIZE = METRIC_TEXT_SIZE };

void compare_conclusion(const struct compare_report *r, char *out, size_t size)
{
    const int *v = r->verdicts;
    snprintf(out, size,
             "%s: %d %s, %d not confirmed, %d better, %d same, %d too small to judge, %d of too "
             "few repeats; %d that "
             "%s not decide %s worse; of %lld %s %d refused, %d incomplete",
             compare_passed(r)       ? "passed"
             : v[COMPARE_REGRESSION] ? "REGRESSION"
                                     : "not judged in full",
             v[COMPARE_REGRESSION], v[COMPARE_REGRESSION] == 1 ? "regression" : "regressions",
             v[COMPARE_UNCONFIRMED], v[COMPARE_BETTER], v[COMPARE_SAME], v[COMPARE_SMALL],
             v[COMPARE_FEW], v[COMPARE_WORSE], v[COMPARE_WORSE] == 1 ? "does" : "do",
             v[COMPARE_WORSE] == 1 ? "is" : "are", (long long)r->n_cells,
             r->n_cells == 1 ? "cell" : "cells", r->refused, r->incomplete);
}

static void print_family(const struct compare_report *r, FILE *out)
{
    if (r->family > 1)
        fprintf(out, "%d metrics decide: each must come below alpha %g by Holm's correction.\n",
                r->family, r->alpha);
}

/* How a cell was judged, as a sentence. */
static const char *method_of(const struct compare_cell *c)
{
    for (int i = 0; i < c->n_results; i++)
        if (c->result[i].is.paired)
            return "Runs took turns and are judged by pairs of neighbours in time: signed-rank "
                   "test, ratio within pairs.";
    return c->turns ? "Runs took turns, but are too few to be judged by pairs: rank test of the "
                      "sides, ratio of medians."
                    : "Runs did not take turns: rank test of the sides, ratio of medians; a drift "
                      "of the machine's speed counts as a difference.";
}

/* The cells of a result's row, as text. */
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
        fprintf(out, "    %s: '%s' in BASE, '%s' in NEW or another run\n", field,
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

void compare_print(const struct compare_report *report, FILE *out)
{
    char line[256];
    for (int64_t i = 0; i < report->n_cells; i++) {
        const struct compare_cell *c = &report->cell[i];
        fprintf(out, "%s, %lld and %lld runs\n", c->name, (long long)c->n_base,
                (long long)c->n_new);
        if (*c->missing)
            fprintf(out, "  incomplete: %s\n", c->missing);
        if (json_object_size(c->differences) > 0)
            print_differences(c, out);
        else if (c->n_results > 0)
            print_results(c, out);
    }
    print_family(report, out);
    compare_conclusion(report, line, sizeof line);
    fprintf(out, "%s\n", line);
}

/* Text of unknown origin, which Markdown takes as it stands. */
static void markdown_text(const char *text, FILE *out)
{
    for (; *text; text++)
        fprintf(out, strchr("\\`*_{}[]<>()#|!~&", *text) ? "\\%c" : "%c", *text);
}

static void markdown_differences(const struct compare_cell *c, FILE *out)
{
    const char *field;
    json_t *d;
    fprintf(out,
            "Refused: the runs differ.\n\n| field | base | new, or another run |\n|---|---|---|\n");
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
    char line[256];
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
        if (json_object_size(c->differences) > 0)
            markdown_differences(c, out);
        else if (c->n_results > 0)
            markdown_results(c, out);
    }
    print_family(report, out);
    compare_conclusion(report, line, sizeof line);
    fprintf(out, "%s**%s**\n", report->family > 1 ? "\n" : "", line);
}

static void case_begin(const struct compare_cell *c, const char *name, FILE *out)
{
    fprintf(out, "    <testcase classname=\"");
    xml_text(out, c->name);
    fprintf(out, "\" name=\"%s\" time=\"0\"", name);
}

/* A case that could not be judged. */
static void case_error(const struct compare_cell *c, const char *name, const char *message,
                       FILE *out)
{
    case_begin(c, name, out);
    fprintf(out, ">\n      <error type=\"%s\" message=\"", name);
    xml_text(out, message);
    fprintf(out, "\"/>\n    </testcase>\n");
}

/* The element of a case that says more than that it passed; NULL for one that did. What does not
 * decide is at most skipped. */
static const char *tag_of(const struct compare_result *r)
{
    if (r->verdict == COMPARE_REGRESSION)
        return "failure";
    if (r->verdict == COMPARE_FEW && r->decides)
        return "error";
    return r->verdict == COMPARE_FEW || r->verdict == COMPARE_SMALL ? "skipped" : NULL;
}

static void case_result(const struct compare_cell *c, const struct compare_result *r, FILE *out)
{
    const char *verdict = compare_verdict_str(r->verdict), *tag = tag_of(r);
    struct row row = row_of(r);
    case_begin(c, metrics[r->metric].name, out);
    if (!tag) {
        fprintf(out, "/>\n");
        return;
    }
    fprintf(out, ">\n      <%s", tag);
    if (strcmp(tag, "skipped") != 0) /* the schema gives "skipped" no type */
        fprintf(out, " type=\"%s\"", verdict);
    fprintf(out, " message=\"%s: %s in base, %s in new, ratio %s (%s), p %s\"/>\n", verdict,
            row.base, row.new, row.ratio, row.interval, row.p);
    fprintf(out, "    </testcase>\n");
}

/* The names of the fields that differ, as one case. */
static void case_refused(const struct compare_cell *c, FILE *out)
{
    const char *field, *comma = " ";
    json_t *d;
    case_begin(c, "configuration", out);
    fprintf(out, ">\n      <error type=\"configuration\" message=\"the runs differ in");
    json_object_foreach(c->differences, field, d)
    {
        fputs(comma, out);
        xml_text(out, field);
        fputs(" (", out);
        xml_text(out, json_string_value(json_object_get(d, "base")));
        fputs(" / ", out);
        xml_text(out, json_string_value(json_object_get(d, "new")));
        fputc(')', out);
        comma = ", ";
    }
    fprintf(out, "\"/>\n    </testcase>\n");
}

void compare_print_junit(const struct compare_report *r, FILE *out)
{
    int errors = r->undecided + r->refused + r->incomplete, all = r->refused + r->incomplete;
    char counts[128];
    for (int v = 0; v < COMPARE_VERDICTS; v++)
        all += r->verdicts[v];
    snprintf(counts, sizeof counts,
             "tests=\"%d\" failures=\"%d\" errors=\"%d\" skipped=\"%d\" time=\"0\"", all,
             r->verdicts[COMPARE_REGRESSION], errors,
             r->verdicts[COMPARE_SMALL] + r->verdicts[COMPARE_FEW] - r->undecided);
    fprintf(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    fprintf(out, "<testsuites>\n  <testsuite name=\"ampscale compare\" %s>\n", counts);
    for (int64_t i = 0; i < r->n_cells; i++) {
        const struct compare_cell *c = &r->cell[i];
        if (*c->missing)
            case_error(c, "repeats", c->missing, out);
        if (json_object_size(c->differences) > 0)
            case_refused(c, out);
        for (int k = 0; k < c->n_results; k++)
            case_result(c, &c->result[k], out);
    }
    fprintf(out, "  </testsuite>\n</testsuites>\n");
}
