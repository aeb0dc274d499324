/* Verdicts. */
#include "accept/judge.h"

#include "base/stats.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* --- words --- */

/* Adds to a text, with ", " before all but the first. */
static void PRINTF_LIKE(3, 4) say(char *out, size_t size, const char *fmt, ...)
{
    va_list args;
    size_t used = strlen(out);
    if (used + 3 > size)
        return;
    used += (size_t)snprintf(out + used, size - used, "%s", used ? ", " : "");
    va_start(args, fmt);
    vsnprintf(out + used, size - used, fmt, args);
    va_end(args);
}

/* The bounds that a share of a reference makes: of what is better when higher the lower one alone,
 * and so on. */
static void around(enum accept_better better, double reference, double share, double *low,
                   double *high)
{
    double part = fabs(reference) * share;
    *low = better == ACCEPT_LOWER ? -INFINITY : reference - part;
    *high = better == ACCEPT_HIGHER ? INFINITY : reference + part;
}

static void say_share(const struct accept_metric *m, const char *what, double reference,
                      double share, char *out, size_t size)
{
    double low, high;
    if (isnan(share))
        return;
    if (isnan(reference)) {
        say(out, size, "%g %% of %s", share * 100, what);
        return;
    }
    around(m->better, reference, share, &low, &high);
    if (isfinite(low) && isfinite(high))
        say(out, size, "%.5g to %.5g", low, high);
    else
        say(out, size, "at %s %.5g", isfinite(low) ? "least" : "most", isfinite(low) ? low : high);
    say(out, size, "%g %% of %s %.5g", share * 100, what, reference);
}

void accept_limit_words(const struct accept_limit *l, const struct accept_metric *m, double fleet,
                        char *out, size_t size)
{
    *out = '\0';
    if (!isnan(l->min))
        say(out, size, "at least %.6g", l->min);
    if (!isnan(l->max))
        say(out, size, "at most %.6g", l->max);
    say_share(m, "baseline", l->baseline, l->within, out, size);
    say_share(m, "the fleet's median", fleet, l->fleet_within, out, size);
    if (!isnan(l->warn_min))
        say(out, size, "warns below %.6g", l->warn_min);
    if (!isnan(l->warn_max))
        say(out, size, "warns above %.6g", l->warn_max);
    if (!isnan(l->warn_within))
        say(out, size, "warns at %g %% of baseline %.5g", l->warn_within * 100, l->baseline);
    if (!isnan(l->fleet_warn_within))
        say(out, size, "warns at %g %% of the fleet's median", l->fleet_warn_within * 100);
    if (*l->matches)
        say(out, size, "fits '%s'", l->matches);
    if (*l->at_least)
        say(out, size, "version %s or later", l->at_least);
    if (l->same)
        say(out, size, "the same in all repeats");
}

/* --- one metric --- */

/* A verdict for one bound; the worst so far, and the first of its kind, stays with its reason. */
static void PRINTF_LIKE(3, 4)
    found(struct accept_metric *m, enum accept_verdict v, const char *fmt, ...)
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
                        enum accept_verdict worse, const char *what)
{
    if (x < low)
        found(m, worse, "%.6g is below %.6g%s", x, low, what);
    if (x > high)
        found(m, worse, "%.6g is above %.6g%s", x, high, what);
}

static void hold_share(struct accept_metric *m, double x, double reference, double share,
                       enum accept_verdict worse, const char *what)
{
    double low, high;
    if (isnan(share))
        return;
    around(m->better, reference, share, &low, &high);
    if (x < low || x > high)
        found(m, worse, "%.6g is %.3g %% %s %s %.6g, and %.3g %% is the limit", x,
              fabs(x / reference - 1) * 100, x < low ? "below" : "above", what, reference,
              share * 100);
}

/* The parts of a version, up to the first that is no number: 535.104.05 is {535, 104, 5}. */
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
            found(m, ACCEPT_FAIL, "'%s' does not fit '%s'", m->text[i], l->matches);
        if (*l->at_least && version_before(m->text[i], l->at_least))
            found(m, ACCEPT_FAIL, "'%s' is before version %s", m->text[i], l->at_least);
    }
}

static void hold_same(struct accept_metric *m)
{
    for (int i = 1; i < m->n; i++) {
        if (m->text && strcmp(m->text[i], m->text[0]) != 0)
            found(m, ACCEPT_FAIL, "'%s' in repeat %d, but '%s' in the first", m->text[i], i + 1,
                  m->text[0]);
        if (m->number && m->number[i] != m->number[0])
            found(m, ACCEPT_FAIL, "%.9g in repeat %d, but %.9g in the first", m->number[i], i + 1,
                  m->number[0]);
    }
    if (m->n < 2)
        found(m, ACCEPT_MISSING, "repeated once; nothing to compare with");
}

static void hold_number(const struct accept_limit *l, double fleet, struct accept_metric *m)
{
    double x = accept_metric_median(m);
    hold_bounds(m, x, l->min, l->max, ACCEPT_FAIL, "");
    hold_bounds(m, x, l->warn_min, l->warn_max, ACCEPT_WARN, ", which warns");
    hold_share(m, x, l->baseline, l->within, ACCEPT_FAIL, "the baseline");
    hold_share(m, x, l->baseline, l->warn_within, ACCEPT_WARN, "the baseline");
    if (isnan(fleet))
        return;
    hold_share(m, x, fleet, l->fleet_within, ACCEPT_FAIL, "the fleet's median");
    hold_share(m, x, fleet, l->fleet_warn_within, ACCEPT_WARN, "the fleet's median");
}

static bool has_bounds(const struct accept_limit *l)
{
    return !isnan(l->min) || !isnan(l->max) || !isnan(l->warn_min) || !isnan(l->warn_max) ||
           !isnan(l->baseline);
}

static bool is_of_number(const struct accept_limit *l)
{
    return has_bounds(l) || !isnan(l->fleet_within) || !isnan(l->fleet_warn_within);
}

static bool is_of_text(const struct accept_limit *l)
{
    return *l->matches || *l->at_least;
}

/* Adds the device to what is wrong with a number that one of several has. */
static void say_where(struct accept_metric *m)
{
    size_t used = strlen(m->reason);
    if (*m->where && *m->reason)
        snprintf(m->reason + used, sizeof m->reason - used, "; worst on %s", m->where);
}

/* Whether anything but the fleet decides. */
static bool holds_alone(const struct accept_limit *l)
{
    return has_bounds(l) || is_of_text(l) || l->same;
}

static void judge_metric(const struct accept_limit *l, double fleet, int repeats,
                         struct accept_metric *m)
{
    m->verdict = ACCEPT_PASS;
    m->fleet_only = false;
    *m->limit = *m->reason = *m->source = '\0';
    if (!l) {
        m->verdict = ACCEPT_SKIP;
        return;
    }
    accept_limit_words(l, m, fleet, m->limit, sizeof m->limit);
    snprintf(m->source, sizeof m->source, "%s", l->source);
    if (m->n == 0 || m->n < repeats) {
        found(m, l->may_lack && m->n == 0 ? ACCEPT_SKIP : ACCEPT_MISSING,
              m->n == 0 ? "not measured" : "measured in %d of %d repeats", m->n, repeats);
        return;
    }
    if (!holds_alone(l) && isnan(fleet)) {
        found(m, ACCEPT_SKIP, "judged over a fleet of nodes only");
        m->fleet_only = true;
        return;
    }
    if (m->text ? is_of_number(l) : is_of_text(l)) {
        found(m, ACCEPT_MISSING, "the limit is of a %s, and this is none",
              m->text ? "number" : "text");
        return;
    }
    if (m->text)
        hold_text(l, m);
    else
        hold_number(l, fleet, m);
    say_where(m);
    if (l->same)
        hold_same(m);
}

/* --- a check --- */

/* A metric that a limit asks for and nobody measured. */
static enum status add_absent(const struct accept_limit *l, struct accept_result *r)
{
    struct accept_metric *grown =
        realloc(r->metric, ((size_t)r->n_metrics + 1) * sizeof *r->metric);
    if (!grown)
        return status_fail(STATUS_OOM, "no memory for the metrics of a check");
    r->metric = grown;
    struct accept_metric *m = &r->metric[r->n_metrics++];
    *m = (struct accept_metric){0};
    snprintf(m->name, sizeof m->name, "%s", l->metric);
    return STATUS_OK;
}

/* Whether a limit, which may be of a pattern, fits any metric there is. */
static bool is_used(const struct accept_limit *l, const struct accept_result *r)
{
    for (int i = 0; i < r->n_metrics; i++)
        if (accept_matches(l->metric, r->metric[i].name))
            return true;
    return false;
}

/* Why a check came to its verdict: the first metric that did, or how it ended. */
static void say_reason(struct accept_result *r)
{
    *r->reason = '\0';
    if (r->verdict == ACCEPT_PASS)
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

/* Metrics that nobody set a limit for decide nothing; a check that has none at all, and ended in
 * order, has passed: that it ran was what it asked. */
static void sum_up(const struct accept_check *check, struct accept_result *r)
{
    bool passed = check->n_limits == 0 && r->repeats > 0 && r->ended == ACCEPT_PASS;
    r->verdict = ACCEPT_PASS;
    for (int i = 0; i < r->n_metrics; i++) {
        const struct accept_metric *m = &r->metric[i];
        passed = passed || m->verdict == ACCEPT_PASS;
        if (m->verdict > r->verdict && m->verdict != ACCEPT_SKIP)
            r->verdict = m->verdict;
    }
    if (r->verdict == ACCEPT_PASS && !passed)
        r->verdict = ACCEPT_SKIP;
    if (r->ended > r->verdict)
        r->verdict = r->ended;
    say_reason(r);
}

enum status accept_judge(const struct accept_check *check, accept_fleet *fleet, void *context,
                         struct accept_result *r)
{
    for (int i = 0; i < check->n_limits && r->ended != ACCEPT_SKIP; i++)
        if (!is_used(&check->limit[i], r))
            TRY(add_absent(&check->limit[i], r));
    for (int i = 0; i < r->n_metrics; i++) {
        struct accept_metric *m = &r->metric[i];
        const struct accept_limit *l = accept_limit_for(check, m->name);
        double median = fleet ? fleet(context, check->name, m->name) : NAN;
        judge_metric(l, median, r->repeats, m);
    }
    sum_up(check, r);
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
                                .ended = check->asked ? ACCEPT_MISSING : ACCEPT_SKIP};
    strcpy(c->ended_why, check->asked ? "not run" : "not asked for");
    snprintf(c->name, sizeof c->name, "%s", check->name);
    return STATUS_OK;
}

static struct accept_result *find_result(const struct accept_report *r, const char *name)
{
    for (int i = 0; i < r->n_checks; i++)
        if (strcmp(r->check[i].name, name) == 0)
            return &r->check[i];
    return NULL;
}

enum status accept_judge_report(const struct accept_spec *spec, accept_fleet *fleet, void *context,
                                struct accept_report *r)
{
    for (int i = 0; i < spec->n_checks; i++) {
        const struct accept_check *check = &spec->check[i];
        if (check->level > r->level)
            continue;
        if (!find_result(r, check->name))
            TRY(add_not_run(check, r));
        TRY(accept_judge(check, fleet, context, find_result(r, check->name)));
    }
    memset(r->count, 0, sizeof r->count);
    for (int i = 0; i < r->n_checks; i++)
        r->count[r->check[i].verdict]++;
    return STATUS_OK;
}

void accept_count_metrics(const struct accept_report *r, int count[ACCEPT_VERDICTS])
{
    memset(count, 0, ACCEPT_VERDICTS * sizeof *count);
    for (int i = 0; i < r->n_checks; i++)
        for (int k = 0; k < r->check[i].n_metrics; k++)
            if (*r->check[i].metric[k].limit)
                count[r->check[i].metric[k].verdict]++;
}

int accept_exit_code(const struct accept_report *r, bool strict)
{
    if (r->count[ACCEPT_FAIL] || (strict && r->count[ACCEPT_WARN]))
        return status_exit_code(STATUS_MISMATCH);
    if (r->count[ACCEPT_MISSING] || r->count[ACCEPT_PASS] + r->count[ACCEPT_WARN] == 0)
        return status_exit_code(STATUS_DATA);
    return 0;
}

enum { COUNTS_SIZE = 96 };

static void say_counts(const int count[ACCEPT_VERDICTS], char out[COUNTS_SIZE])
{
    snprintf(out, COUNTS_SIZE, "%d passed, %d warned, %d failed, %d skipped, %d missing",
             count[ACCEPT_PASS], count[ACCEPT_WARN], count[ACCEPT_FAIL], count[ACCEPT_SKIP],
             count[ACCEPT_MISSING]);
}

void accept_conclusion(const struct accept_report *r, bool strict, char *out, size_t size)
{
    int code = accept_exit_code(r, strict), metrics[ACCEPT_VERDICTS];
    char checks[COUNTS_SIZE], limits[COUNTS_SIZE];
    accept_count_metrics(r, metrics);
    say_counts(r->count, checks);
    say_counts(metrics, limits);
    snprintf(out, size, "%s: checks: %s; metrics with a limit: %s",
             code == 0                                   ? "accepted"
             : code == status_exit_code(STATUS_MISMATCH) ? "NOT ACCEPTED"
                                                         : "not measured in full",
             checks, limits);
}

/* Whether a speed has been held against a limit: "GB/s", "images/s". */
static bool is_judged_rate(const struct accept_metric *m)
{
    size_t n = strlen(m->unit);
    bool rate = n >= 2 && strcmp(m->unit + n - 2, "/s") == 0;
    return rate && m->verdict != ACCEPT_SKIP && m->verdict != ACCEPT_MISSING;
}

void accept_note(const struct accept_report *r, char *out, size_t size)
{
    int left = 0, rates = 0;
    for (int i = 0; i < r->n_checks; i++)
        for (int k = 0; k < r->check[i].n_metrics; k++) {
            left += r->check[i].metric[k].fleet_only;
            rates += is_judged_rate(&r->check[i].metric[k]);
        }
    *out = '\0';
    if (left > 0)
        snprintf(out, size, "%d %s held against other nodes alone, and %s not judged here%s", left,
                 left == 1 ? "metric is" : "metrics are", left == 1 ? "was" : "were",
                 rates > 0 ? "" : "; no speed was judged, only numbers and bits");
}
