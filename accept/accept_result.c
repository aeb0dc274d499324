/* Collects the measurements of checks, writes them as JSON, and reads them back from files that may
 * be damaged. Withholds the speeds of disturbed checks. */
#include "accept/accept_result.h"

#include "base/array.h"
#include "base/file.h"
#include "base/json.h"
#include "base/stats.h"
#include "base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
    return !m->number || stats_of(m->number, m->n, &s) != STATUS_OK ? NAN : s.median;
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

/* --- other work --- */

#define DISTURBED "disturbed: %s; repeat on an idle node"

/* Clock ticks that the running children of a process, their children and so on have used. */
static double descendants(const char *proc, int pid)
{
    char path[ACCEPT_PATH_SIZE], list[ACCEPT_PATH_SIZE], line[1024], *at = list, *end;
    double ticks = 0, t[4];
    int n = snprintf(path, sizeof path, "%s/%d/task/%d/children", proc, pid, pid);
    if (n >= (int)sizeof path || !file_first_line(path, list, sizeof list))
        return 0;
    for (long child; (child = strtol(at, &end, 10)) > 0; at = end) {
        snprintf(path, sizeof path, "%s/%ld/stat", proc, child);
        /* Fields 14 to 17 are the times of the process and of its children that have ended; the
         * second is a name in parentheses, which may contain blanks (proc(5)). */
        const char *name = file_first_line(path, line, sizeof line) ? strrchr(line, ')') : NULL;
        if (name && sscanf(name, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lf %lf %lf %lf",
                           &t[0], &t[1], &t[2], &t[3]) == 4)
            ticks += t[0] + t[1] + t[2] + t[3];
        ticks += descendants(proc, (int)child);
    }
    return ticks;
}

struct load accept_noise_load(const struct load_meter *m)
{
    struct load l = load_read(m);
    l.own_s += descendants(m->proc, getpid()) / (double)sysconf(_SC_CLK_TCK);
    return l;
}

void accept_noise_keep(struct accept_result *r, const struct host_noise *noise)
{
    char text[NOISE_TEXT_MAX];
    if (noise->seconds > 0 && !host_noise_judge(&r->noise, text))
        r->noise = *noise;
}

bool accept_is_speed(const struct accept_metric *m)
{
    const char *unit = m->unit, *per = strrchr(unit, '/');
    return (per && strcmp(per, "/s") == 0) || strcmp(unit, "s") == 0 || strcmp(unit, "ms") == 0 ||
           strcmp(unit, "us") == 0 || strcmp(unit, "x") == 0 || strcmp(m->name, "of_peak") == 0;
}

bool accept_withhold(struct accept_result *r)
{
    char text[NOISE_TEXT_MAX];
    enum verdict worst = r->ended;
    bool any = false;
    if (!host_noise_judge(&r->noise, text))
        return false;
    for (int i = 0; i < r->n_metrics; i++) {
        struct accept_metric *m = &r->metric[i];
        if (*m->limit && m->n > 0 && accept_is_speed(m)) {
            m->verdict = VERDICT_MISSING;
            m->withheld = any = true;
            m->fleet_only = false;
            snprintf(m->reason, sizeof m->reason, DISTURBED, text);
        }
        if (*m->limit && m->verdict > worst)
            worst = m->verdict;
    }
    if (!any)
        return false;
    if (worst == VERDICT_MISSING && r->ended != VERDICT_MISSING)
        snprintf(r->reason, sizeof r->reason, DISTURBED, text);
    r->verdict = worst;
    return true;
}

enum { REPORT_MAX_BYTES = 64 << 20 };

/* --- writing --- */

static json_t *value_json(const void *metric, int64_t i)
{
    const struct accept_metric *m = metric;
    return m->text ? json_utf8(m->text[i]) : json_finite(m->number[i]);
}

static json_t *metric_json(const void *result, int64_t i)
{
    const struct accept_metric *m = &((const struct accept_result *)result)->metric[i];
    struct stats s;
    json_t *o =
        json_new("{s:s, s:s, s:s, s:o, s:s, s:s, s:s, s:s, s:s}", "name", m->name, "unit", m->unit,
                 "better", accept_better_str(m->better), "values", json_list(m->n, value_json, m),
                 "where", m->where, "verdict", verdict_str(m->verdict), "limit", m->limit, "reason",
                 m->reason, "source", m->source);
    if (o && m->number && stats_of(m->number, m->n, &s) == STATUS_OK) {
        json_put(o, "median", json_finite(s.median));
        json_put(o, "min", json_finite(s.min));
        json_put(o, "max", json_finite(s.max));
    }
    return o;
}

json_t *accept_result_json(const struct accept_result *r)
{
    json_t *noise = r->noise.seconds > 0 ? host_noise_json(&r->noise) : NULL;
    return json_new("{s:s, s:s, s:i, s:i, s:i, s:i, s:f, s:s, s:s, s:s, s:s, s:o*, s:s, s:o}",
                    "name", r->name, "kind", r->kind, "level", r->level, "device", r->device,
                    "repeats", r->repeats, "wanted", r->wanted, "seconds", r->seconds, "command",
                    r->command, "ended", verdict_str(r->ended), "ended_why", r->ended_why, "reason",
                    r->reason, "noise", noise, "verdict", verdict_str(r->verdict), "metrics",
                    json_list(r->n_metrics, metric_json, r));
}

/* --- reading --- */

static enum status damaged(const char *key)
{
    return status_fail(STATUS_DATA, "'%s' is missing or damaged", key);
}

static enum status read_text(const json_t *object, const char *key, char *out, size_t size)
{
    const char *text = json_string_value(json_object_get(object, key));
    if (!text)
        return damaged(key);
    text_clean(out, size, text);
    return STATUS_OK;
}

static enum status read_int(const json_t *object, const char *key, int min, int max, int *out)
{
    const json_t *value = json_object_get(object, key);
    int64_t v = json_integer_value(value);
    if (!json_is_integer(value) || v < min || v > max)
        return damaged(key);
    *out = (int)v;
    return STATUS_OK;
}

static enum status read_verdict(const json_t *object, const char *key, enum verdict *out)
{
    for (*out = VERDICT_PASS; (int)*out < VERDICTS; ++*out)
        if (strcmp(json_text_at(object, key), verdict_str(*out)) == 0)
            return STATUS_OK;
    return damaged(key);
}

/* Reads a metric's values, which must be all numbers or all texts. */
static enum status read_values(const json_t *object, const char *name, struct accept_result *r)
{
    char unit[ACCEPT_UNIT_SIZE];
    enum accept_better better = ACCEPT_EVEN;
    const json_t *list = json_object_get(object, "values");
    size_t n = json_array_size(list);
    bool text = json_is_string(json_array_get(list, 0));
    TRY(read_text(object, "unit", unit, sizeof unit));
    while (strcmp(json_text_at(object, "better"), accept_better_str(better)) != 0)
        if (better++ == ACCEPT_LOWER)
            return damaged("better");
    if (!json_is_array(list) || n > ACCEPT_REPEATS_MAX)
        return damaged("values");
    for (size_t i = 0; i < n; i++) {
        const json_t *value = json_array_get(list, i);
        if (text ? !json_is_string(value) : !json_is_number(value))
            return damaged("values");
        if (text)
            TRY(accept_result_text(r, name, json_string_value(value)));
        else
            TRY(accept_result_number(r, name, unit, better, json_number_value(value)));
    }
    return STATUS_OK;
}

static enum status read_metric(const json_t *object, struct accept_result *r)
{
    char name[ACCEPT_NAME_SIZE];
    TRY(read_text(object, "name", name, sizeof name));
    if (!*name || accept_metric_find(r, name))
        return damaged("name");
    TRY(read_values(object, name, r));
    struct accept_metric *m = accept_metric_find(r, name);
    enum verdict verdict;
    TRY(read_verdict(object, "verdict", &verdict));
    if (!m) /* a metric without values: judging adds it again as MISSING */
        return verdict == VERDICT_PASS ? damaged("values") : STATUS_OK;
    if (json_object_get(object, "where")) /* earlier versions did not write it */
        TRY(read_text(object, "where", m->where, sizeof m->where));
    m->verdict = verdict;
    TRY(read_text(object, "limit", m->limit, sizeof m->limit));
    TRY(read_text(object, "reason", m->reason, sizeof m->reason));
    return read_text(object, "source", m->source, sizeof m->source);
}

static enum status read_result(const json_t *object, struct accept_result *r)
{
    const json_t *metrics = json_object_get(object, "metrics");
    TRY(read_text(object, "name", r->name, sizeof r->name));
    TRY(read_text(object, "kind", r->kind, sizeof r->kind));
    TRY(read_int(object, "level", 1, ACCEPT_LEVEL_MAX, &r->level));
    TRY(read_int(object, "device", -1, ACCEPT_DEVICES_MAX, &r->device));
    TRY(read_int(object, "repeats", 0, ACCEPT_REPEATS_MAX, &r->repeats));
    TRY(read_int(object, "wanted", 0, ACCEPT_REPEATS_MAX, &r->wanted));
    r->seconds = json_number_value(json_object_get(object, "seconds"));
    if (!(r->seconds >= 0)) /* a negative time would prolong a burn-in */
        return damaged("seconds");
    TRY(read_text(object, "command", r->command, sizeof r->command));
    TRY(read_verdict(object, "ended", &r->ended));
    TRY(read_text(object, "ended_why", r->ended_why, sizeof r->ended_why));
    TRY(read_text(object, "reason", r->reason, sizeof r->reason));
    TRY(read_verdict(object, "verdict", &r->verdict));
    if (!*r->name || !json_is_array(metrics) || json_array_size(metrics) > ACCEPT_METRICS_MAX)
        return damaged("metrics");
    for (size_t i = 0; i < json_array_size(metrics); i++)
        TRY(read_metric(json_array_get(metrics, i), r));
    r->noise = host_noise_read(object);
    accept_withhold(r);
    return STATUS_OK;
}

enum status accept_result_parse(const json_t *object, struct accept_result *r)
{
    *r = (struct accept_result){0};
    enum status st = read_result(object, r);
    if (st != STATUS_OK)
        accept_result_free(r);
    return st;
}

static enum status read_checks(const json_t *list, struct accept_report *r)
{
    size_t n = json_array_size(list);
    if (!json_is_array(list) || n > ACCEPT_CHECKS_MAX)
        return damaged("checks");
    TRY(array_new(&r->check, n));
    for (size_t i = 0; i < n; i++) {
        TRY(accept_result_parse(json_array_get(list, i), &r->check[i]));
        r->n_checks++;
        r->count[r->check[i].verdict]++;
        for (size_t k = 0; k < i; k++)
            if (strcmp(r->check[k].name, r->check[i].name) == 0)
                return damaged("checks");
    }
    return STATUS_OK;
}

enum status accept_report_parse(const json_t *object, struct accept_report *r)
{
    int schema;
    char record[16];
    enum status st;
    *r = (struct accept_report){0};
    CHECK(read_text(object, "record", record, sizeof record));
    CHECK(strcmp(record, "accept") == 0 ? STATUS_OK : damaged("record"));
    CHECK(read_int(object, "schema", ACCEPT_SCHEMA, ACCEPT_SCHEMA, &schema));
    CHECK(read_text(object, "spec", r->spec, sizeof r->spec));
    CHECK(read_text(object, "node", r->node, sizeof r->node));
    CHECK(read_text(object, "device", r->device, sizeof r->device));
    CHECK(read_text(object, "begun", r->begun, sizeof r->begun));
    CHECK(read_text(object, "ended", r->ended, sizeof r->ended));
    CHECK(read_text(object, "version", r->version, sizeof r->version));
    CHECK(read_int(object, "level", 1, ACCEPT_LEVEL_MAX, &r->level));
    CHECK(read_checks(json_object_get(object, "checks"), r));
done:
    if (st != STATUS_OK)
        accept_report_free(r);
    return st;
}

enum status accept_report_load(const char *dir, struct accept_report *r)
{
    char path[ACCEPT_PATH_SIZE];
    json_t *object;
    bool exists;
    *r = (struct accept_report){0};
    TRY(path_format(path, sizeof path, "%s/" ACCEPT_FILE, dir));
    TRY(path_look(path, &exists));
    if (!exists)
        return status_fail(STATUS_DATA, "'%s' holds no results of an acceptance: no " ACCEPT_FILE,
                           dir);
    TRY(json_read(path, REPORT_MAX_BYTES, &object));
    enum status st = accept_report_parse(object, r);
    json_decref(object);
    return st == STATUS_OK ? st : status_context(st, "'%s'", path);
}
