/* Collects the measurements of checks in memory. */
#include "accept/accept_result.h"

#include "base/array.h"
#include "base/stats.h"
#include "base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *accept_better_str(enum accept_better b)
{
    static const char *const word[] = {"even", "higher", "lower"};
    return word[b];
}

struct accept_metric *accept_metric_find(const struct accept_result *r, const char *name)
{
    for (int i = 0; i < r->n_metrics; i++)
        if (strcmp(r->metric[i].name, name) == 0)
            return &r->metric[i];
    return NULL;
}

/* Finds the metric called `name`, or adds it. */
static enum status find_or_add(struct accept_result *r, const char *name, struct accept_metric **m)
{
    char clean[ACCEPT_NAME_SIZE];
    text_clean(clean, sizeof clean, name);
    *m = accept_metric_find(r, clean);
    if (*m)
        return STATUS_OK;
    if (r->n_metrics == ACCEPT_METRICS_MAX)
        return status_fail(STATUS_DATA, "a check measured more than %d metrics",
                           ACCEPT_METRICS_MAX);
    TRY(array_reserve(&r->metric, r->n_metrics));
    *m = &r->metric[r->n_metrics++];
    **m = (struct accept_metric){.verdict = VERDICT_SKIP};
    strcpy((*m)->name, clean);
    return STATUS_OK;
}

/* Fails because a metric has both numbers and texts, which a damaged file of earlier repeats can
 * cause. */
static enum status not_alike(const struct accept_metric *m)
{
    return status_fail(STATUS_DATA, "'%s' is a number in one repeat and a text in another",
                       m->name);
}

enum status accept_result_number(struct accept_result *r, const char *name, const char *unit,
                                 enum accept_better better, double value)
{
    struct accept_metric *m;
    if (!isfinite(value))
        return STATUS_OK;
    TRY(find_or_add(r, name, &m));
    if (m->text)
        return not_alike(m);
    TRY(array_reserve(&m->number, m->n));
    m->number[m->n++] = value;
    text_clean(m->unit, sizeof m->unit, unit);
    m->better = better;
    return STATUS_OK;
}

void accept_metric_place(struct accept_metric *m, const char *where)
{
    double last = m->number[m->n - 1];
    for (int i = 0; i < m->n - 1; i++)
        if (m->better == ACCEPT_HIGHER ? m->number[i] <= last : m->number[i] >= last)
            return;
    text_clean(m->where, sizeof m->where, where);
}

enum status accept_result_text(struct accept_result *r, const char *name, const char *text)
{
    struct accept_metric *m;
    TRY(find_or_add(r, name, &m));
    if (m->number)
        return not_alike(m);
    TRY(array_reserve(&m->text, m->n));
    text_clean(m->text[m->n++], sizeof *m->text, text);
    return STATUS_OK;
}

double accept_metric_median(const struct accept_metric *m)
{
    struct stats s;
    if (!m->number || stats_of(m->number, m->n, &s) != STATUS_OK)
        return NAN;
    return s.median;
}

void accept_result_free(struct accept_result *r)
{
    for (int i = 0; i < r->n_metrics; i++) {
        free(r->metric[i].number);
        free(r->metric[i].text);
    }
    free(r->metric);
    *r = (struct accept_result){0};
}

void accept_report_free(struct accept_report *r)
{
    for (int i = 0; i < r->n_checks; i++)
        accept_result_free(&r->check[i]);
    free(r->check);
    *r = (struct accept_report){0};
}
