/* Prints results for the terminal, and writes them as JUnit. */
#include "accept/accept_report.h"

#include "accept/accept_judge.h"
#include "accept/accept_noise.h"
#include "base/stats.h"
#include "base/text.h"

#include <string.h>

enum { VALUE_SIZE = 160 };

void accept_value_words(const struct accept_metric *m, char *out, size_t size)
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

/* --- terminal --- */

/* `reasoned`: prints the reason, which many metrics of a check may share. */
static void print_metric(const struct accept_metric *m, bool reasoned, FILE *out)
{
    char value[VALUE_SIZE], spread[VALUE_SIZE];
    if (!*m->limit)
        return;
    accept_value_words(m, value, sizeof value);
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
    accept_noise_words(c, noise, sizeof noise);
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
    accept_note(r, line, sizeof line);
    if (*line)
        fprintf(out, "%s\n", line);
    accept_conclusion(r, strict, line, sizeof line);
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
    accept_value_words(m, value, sizeof value);
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

enum status accept_write_junit(const struct accept_report *r, bool strict, const char *path)
{
    struct junit j;
    char suite[ACCEPT_NAME_SIZE + 16], time[24];
    TRY(junit_begin(&j));
    for (int i = 0; i < r->n_checks; i++) {
        const struct accept_result *c = &r->check[i];
        char noise[NOISE_WORDS_SIZE];
        const struct junit_property property = {"other_work", noise};
        accept_noise_words(c, noise, sizeof noise);
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
