/* Comparisons as text: terminal, Markdown, JUnit. */
#include "gate/report.h"

#include "base/xml.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { NUMBER_SIZE = 32 };

void gate_conclusion(const struct gate_report *r, char *out, size_t size)
{
    snprintf(out, size,
             "%s: %d %s, %d better, %d same, %d too small to judge, %d of too few repeats; of %lld "
             "%s %d refused, %d incomplete",
             gate_passed(r)   ? "passed"
             : r->regressions ? "REGRESSION"
                              : "not judged in full",
             r->regressions, r->regressions == 1 ? "regression" : "regressions", r->better, r->same,
             r->small, r->few, (long long)r->n_cells, r->n_cells == 1 ? "cell" : "cells",
             r->refused, r->incomplete);
}

/* A dash where there is no number. */
static const char *number(const char *format, double x, char out[NUMBER_SIZE])
{
    if (isnan(x))
        return "-";
    snprintf(out, NUMBER_SIZE, format, x);
    return out;
}

/* The cells of a result's row, as text. */
struct row {
    char base[NUMBER_SIZE], new[NUMBER_SIZE], ratio[NUMBER_SIZE], interval[2 * NUMBER_SIZE + 2],
        p[NUMBER_SIZE];
};

static struct row row_of(const struct gate_result *r)
{
    struct row row;
    char a[NUMBER_SIZE], b[NUMBER_SIZE];
    snprintf(row.base, sizeof row.base, "%s", number("%.5g", r->base.median, a));
    snprintf(row.new, sizeof row.new, "%s", number("%.5g", r->new.median, a));
    snprintf(row.ratio, sizeof row.ratio, "%s", number("%.4f", r->ratio, a));
    snprintf(row.interval, sizeof row.interval, "%s..%s", number("%.4f", r->low, a),
             number("%.4f", r->high, b));
    snprintf(row.p, sizeof row.p, "%s", number("%.2g", r->p, a));
    return row;
}

static void print_differences(const struct gate_cell *c, FILE *out)
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

static void print_results(const struct gate_cell *c, FILE *out)
{
    fprintf(out, "  %-18s %10s %10s %8s %16s %8s %6s  %s\n", "metric", "base", "new", "ratio",
            "95 % interval", "p", "limit", "verdict");
    for (int i = 0; i < c->n_results; i++) {
        const struct gate_result *r = &c->result[i];
        struct row row = row_of(r);
        fprintf(out, "  %-18s %10s %10s %8s %16s %8s %5.3g%%  %s\n", metrics[r->metric].name,
                row.base, row.new, row.ratio, row.interval, row.p, 100 * r->threshold,
                gate_verdict_str(r->verdict));
    }
}

void gate_print(const struct gate_report *report, FILE *out)
{
    char line[256];
    for (int64_t i = 0; i < report->n_cells; i++) {
        const struct gate_cell *c = &report->cell[i];
        fprintf(out, "%s, %lld and %lld runs\n", c->name, (long long)c->n_base,
                (long long)c->n_new);
        if (*c->missing)
            fprintf(out, "  incomplete: %s\n", c->missing);
        if (json_object_size(c->differences) > 0)
            print_differences(c, out);
        else if (c->n_results > 0)
            print_results(c, out);
    }
    gate_conclusion(report, line, sizeof line);
    fprintf(out, "%s\n", line);
}

/* Text of unknown origin, which Markdown takes as it stands. */
static void markdown_text(const char *text, FILE *out)
{
    for (; *text; text++)
        fprintf(out, strchr("\\`*_{}[]<>()#|!~&", *text) ? "\\%c" : "%c", *text);
}

static void markdown_differences(const struct gate_cell *c, FILE *out)
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

static void markdown_results(const struct gate_cell *c, FILE *out)
{
    fprintf(out, "| metric | base | new | ratio | 95 %% interval | p | limit | verdict |\n"
                 "|---|--:|--:|--:|--:|--:|--:|---|\n");
    for (int i = 0; i < c->n_results; i++) {
        const struct gate_result *r = &c->result[i];
        struct row row = row_of(r);
        const char *strong = r->verdict == GATE_REGRESSION ? "**" : "";
        fprintf(out, "| `%s` | %s | %s | %s | %s | %s | %.3g %% | %s%s%s |\n",
                metrics[r->metric].name, row.base, row.new, row.ratio, row.interval, row.p,
                100 * r->threshold, strong, gate_verdict_str(r->verdict), strong);
    }
    fputc('\n', out);
}

void gate_print_markdown(const struct gate_report *report, FILE *out)
{
    char line[256];
    fprintf(out, "## Comparison\n\n");
    for (int64_t i = 0; i < report->n_cells; i++) {
        const struct gate_cell *c = &report->cell[i];
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
    gate_conclusion(report, line, sizeof line);
    fprintf(out, "**%s**\n", line);
}

static void case_begin(const struct gate_cell *c, const char *name, FILE *out)
{
    fprintf(out, "    <testcase classname=\"");
    xml_text(out, c->name);
    fprintf(out, "\" name=\"%s\" time=\"0\"", name);
}

/* A case that could not be judged. */
static void case_error(const struct gate_cell *c, const char *name, const char *message, FILE *out)
{
    case_begin(c, name, out);
    fprintf(out, ">\n      <error type=\"%s\" message=\"", name);
    xml_text(out, message);
    fprintf(out, "\"/>\n    </testcase>\n");
}

static void case_result(const struct gate_cell *c, const struct gate_result *r, FILE *out)
{
    const char *const tags[] = {
        [GATE_REGRESSION] = "failure", [GATE_SMALL] = "skipped", [GATE_FEW] = "error"};
    const char *verdict = gate_verdict_str(r->verdict);
    struct row row = row_of(r);
    case_begin(c, metrics[r->metric].name, out);
    if (r->verdict == GATE_SAME || r->verdict == GATE_BETTER) {
        fprintf(out, "/>\n");
        return;
    }
    fprintf(out, ">\n      <%s", tags[r->verdict]);
    if (r->verdict != GATE_SMALL) /* the schema gives "skipped" no type */
        fprintf(out, " type=\"%s\"", verdict);
    fprintf(out, " message=\"%s: %s in base, %s in new, ratio %s (%s), p %s\"/>\n", verdict,
            row.base, row.new, row.ratio, row.interval, row.p);
    fprintf(out, "    </testcase>\n");
}

/* The names of the fields that differ, as one case. */
static void case_refused(const struct gate_cell *c, FILE *out)
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

void gate_print_junit(const struct gate_report *r, FILE *out)
{
    int errors = r->few + r->refused + r->incomplete;
    char counts[128];
    snprintf(counts, sizeof counts,
             "tests=\"%d\" failures=\"%d\" errors=\"%d\" skipped=\"%d\" time=\"0\"",
             r->regressions + r->better + r->same + r->small + errors, r->regressions, errors,
             r->small);
    fprintf(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    fprintf(out, "<testsuites>\n  <testsuite name=\"ampscale compare\" %s>\n", counts);
    for (int64_t i = 0; i < r->n_cells; i++) {
        const struct gate_cell *c = &r->cell[i];
        if (*c->missing)
            case_error(c, "repeats", c->missing, out);
        if (json_object_size(c->differences) > 0)
            case_refused(c, out);
        for (int k = 0; k < c->n_results; k++)
            case_result(c, &c->result[k], out);
    }
    fprintf(out, "  </testsuite>\n</testsuites>\n");
}
