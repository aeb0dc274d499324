/* Reads the bounds of a metric from a spec, and matches names with patterns. */
#include "accept/accept_spec.h"
#include "base/json_keys.h"
#include "base/text.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

/* Whether `text` matches pattern[0..n). After a mismatch, the latest '*' takes one more character.
 * Earlier '*' never need to change. */
static bool matches_one(const char *pattern, size_t n, const char *text)
{
    size_t p = 0, star = n;
    const char *after = NULL; /* text that follows the characters that the last '*' took */
    while (*text) {
        if (p < n && pattern[p] == '*') {
            star = p++;
            after = text;
        } else if (p < n && (pattern[p] == '?' || pattern[p] == *text)) {
            p++;
            text++;
        } else if (after) {
            p = star + 1;
            text = ++after;
        } else {
            return false;
        }
    }
    while (p < n && pattern[p] == '*')
        p++;
    return p == n;
}

bool accept_matches(const char *patterns, const char *text)
{
    for (const char *p = patterns;; p++) {
        size_t n = strcspn(p, "|");
        if (matches_one(p, n, text))
            return true;
        p += n;
        if (!*p)
            return false;
    }
}

/* Reads an optional number into *out. If the number is not given, *out is NAN. */
static enum status read_real(const json_t *object, const char *where, const char *key, double min,
                             double max, double *out)
{
    const json_t *value = json_object_get(object, key);
    *out = value ? json_number_value(value) : NAN;
    if (value && (!json_is_number(value) || !(*out >= min && *out <= max)))
        return status_fail(STATUS_USAGE, "'%s.%s' must be a number from %g to %g", where, key, min,
                           max);
    return STATUS_OK;
}

/* Reads an optional percentage, and stores it as a fraction. */
static enum status read_share(const json_t *object, const char *where, const char *key, double *out)
{
    TRY(read_real(object, where, key, 0, 1000, out));
    *out /= 100;
    return STATUS_OK;
}

static enum status read_text(const json_t *object, const char *where, const char *key, char *out,
                             size_t size)
{
    char raw[ACCEPT_MATCHES_SIZE] = "";
    TRY(keys_text(object, where, key, false, raw, size < sizeof raw ? size : sizeof raw));
    text_clean(out, size, raw);
    return STATUS_OK;
}

static enum status read_absent(const json_t *object, const char *where, bool *may_lack)
{
    char word[16] = "missing";
    TRY(keys_text(object, where, "absent", false, word, sizeof word));
    *may_lack = strcmp(word, "skip") == 0;
    if (*may_lack || strcmp(word, "missing") == 0)
        return STATUS_OK;
    return status_fail(STATUS_USAGE, "'%s.absent' must be 'skip' or 'missing'", where);
}

/* Whether a <= b, or one of them is not given (NAN). */
static bool ascend(double a, double b)
{
    return isnan(a) || isnan(b) || a <= b;
}

/* Refuses bounds that contradict each other, a baseline without a percentage, and a percentage
 * without a baseline. */
static enum status check_order(const struct accept_limit *l, const char *where)
{
    bool bounds = ascend(l->min, l->warn_min) && ascend(l->min, l->max) &&
                  ascend(l->min, l->warn_max) && ascend(l->warn_min, l->warn_max) &&
                  ascend(l->warn_min, l->max) && ascend(l->warn_max, l->max);
    if (!bounds)
        return status_fail(STATUS_USAGE,
                           "'%s': 'min', 'warn_min', 'warn_max' and 'max' must ascend", where);
    if (!ascend(l->warn_within, l->within) || !ascend(l->fleet_warn_within, l->fleet_within))
        return status_fail(STATUS_USAGE,
                           "'%s': the limit for WARN must be stricter than the limit for FAIL",
                           where);
    bool relative = !isnan(l->within) || !isnan(l->warn_within);
    if (relative == isnan(l->baseline))
        return status_fail(
            STATUS_USAGE,
            "'%s': 'baseline' needs 'within' or 'warn_within', and each of these needs 'baseline'",
            where);
    return STATUS_OK;
}

/* Refuses a limit that has no bound, and a limit that has bounds both for a number and for a
 * text. */
static enum status check_bound(const struct accept_limit *l, const char *where)
{
    const double numbers[] = {l->min,         l->max,          l->warn_min,          l->warn_max,
                              l->warn_within, l->fleet_within, l->fleet_warn_within, l->within};
    bool number = false;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        number = number || !isnan(numbers[i]);
    if (number && (*l->matches || *l->at_least))
        return status_fail(STATUS_USAGE,
                           "'%s' has limits for a number and for a text; give one of them", where);
    if (!number && !*l->matches && !*l->at_least && !l->same)
        return status_fail(STATUS_USAGE,
                           "'%s' has no limit; give 'min', 'max', 'baseline' with 'within', "
                           "'fleet_within', 'matches', 'at_least' or 'same'",
                           where);
    return STATUS_OK;
}

static enum status check_metric(const char *metric, const char *where)
{
    size_t n = strlen(metric);
    bool good = n > 0 && n < ACCEPT_NAME_SIZE;
    for (const char *c = metric; *c && good; c++)
        good = isalnum((unsigned char)*c) || strchr("-_.*?", *c);
    if (good)
        return STATUS_OK;
    return status_fail(STATUS_USAGE,
                       "'%s': a metric's name has 1 to %d letters, digits, '-', '_' and '.'; a "
                       "pattern may also have '*' and '?'",
                       where, ACCEPT_NAME_SIZE - 1);
}

enum status accept_limit_parse(const json_t *object, const char *metric, const char *where,
                               struct accept_limit *l)
{
    static const char *const known[] = {
        "min",      "max",         "warn_min",     "warn_max", "baseline",
        "within",   "warn_within", "fleet_within", "matches",  "fleet_warn_within",
        "at_least", "same",        "absent",       "source",   NULL};
    const double far = 1e300;
    *l = (struct accept_limit){0};
    TRY(check_metric(metric, where));
    snprintf(l->metric, sizeof l->metric, "%s", metric);
    TRY(keys_check(object, where, known));
    TRY(read_real(object, where, "min", -far, far, &l->min));
    TRY(read_real(object, where, "max", -far, far, &l->max));
    TRY(read_real(object, where, "warn_min", -far, far, &l->warn_min));
    TRY(read_real(object, where, "warn_max", -far, far, &l->warn_max));
    TRY(read_real(object, where, "baseline", 1e-300, far, &l->baseline));
    TRY(read_share(object, where, "within", &l->within));
    TRY(read_share(object, where, "warn_within", &l->warn_within));
    TRY(read_share(object, where, "fleet_within", &l->fleet_within));
    TRY(read_share(object, where, "fleet_warn_within", &l->fleet_warn_within));
    TRY(read_text(object, where, "matches", l->matches, sizeof l->matches));
    TRY(read_text(object, where, "at_least", l->at_least, sizeof l->at_least));
    TRY(keys_flag(object, where, "same", &l->same));
    TRY(read_absent(object, where, &l->may_lack));
    TRY(read_text(object, where, "source", l->source, sizeof l->source));
    TRY(check_order(l, where));
    return check_bound(l, where);
}
