/* Results for the terminal, and as JUnit. */
#include "accept/report.h"

#include "accept/judge.h"
#include "base/stats.h"
#include "base/xml.h"

#include <math.h>
#include <string.h>

enum { VALUE_SIZE = 160 };

void accept_value_words(const struct accept_metric *m, char *out, size_t size)
{
    size_t used = 0;
    snprintf(out, size, "-");
    if (m->number)
        snprintf(out, size, "%.6g%s%s", accept_metric_median(m), *m->unit ? " " : "", m->unit);
    for (int i = 0; m->text && i < m->n && used < size; i++)
        if (i == 0 || strcmp(m->text[i], m->text[i - 1]) != 0)
            used += (size_t)snprintf(out + used, size - used, "%s%s", i ? ", " : "", m->text[i]);
}

void accept_spread_words(const struct accept_metric *m, char *out, size_t size)
{
    struct stats s;
    size_t used = 0;
    *out = '\0';
    if (m->number && m->n > 1 && stats_of(m->number, m->n, &s) == STATUS_OK)
        used = (size_t)snprintf(out, size, "%.6g to %.6g of %d", s.min, s.max, m->n);
    if (*m->where && used < size)
        snprintf(out + used, size - used, "%sworst on %s", used ? ", " : "", m->where);
}

/* --- terminal --- */

static void print_metric(const struct accept_metric *m, FILE *out)
{
    char value[VALUE_SIZE], spread[VALUE_SIZE];
    if (!*m->limit)
        return;
    accept_value_words(m, value, sizeof value);
    accept_spread_words(m, spread, sizeof spread);
    fprintf(out, "  %-7s %-24s %s%s%s%s; %s\n", accept_verdict_str(m->verdict), m->name, value,
            *spread ? " (" : "", spread, *spread ? ")" : "", m->limit);
    if (*m->reason)
        fprintf(out, "          %s\n", m->reason);
}

/* Of a check that was not run, or not to its end, that is all there is to tell. */
static void print_check(const struct accept_result *c, FILE *out)
{
    fprintf(out, "%-7s %s", accept_verdict_str(c->verdict), c->name);
    if (c->seconds > 0)
        fprintf(out, ", %.1f s", c->seconds);
    fprintf(out, "%s%s\n", *c->ended_why ? ": " : "", c->ended_why);
    for (int k = 0; c->repeats > 0 && k < c->n_metrics; k++)
        print_metric(&c->metric[k], out);
}

/* What was neither asked for nor measured earlier. */
static bool is_unasked(const struct accept_result *c)
{
    return c->ended == ACCEPT_SKIP;
}

static void print_unasked(const struct accept_report *r, FILE *out)
{
    int n = 0;
    for (int i = 0; i < r->n_checks; i++)
        if (is_unasked(&r->check[i]))
            fprintf(out, "%s%s", n++ ? ", " : "SKIP    not asked for: ", r->check[i].name);
    if (n > 0)
        fputc('\n', out);
}

void accept_print(const struct accept_report *r, bool strict, FILE *out)
{
    char line[256];
    fprintf(out, "%s on %s, level %d\n", r->spec, *r->device ? r->device : r->node, r->level);
    for (int i = 0; i < r->n_checks; i++)
        if (!is_unasked(&r->check[i]))
            print_check(&r->check[i], out);
    print_unasked(r, out);
    accept_note(r, line, sizeof line);
    if (*line)
        fprintf(out, "%s\n", line);
    accept_conclusion(r, strict, line, sizeof line);
    fprintf(out, "%s\n", line);
}

/* --- JUnit --- */

/* How a verdict is told: NULL passes. */
static const char *tag_of(enum accept_verdict v, bool strict)
{
    static const char *const tag[] = {NULL, "skipped", NULL, "error", "failure"};
    return strict && v == ACCEPT_WARN ? "failure" : tag[v];
}

static void print_case(const char *check, const char *name, enum accept_verdict v, bool strict,
                       double seconds, const char *message, FILE *out)
{
    const char *tag = tag_of(v, strict);
    fputs("    <testcase classname=\"", out);
    xml_text(out, check);
    fputs("\" name=\"", out);
    xml_text(out, name);
    fprintf(out, "\" time=\"%.3f\"", seconds);
    if (!tag) {
        fputs("/>\n", out);
        return;
    }
    fprintf(out, ">\n      <%s", tag);
    if (strcmp(tag, "skipped") != 0) /* the schema gives "skipped" no type */
        fprintf(out, " type=\"%s\"", accept_verdict_str(v));
    fputs(" message=\"", out);
    xml_text(out, message);
    fputs("\"/>\n    </testcase>\n", out);
}

static void print_metric_case(const struct accept_result *c, const struct accept_metric *m,
                              bool strict, FILE *out)
{
    char message[ACCEPT_REASON_SIZE * 2 + VALUE_SIZE + 8], value[VALUE_SIZE];
    accept_value_words(m, value, sizeof value);
    snprintf(message, sizeof message, "%s: %s; %s", value, m->reason, m->limit);
    print_case(c->name, m->name, m->verdict, strict, 0, message, out);
}

static void count_case(enum accept_verdict v, bool strict, int counts[4])
{
    static const char *const tags[] = {"failure", "error", "skipped"};
    const char *tag = tag_of(v, strict);
    counts[0]++;
    for (int i = 0; tag && i < 3; i++)
        counts[i + 1] += strcmp(tag, tags[i]) == 0;
}

void accept_print_junit(const struct accept_report *r, bool strict, FILE *out)
{
    int counts[4] = {0}; /* cases, failures, errors, skipped */
    double seconds = 0;
    for (int i = 0; i < r->n_checks; i++) {
        const struct accept_result *c = &r->check[i];
        seconds += c->seconds;
        count_case(c->ended, strict, counts);
        for (int k = 0; k < c->n_metrics; k++)
            if (*c->metric[k].limit)
                count_case(c->metric[k].verdict, strict, counts);
    }
    fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"ampscale "
          "accept ",
          out);
    xml_text(out, r->spec);
    fputs("\" hostname=\"", out);
    xml_text(out, r->node);
    fprintf(out, "\" timestamp=\"%.19s\" tests=\"%d\" failures=\"%d\" errors=\"%d\" skipped=\"%d\"",
            r->begun, counts[0], counts[1], counts[2], counts[3]);
    fprintf(out, " time=\"%.3f\">\n", seconds);
    for (int i = 0; i < r->n_checks; i++) {
        const struct accept_result *c = &r->check[i];
        print_case(c->name, "ended", c->ended, strict, c->seconds, c->ended_why, out);
        for (int k = 0; k < c->n_metrics; k++)
            if (*c->metric[k].limit)
                print_metric_case(c, &c->metric[k], strict, out);
    }
    fputs("  </testsuite>\n</testsuites>\n", out);
}
