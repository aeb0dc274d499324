/* Judges each metric of a check, and then the check. */
#include "accept/accept_judge.h"

#include "base/array.h"
#include "base/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* --- words --- */

/* Sets *low to reference - share |reference|, and *high to reference + share |reference|. A metric
 * that is better when higher has no upper bound; a metric that is better when lower has no lower
 * bound. */
static void around(enum accept_better better, double reference, double share, double *low,
                   double *high)
{
    double part = fabs(reference) * share;
    *low = better == ACCEPT_LOWER ? -INFINITY : reference - part;
    *high = better == ACCEPT_HIGHER ? INFINITY : reference + part;
}

static void say_baseline(const struct accept_limit *l, const struct accept_metric *m, char *out,
                         size_t size)
{
    double low, high;
    if (isnan(l->within))
        return;
    around(m->better, l->baseline, l->within, &low, &high);
    if (isfinite(low) && isfinite(high))
        text_join(out, size, ", ", "%.5g to %.5g (baseline %.5g, up to %g %% away)", low, high,
                  l->baseline, l->within * 100);
    else
        text_join(out, size, ", ", "at %s %.5g (baseline %.5g %s %g %%)",
                  isfinite(low) ? "least" : "most", isfinite(low) ? low : high, l->baseline,
                  isfinite(low) ? "less" : "plus", l->within * 100);
}

/* The limit as text: "at least 2223 (baseline 2470 less 10 %)". */
static void say_limit(const struct accept_limit *l, const struct accept_metric *m, char *out,
                      size_t size)
{
    if (!isnan(l->min))
        text_join(out, size, ", ", "at least %.6g", l->min);
    if (!isnan(l->max))
        text_join(out, size, ", ", "at most %.6g", l->max);
    say_baseline(l, m, out, size);
    if (!isnan(l->fleet_within))
        text_join(out, size, ", ", "within %g %% of the fleet's median", l->fleet_within * 100);
    if (!isnan(l->warn_min))
        text_join(out, size, ", ", "warns below %.6g", l->warn_min);
    if (!isnan(l->warn_max))
        text_join(out, size, ", ", "warns above %.6g", l->warn_max);
    if (!isnan(l->warn_within))
        text_join(out, size, ", ", "warns beyond %g %% of baseline %.5g", l->warn_within * 100,
                  l->baseline);
    if (!isnan(l->fleet_warn_within))
        text_join(out, size, ", ", "warns beyond %g %% of the fleet's median",
                  l->fleet_warn_within * 100);
    if (*l->matches)
        text_join(out, size, ", ", "fits '%s'", l->matches);
    if (*l->at_least)
        text_join(out, size, ", ", "version %s or later", l->at_least);
    if (l->same)
        text_join(out, size, ", ", "the same in all repeats");
}

/* --- one metric --- */

/* Sets the metric's verdict and reason if `v`, the verdict of one bound, is worse than the verdict
 * so far. */
static void PRINTF_LIKE(3, 4) found(struct accept_metric *m, enum verdict v, const char *fmt, ...)
{
    va_list args;
    if (v <= m->verdict)
        return;
    m->verdict = v;
    va_start(args, fmt);
    vsnprintf(m->reason, sizeof m->reason, fmt, args);
    va_end(args);
}

static void hold_bounds(struct accept_metric *m, double x, double low, double high,
                        enum verdict worse, const char *what)
{
    if (x < low)
        found(m, worse, "%.6g is below %.6g%s", x, low, what);
    if (x > high)
        found(m, worse, "%.6g is above %.6g%s", x, high, what);
}

static void hold_share(struct accept_metric *m, double x, double baseline, double share,
                       enum verdict worse)
{
    double low, high;
    if (isnan(share))
        return;
    around(m->better, baseline, share, &low, &high);
    if (x < low || x > high)
        found(m, worse, "%.6g is %.3g %% %s the baseline %.6g; the limit is %.3g %%", x,
              fabs(x / baseline - 1) * 100, x < low ? "below" : "above", baseline, share * 100);
}

/* A version is split into at most this many numbers, up to the first part that is not a number:
 * 535.104.05 gives {535, 104, 5}. */
enum { VERSION_PARTS = 8 };

static void version_parts(const char *text, int64_t part[VERSION_PARTS])
{
    memset(part, 0, VERSION_PARTS * sizeof *part);
    for (int i = 0; i < VERSION_PARTS && *text >= '0' && *text <= '9'; i++) {
        char *end;
        part[i] = strtoll(text, &end, 10);
        text = *end == '.' || *end == '-' ? end + 1 : end;
    }
}

static bool version_before(const char *a, const char *b)
{
    int64_t x[VERSION_PARTS], y[VERSION_PARTS];
    version_parts(a, x);
    version_parts(b, y);
    for (int i = 0; i < VERSION_PARTS; i++)
        if (x[i] != y[i])
            return x[i] < y[i];
    return false;
}

static void hold_text(const struct accept_limit *l, struct accept_metric *m)
{
    for (int i = 0; i < m->n; i++) {
        if (*l->matches && !accept_matches(l->matches, m->text[i]))
            found(m, VERDICT_FAIL, "'%s' does not match the pattern '%s'", m->text[i], l->matches);
        if (*l->at_least && version_before(m->text[i], l->at_least))
            found(m, VERDICT_FAIL, "'%s' is older than version %s", m->text[i], l->at_least);
    }
}

static void hold_same(struct accept_metric *m)
{
    for (int i = 1; i < m->n; i++) {
        if (m->text && strcmp(m->text[i], m->text[0]) != 0)
            found(m, VERDICT_FAIL, "'%s' in repeat %d, but '%s' in repeat 1", m->text[i], i + 1,
                  m->text[0]);
        if (m->number && m->number[i] != m->number[0])
            found(m, VERDICT_FAIL, "%.9g in repeat %d, but %.9g in repeat 1", m->number[i], i + 1,
                  m->number[0]);
    }
    if (m->n < 2)
        found(m, VERDICT_MISSING, "measured only once: there is no second repeat to compare with");
}

static void hold_number(const struct accept_limit *l, struct accept_metric *m)
{
    double x = accept_metric_median(m);
    hold_bounds(m, x, l->min, l->max, VERDICT_FAIL, "");
    hold_bounds(m, x, l->warn_min, l->warn_max, VERDICT_WARN, " (a warning)");
    hold_share(m, x, l->baseline, l->within, VERDICT_FAIL);
    hold_share(m, x, l->baseline, l->warn_within, VERDICT_WARN);
}

static bool has_bounds(const struct accept_limit *l)
{
    return !isnan(l->min) || !isnan(l->max) || !isnan(l->warn_min) || !isnan(l->warn_max) ||
           !isnan(l->baseline);
}

static bool is_of_text(const struct accept_limit *l)
{
    return *l->matches || *l->at_least;
}

static void judge_metric(const struct accept_limit *l, int repeats, struct accept_metric *m)
{
    m->verdict = VERDICT_PASS;
    m->fleet_only = m->withheld = false;
    *m->limit = *m->reason = *m->source = '\0';
    if (!l) {
        m->verdict = VERDICT_SKIP;
        return;
    }
    say_limit(l, m, m->limit, sizeof m->limit);
    snprintf(m->source, sizeof m->source, "%s", l->source);
    if (m->n == 0 || m->n < repeats) {
        found(m, l->may_lack && m->n == 0 ? VERDICT_SKIP : VERDICT_MISSING,
              m->n == 0 ? "not measured" : "measured in %d of %d repeats", m->n, repeats);
        return;
    }
    if (!has_bounds(l) && !is_of_text(l) && !l->same) {
        found(m, VERDICT_SKIP, "judged only by comparison with other nodes ('accept --node-list')");
        m->fleet_only = true;
        return;
    }
    bool of_number = has_bounds(l) || !isnan(l->fleet_within) || !isnan(l->fleet_warn_within);
    if (m->text ? of_number : is_of_text(l)) {
        found(m, VERDICT_MISSING, "the limit is a %s, but the measured value is not",
              m->text ? "number" : "text");
        return;
    }
    if (m->text)
        hold_text(l, m);
    else
        hold_number(l, m);
    if (*m->where && *m->reason)
        text_append(m->reason, sizeof m->reason, "; worst on %s", m->where);
    if (l->same)
        hold_same(m);
}

/* --- a check --- */

/* Adds a metric that has a limit and was not measured. */
static enum status add_absent(const struct accept_limit *l, struct accept_result *r)
{
    TRY(array_reserve(&r->metric, r->n_metrics));
    struct accept_metric *m = &r->metric[r->n_metrics++];
    *m = (struct accept_metric){0};
    snprintf(m->name, sizeof m->name, "%s", l->metric);
    return STATUS_OK;
}

/* Whether a limit, whose name may be a pattern, matches a measured metric. */
static bool is_used(const struct accept_limit *l, const struct accept_result *r)
{
    for (int i = 0; i < r->n_metrics; i++)
        if (accept_matches(l->metric, r->metric[i].name))
            return true;
    return false;
}

/* Sets the reason for a check's verdict: how the check ended or, if metrics gave the verdict, the
 * first of these metrics. */
static void say_reason(struct accept_result *r)
{
    *r->reason = '\0';
    if (r->verdict == VERDICT_PASS)
        return;
    if (r->ended == r->verdict) {
        snprintf(r->reason, sizeof r->reason, "%s", r->ended_why);
        return;
    }
    for (int i = 0; i < r->n_metrics; i++) {
        const struct accept_metric *m = &r->metric[i];
        if (m->verdict != r->verdict || !*m->reason)
            continue;
        snprintf(r->reason, sizeof r->reason, "%.*s: %.*s", ACCEPT_NAME_SIZE, m->name,
                 ACCEPT_REASON_SIZE - ACCEPT_NAME_SIZE - 3, m->reason);
        return;
    }
}

/* Sets a check's verdict. Metrics without a limit are non-gating; a check without any limit passes
 * if it completed. */
static void sum_up(const struct accept_check *check, struct accept_result *r)
{
    bool passed = check->n_limits == 0 && r->repeats > 0 && r->ended == VERDICT_PASS;
    r->verdict = VERDICT_PASS;
    for (int i = 0; i < r->n_metrics; i++) {
        const struct accept_metric *m = &r->metric[i];
        passed = passed || m->verdict == VERDICT_PASS;
        if (m->verdict > r->verdict && m->verdict != VERDICT_SKIP)
            r->verdict = m->verdict;
    }
    if (r->verdict == VERDICT_PASS && !passed)
        r->verdict = VERDICT_SKIP;
    if (r->ended > r->verdict)
        r->verdict = r->ended;
    say_reason(r);
}

enum status accept_judge(const struct accept_check *check, struct accept_result *r)
{
    for (int i = 0; i < check->n_limits && r->ended != VERDICT_SKIP; i++)
        if (!is_used(&check->limit[i], r))
            TRY(add_absent(&check->limit[i], r));
    for (int i = 0; i < r->n_metrics; i++)
        judge_metric(accept_limit_for(check, r->metric[i].name), r->repeats, &r->metric[i]);
    sum_up(check, r);
    accept_withhold(r);
    return STATUS_OK;
}

/* --- a report --- */

static enum status add_not_run(const struct accept_check *check, struct accept_report *r)
{
    struct accept_result *grown = realloc(r->check, ((size_t)r->n_checks + 1) * sizeof *r->check);
    if (!grown)
        return status_fail(STATUS_OOM, "no memory for the results of checks");
    r->check = grown;
    struct accept_result *c = &r->check[r->n_checks++];
    *c = (struct accept_result){.level = check->level,
                                .device = check->device,
                                .wanted = check->repeats,
                                .ended = check->asked ? VERDICT_MISSING : VERDICT_SKIP};
    strcpy(c->ended_why, check->asked ? "not run" : "not selected");
    strcpy(c->name, check->name);
    return STATUS_OK;
}

static struct accept_result *find_result(const struct accept_report *r, const char *name)
{
    for (int i = 0; i < r->n_checks; i++)
        if (strcmp(r->check[i].name, name) == 0)
            return &r->check[i];
    return NULL;
}

enum status accept_judge_report(const struct accept_spec *spec, struct accept_report *r)
{
    for (int i = 0; i < spec->n_checks; i++) {
        const struct accept_check *check = &spec->check[i];
        if (check->level > r->level)
            continue;
        if (!find_result(r, check->name))
            TRY(add_not_run(check, r));
        TRY(accept_judge(check, find_result(r, check->name)));
    }
    memset(r->count, 0, sizeof r->count);
    for (int i = 0; i < r->n_checks; i++)
        r->count[r->check[i].verdict]++;
    return STATUS_OK;
}
