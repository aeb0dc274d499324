/* Writes results as JSON, and reads them back from files that may be damaged. */
#include "accept/accept_judge.h"
#include "accept/accept_noise.h"

#include "base/array.h"
#include "base/file.h"
#include "base/json.h"
#include "base/stats.h"
#include "base/text.h"

#include <string.h>

enum { REPORT_MAX_BYTES = 64 << 20 };

/* --- writing --- */

static json_t *values_json(const struct accept_metric *m)
{
    json_t *list = json_array();
    for (int i = 0; i < m->n; i++)
        json_array_append_new(list, m->text ? json_string(m->text[i]) : json_real(m->number[i]));
    return json_whole(list, m->n);
}

static json_t *metric_json(const struct accept_metric *m)
{
    struct stats s;
    json_t *o = json_pack("{s:s, s:s, s:s, s:o, s:s, s:s, s:s, s:s, s:s}", "name", m->name, "unit",
                          m->unit, "better", accept_better_str(m->better), "values", values_json(m),
                          "where", m->where, "verdict", verdict_str(m->verdict), "limit", m->limit,
                          "reason", m->reason, "source", m->source);
    if (o && m->number && stats_of(m->number, m->n, &s) == STATUS_OK) {
        json_object_set_new(o, "median", json_real(s.median));
        json_object_set_new(o, "min", json_real(s.min));
        json_object_set_new(o, "max", json_real(s.max));
    }
    return o;
}

json_t *accept_result_json(const struct accept_result *r)
{
    json_t *metrics = json_array();
    for (int i = 0; i < r->n_metrics; i++)
        json_array_append_new(metrics, metric_json(&r->metric[i]));
    json_t *noise = r->noise.seconds > 0 ? host_noise_json(&r->noise) : NULL;
    return json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:f, s:s, s:s, s:s, s:s, s:o*, s:s, s:o}",
                     "name", r->name, "kind", r->kind, "level", r->level, "device", r->device,
                     "repeats", r->repeats, "wanted", r->wanted, "seconds", r->seconds, "command",
                     r->command, "ended", verdict_str(r->ended), "ended_why", r->ended_why,
                     "reason", r->reason, "noise", noise, "verdict", verdict_str(r->verdict),
                     "metrics", json_whole(metrics, r->n_metrics));
}

json_t *accept_report_json(const struct accept_report *r)
{
    char note[256];
    int metrics[VERDICTS];
    json_t *checks = json_array();
    for (int i = 0; i < r->n_checks; i++)
        json_array_append_new(checks, accept_result_json(&r->check[i]));
    accept_note(r, note, sizeof note);
    accept_count_metrics(r, metrics);
    return json_pack("{s:s, s:i, s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:b, s:o, s:o, s:o, s:s}",
                     "record", "accept", "schema", ACCEPT_SCHEMA, "spec", r->spec, "node", r->node,
                     "device", r->device, "begun", r->begun, "ended", r->ended, "version",
                     r->version, "level", r->level, "passed",
                     verdict_exit_code(r->count, false) == 0, "counts",
                     verdict_counts_json(r->count), "metric_counts", verdict_counts_json(metrics),
                     "checks", json_whole(checks, r->n_checks), "note", note);
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
    const char *word = json_string_value(json_object_get(object, key));
    for (int v = 0; word && v < VERDICTS; v++) {
        if (strcmp(word, verdict_str((enum verdict)v)) != 0)
            continue;
        *out = (enum verdict)v;
        return STATUS_OK;
    }
    return damaged(key);
}

static enum status read_better(const json_t *object, enum accept_better *out)
{
    const char *word = json_string_value(json_object_get(object, "better"));
    for (int b = ACCEPT_EVEN; word && b <= ACCEPT_LOWER; b++) {
        if (strcmp(word, accept_better_str((enum accept_better)b)) != 0)
            continue;
        *out = (enum accept_better)b;
        return STATUS_OK;
    }
    return damaged("better");
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
    TRY(read_better(object, &better));
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
    if (!m) /* a metric without values: judging adds it again as MISSING */
        return STATUS_OK;
    if (json_object_get(object, "where")) /* earlier versions did not write it */
        TRY(read_text(object, "where", m->where, sizeof m->where));
    TRY(read_verdict(object, "verdict", &m->verdict));
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
    *r = (struct accept_report){0};
    TRY(path_format(path, sizeof path, "%s/" ACCEPT_FILE, dir));
    if (!path_exists(path))
        return status_fail(STATUS_DATA, "'%s' holds no results of an acceptance: no " ACCEPT_FILE,
                           dir);
    TRY(json_read(path, REPORT_MAX_BYTES, &object));
    enum status st = accept_report_parse(object, r);
    json_decref(object);
    return st == STATUS_OK ? st : status_context(st, "'%s'", path);
}
