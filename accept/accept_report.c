/* Prints results for the terminal, and writes the files of an acceptance. */
#include "accept/accept_judge.h"
#include "base/document.h"
#include "base/file.h"
#include "base/json.h"
#include "base/stats.h"
#include "base/text.h"

#include <math.h>
#include <string.h>

enum { VALUE_SIZE = 160, NOISE_WORDS_SIZE = NOISE_TEXT_MAX + 64 };

/* "disturbed: 63.0 % of the processors' time went to other processes"; "2.1 %", the share of other
 * processes; "": not known. */
static void noise_words(const struct accept_result *r, char *out, size_t size)
{
    char text[NOISE_TEXT_MAX];
    *out = '\0';
    if (host_noise_judge(&r->noise, text))
        snprintf(out, size, "disturbed: %s", text);
    else if (r->noise.seconds > 0 && isfinite(r->noise.others))
        snprintf(out, size, "%.1f %%", 100 * r->noise.others);
}

/* A metric's value as text: "2345 images/s", or the different texts of all repeats, "a, b"; "-" if
 * nothing was measured. */
static void value_words(const struct accept_metric *m, char *out, size_t size)
{
    *out = '\0';
    if (m->number)
        text_append(out, size, "%.6g%s%s", accept_metric_median(m), *m->unit ? " " : "", m->unit);
    for (int i = 0; m->text && i < m->n; i++)
        if (i == 0 || strcmp(m->text[i], m->text[i - 1]) != 0)
            text_join(out, size, ", ", "%s", m->text[i]);
    if (!m->number && !m->text)
        text_append(out, size, "-");
}

void accept_spread_words(const struct accept_metric *m, char *out, size_t size)
{
    struct stats s;
    *out = '\0';
    if (m->number && m->n > 1 && stats_of(m->number, m->n, &s) == STATUS_OK)
        text_append(out, size, "%.6g to %.6g in %d repeats", s.min, s.max, m->n);
    if (*m->where)
        text_join(out, size, ", ", "worst on %s", m->where);
}

/* --- conclusions --- */

/* Counts the metrics that have a limit, by verdict. */
static void count_metrics(const struct accept_report *r, int count[VERDICTS])
{
    memset(count, 0, VERDICTS * sizeof *count);
    for (int i = 0; i < r->n_checks; i++)
        for (int k = 0; k < r->check[i].n_metrics; k++)
            if (*r->check[i].metric[k].limit)
                count[r->check[i].metric[k].verdict]++;
}

enum { COUNTS_SIZE = 96 };

static void say_counts(const int count[VERDICTS], char out[COUNTS_SIZE])
{
    snprintf(out, COUNTS_SIZE, "%d passed, %d warned, %d failed, %d skipped, %d missing",
             count[VERDICT_PASS], count[VERDICT_WARN], count[VERDICT_FAIL], count[VERDICT_SKIP],
             count[VERDICT_MISSING]);
}

/* Writes "accepted: checks: 3 passed, ...; metrics with a limit: 7 passed, ..." without a newline.
 */
static void conclusion(const struct accept_report *r, bool strict, char *out, size_t size)
{
    int code = verdict_exit_code(r->count, strict), metrics[VERDICTS];
    char checks[COUNTS_SIZE], limits[COUNTS_SIZE];
    count_metrics(r, metrics);
    say_counts(r->count, checks);
    say_counts(metrics, limits);
    snprintf(out, size, "%s: checks: %s; metrics with a limit: %s",
             code == 0                                   ? "accepted"
             : code == status_exit_code(STATUS_MISMATCH) ? "NOT ACCEPTED"
                                                         : "incomplete",
             checks, limits);
}

/* Writes how many metrics were not judged because their limits need a fleet baseline, without a
 * newline; "" if there are no such metrics. */
static void note(const struct accept_report *r, char *out, size_t size)
{
    int left = 0, speeds = 0;
    for (int i = 0; i < r->n_checks; i++)
        for (int k = 0; k < r->check[i].n_metrics; k++) {
            const struct accept_metric *m = &r->check[i].metric[k];
            left += m->fleet_only;
            speeds +=
                accept_is_speed(m) && m->verdict != VERDICT_SKIP && m->verdict != VERDICT_MISSING;
        }
    *out = '\0';
    if (left > 0)
        snprintf(out, size, "%d %s a fleet baseline and %s not judged here%s", left,
                 left == 1 ? "metric needs" : "metrics need", left == 1 ? "was" : "were",
                 speeds > 0 ? ""
                            : "; this run judged correctness and reproducibility only, no speed");
}

/* --- terminal --- */

/* `reasoned`: prints the reason, which many metrics of a check may share. */
static void print_metric(const struct accept_metric *m, bool reasoned, FILE *out)
{
    char value[VALUE_SIZE], spread[VALUE_SIZE];
    if (!*m->limit)
        return;
    value_words(m, value, sizeof value);
    accept_spread_words(m, spread, sizeof spread);
    fprintf(out, "  %-7s %-24s %s%s%s%s; %s\n", verdict_str(m->verdict), m->name, value,
            *spread ? " (" : "", spread, *spread ? ")" : "", m->limit);
    if (*m->reason && reasoned)
        fprintf(out, "          %s\n", m->reason);
}

/* Prints a check's line, and also the check's metrics if one of its repeats has ended. */
static void print_check(const struct accept_result *c, FILE *out)
{
    char noise[NOISE_WORDS_SIZE];
    noise_words(c, noise, sizeof noise);
    fprintf(out, "%-7s %s", verdict_str(c->verdict), c->name);
    if (c->seconds > 0)
        fprintf(out, ", %.1f s", c->seconds);
    fprintf(out, "%s%s%s%s\n", *noise ? ", other work: " : "", noise, *c->ended_why ? ": " : "",
            c->ended_why);
    for (int k = 0, withheld = 0; c->repeats > 0 && k < c->n_metrics; k++) {
        const struct accept_metric *m = &c->metric[k];
        print_metric(m, !m->fleet_only && (!m->withheld || withheld++ == 0), out);
    }
}

/* Whether the check was neither selected nor measured earlier. */
static bool is_unasked(const struct accept_result *c)
{
    return c->ended == VERDICT_SKIP;
}

void accept_print(const struct accept_report *r, bool strict, FILE *out)
{
    char line[256];
    fprintf(out, "%s on %s, level %d\n", r->spec, *r->device ? r->device : r->node, r->level);
    for (int i = 0; i < r->n_checks; i++)
        if (!is_unasked(&r->check[i]))
            print_check(&r->check[i], out);
    int n = 0;
    for (int i = 0; i < r->n_checks; i++)
        if (is_unasked(&r->check[i]))
            fprintf(out, "%s%s", n++ ? ", " : "SKIP    not selected: ", r->check[i].name);
    if (n > 0)
        fputc('\n', out);
    note(r, line, sizeof line);
    if (*line)
        fprintf(out, "%s\n", line);
    conclusion(r, strict, line, sizeof line);
    fprintf(out, "%s\n", line);
}

/* --- JUnit --- */

/* The verdict; if `strict`, FAIL instead of WARN. */
static enum verdict strictly(enum verdict v, bool strict)
{
    return strict && v == VERDICT_WARN ? VERDICT_FAIL : v;
}

static void add_metric_case(struct junit *j, const char *check, const struct accept_metric *m,
                            bool strict)
{
    char message[ACCEPT_REASON_SIZE * 2 + VALUE_SIZE + 8], value[VALUE_SIZE], spread[VALUE_SIZE];
    value_words(m, value, sizeof value);
    accept_spread_words(m, spread, sizeof spread);
    const struct junit_property property[] = {
        {"value", value}, {"range", spread}, {"limit", m->limit}, {"source", m->source}};
    snprintf(message, sizeof message, "%s%s%s; %s", value, *m->reason ? ": " : "", m->reason,
             m->limit);
    junit_add(j, &(struct junit_case){.class = check,
                                      .name = m->name,
                                      .verdict = strictly(m->verdict, strict),
                                      .type = verdict_str(m->verdict),
                                      .message = message,
                                      .property = property,
                                      .properties = sizeof property / sizeof *property});
}

static enum status write_junit(const struct accept_report *r, bool strict, const char *path)
{
    struct junit j;
    char suite[ACCEPT_NAME_SIZE + 16], time[24];
    TRY(junit_begin(&j));
    for (int i = 0; i < r->n_checks; i++) {
        const struct accept_result *c = &r->check[i];
        char noise[NOISE_WORDS_SIZE];
        const struct junit_property property = {"other_work", noise};
        noise_words(c, noise, sizeof noise);
        junit_add(&j, &(struct junit_case){.class = c->name,
                                           .name = "ended",
                                           .verdict = strictly(c->ended, strict),
                                           .seconds = c->seconds,
                                           .type = verdict_str(c->ended),
                                           .message = c->ended_why,
                                           .property = &property,
                                           .properties = 1});
        for (int k = 0; k < c->n_metrics; k++)
            if (*c->metric[k].limit)
                add_metric_case(&j, c->name, &c->metric[k], strict);
    }
    snprintf(suite, sizeof suite, "ampscale accept %s", r->spec);
    snprintf(time, sizeof time, "%.19s", r->begun);
    return junit_write(&j, suite, r->node, time, path);
}

/* --- the document --- */

static void write_summary(struct writer *w, const struct accept_report *r, bool strict)
{
    struct table t = table_begin("verdict|check|>seconds|repeats|other work|why");
    char line[NOISE_WORDS_SIZE];
    conclusion(r, strict, line, sizeof line);
    writer_paragraph(w, "%s.", line);
    note(r, line, sizeof line);
    if (*line)
        writer_paragraph(w, "%s.", line);
    writer_paragraph(w, "Node %s, %s; level %d, %s to %s, ampscale %s.", r->node,
                     *r->device ? r->device : "no device", r->level, r->begun, r->ended,
                     r->version);
    for (int i = 0; i < r->n_checks; i++) {
        const struct accept_result *c = &r->check[i];
        table_add(&t, "%s", verdict_str(c->verdict));
        table_add(&t, "%s", c->name);
        table_add_amount(&t, c->seconds);
        table_add(&t, "%d of %d", c->repeats, c->wanted);
        noise_words(c, line, sizeof line);
        table_add(&t, "%s", line);
        table_add(&t, "%s", c->reason);
    }
    writer_heading(w, 2, "Checks");
    writer_table(w, &t);
}

static void write_metrics(struct writer *w, const struct accept_result *c)
{
    struct table t = table_begin("verdict|metric|>value|range|limit|why|source of the limit");
    for (int i = 0; i < c->n_metrics; i++) {
        const struct accept_metric *m = &c->metric[i];
        char text[ACCEPT_VALUE_SIZE];
        table_add(&t, "%s", *m->limit ? verdict_str(m->verdict) : "");
        table_add(&t, "%s", m->name);
        value_words(m, text, sizeof text);
        table_add(&t, "%s", text);
        accept_spread_words(m, text, sizeof text);
        table_add(&t, "%s", text);
        table_add(&t, "%s", *m->limit ? m->limit : "none");
        table_add(&t, "%s", m->reason);
        table_add(&t, "%s", m->source);
    }
    writer_table(w, &t);
}

static enum status write_document(const struct accept_report *r, bool strict,
                                  const struct format *format, const char *path)
{
    struct writer w;
    char title[ACCEPT_NAME_SIZE + ACCEPT_TEXT_SIZE + 32];
    snprintf(title, sizeof title, "Acceptance of %s by '%s'", r->node, r->spec);
    TRY(writer_begin(&w, format, path, title));
    write_summary(&w, r, strict);
    for (int i = 0; i < r->n_checks; i++) {
        const struct accept_result *c = &r->check[i];
        if (c->ended == VERDICT_SKIP) /* not selected */
            continue;
        writer_heading(&w, 2, "%s: %s", c->name, verdict_str(c->verdict));
        write_metrics(&w, c);
        if (*c->command)
            writer_code(&w, c->command);
    }
    return writer_end(&w);
}

/* --- files --- */

json_t *accept_report_json(const struct accept_report *r)
{
    char remark[256];
    int metrics[VERDICTS];
    json_t *checks = json_array();
    for (int i = 0; i < r->n_checks; i++)
        json_add(checks, accept_result_json(&r->check[i]));
    note(r, remark, sizeof remark);
    count_metrics(r, metrics);
    return json_new(
        "{s:s, s:i, s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:b, s:o, s:o, s:o, s:s}", "record",
        "accept", "schema", ACCEPT_SCHEMA, "spec", r->spec, "node", r->node, "device", r->device,
        "begun", r->begun, "ended", r->ended, "version", r->version, "level", r->level, "passed",
        verdict_exit_code(r->count, false) == 0, "counts", verdict_counts_json(r->count),
        "metric_counts", verdict_counts_json(metrics), "checks", checks, "note", remark);
}

enum status accept_write(const struct accept_report *r, bool strict, const char *dir)
{
    char path[ACCEPT_PATH_SIZE];
    TRY(path_format(path, sizeof path, "%s/accept.md", dir));
    TRY(write_document(r, strict, &format_markdown, path));
    TRY(path_format(path, sizeof path, "%s/accept.html", dir));
    TRY(write_document(r, strict, &format_html, path));
    TRY(path_format(path, sizeof path, "%s/accept.xml", dir));
    TRY(write_junit(r, strict, path));
    return json_write(accept_report_json(r), JSON_RECORD, "%s/" ACCEPT_FILE, dir);
}
