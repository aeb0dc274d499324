/* Reads and extends a history of results. */
#include "compare/history.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/json.h"
#include "base/lines.h"
#include "base/text.h"
#include "results/journal.h"
#include "results/schema.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SCHEMA = 1, WAIT_SECONDS = 600 };

#define STEPS_MAX 9007199254740992 /* 2^53 */

static enum status path_of(const char *dir, char path[REPEATS_PATH_SIZE])
{
    return path_format(path, REPEATS_PATH_SIZE, "%s/history.jsonl", dir);
}

void history_free(struct history *h)
{
    for (int64_t i = 0; i < h->n; i++)
        json_decref(h->entry[i].repeat.fingerprint);
    free(h->entry);
    *h = (struct history){0};
}

/* ---- reading ---- */

/* Reads a number, or null as NAN. Returns false for anything else. */
static bool number_read(const json_t *object, const char *key, double *out)
{
    const json_t *value = json_object_get(object, key);
    *out = json_is_number(value) ? json_number_value(value) : NAN;
    return json_is_null(value) || fabs(*out) <= RECORD_REAL_MAX;
}

static bool count_read(const json_t *object, const char *key, int64_t *out)
{
    const json_t *value = json_object_get(object, key);
    *out = json_integer_value(value);
    return json_is_integer(value) && *out >= 0 && *out <= STEPS_MAX;
}

/* Whether a fingerprint is flat: no value is an object. */
static bool is_flat(const json_t *object)
{
    const char *key;
    json_t *value;
    bool flat = json_is_object(object);
    json_object_foreach((json_t *)object, key, value)
    {
        flat = flat && json_object_size(value) == 0;
    }
    return flat;
}

/* Reads an entry. Returns false if `o` is not an entry. The fingerprint is borrowed from `o`. */
static bool entry_read(const json_t *o, struct history_entry *e)
{
    const json_t *end = json_object_get(o, "end"), *accepted = json_object_get(o, "accepted");
    const json_t *values = json_object_get(o, "metrics");
    const char *by = json_string_value(json_object_get(end, "by"));
    const char *commit = json_string_value(json_object_get(o, "commit"));
    struct repeat *r = &e->repeat;
    bool ok = strcmp(json_text_at(o, "record"), "history") == 0 &&
              json_integer_value(json_object_get(o, "schema")) == SCHEMA &&
              number_read(o, "added_s", &e->added_s) && isfinite(e->added_s) &&
              number_read(o, "started_s", &r->started_s) && json_is_boolean(accepted) && by &&
              commit && count_read(end, "steps", &r->end.steps) &&
              count_read(end, "epochs", &r->end.epochs) && json_is_object(values);
    for (int i = 0; i < METRICS && ok; i++)
        ok = number_read(values, metrics[i].name, &r->value[i]) ||
             !json_object_get(values, metrics[i].name); /* the metric is newer than the entry */
    r->fingerprint = json_object_get(o, "fingerprint");
    if (!ok || !is_flat(r->fingerprint))
        return false;
    e->accepted = json_is_true(accepted);
    r->disturbed = json_is_true(json_object_get(o, "disturbed")); /* absent in earlier versions */
    text_clean(r->end.by, sizeof r->end.by, by);
    text_clean(r->commit, sizeof r->commit, commit);
    return true;
}

static enum status take_line(void *history, char *line, size_t size)
{
    struct history *h = history;
    struct history_entry e = {0};
    if (h->n == HISTORY_MAX)
        return status_fail(STATUS_DATA, "the history has more than %d lines, which is the limit",
                           HISTORY_MAX);
    TRY(array_reserve(&h->entry, h->n));
    json_t *o = json_loadb(line, size, JSON_REJECT_DUPLICATES, NULL);
    if (!o || !entry_read(o, &e)) {
        json_decref(o);
        return status_fail(STATUS_DATA,
                           "not an entry of a history; correct the file or begin another history");
    }
    json_incref(e.repeat.fingerprint);
    json_decref(o);
    e.line = h->n;
    h->unordered = h->unordered || (h->n > 0 && e.added_s < h->entry[h->n - 1].added_s);
    h->entry[h->n++] = e;
    return STATUS_OK;
}

static int by_recording(const void *a, const void *b)
{
    const struct history_entry *x = a, *y = b;
    return x->added_s != y->added_s ? (x->added_s > y->added_s) - (x->added_s < y->added_s)
                                    : (x->line > y->line) - (x->line < y->line);
}

/* Sorts the entries, and leaves out lines that repeat a run of the same recording. */
static void arrange(struct history *h)
{
    int64_t n = 0, k;
    qsort(h->entry, (size_t)h->n, sizeof *h->entry, by_recording);
    for (int64_t i = 0; i < h->n; i++) {
        const struct history_entry *e = &h->entry[i];
        for (k = n - 1; k >= 0 && h->entry[k].added_s == e->added_s; k--)
            if (repeat_same(&h->entry[k].repeat, &e->repeat))
                break;
        if (k < 0 || h->entry[k].added_s != e->added_s)
            h->entry[n++] = *e;
        else
            json_decref(e->repeat.fingerprint);
    }
    h->repeated = h->n - n;
    h->n = n;
}

enum status history_load(const char *dir, bool begins, struct history *h)
{
    char path[REPEATS_PATH_SIZE];
    bool exists;
    *h = (struct history){0};
    TRY(path_of(dir, path));
    TRY(path_look(path, &exists));
    if (!exists && begins)
        return STATUS_OK;
    if (!exists)
        return status_fail(STATUS_DATA,
                           "no history in '%s': 'ampscale compare --record %s RUNS' begins one",
                           dir, dir);
    enum status st = lines_each(path, false, take_line, h);
    if (st != STATUS_OK)
        history_free(h);
    else if (h->n > 0)
        arrange(h);
    return st;
}

/* ---- adding ---- */

static json_t *entry_json(const struct repeat *r, double added_s, bool accepted)
{
    json_t *values = json_object();
    for (int i = 0; i < METRICS; i++)
        json_put(values, metrics[i].name, json_measured(r->value[i]));
    return json_new("{s:s, s:i, s:f, s:f, s:s, s:b, s:b, s:{s:s, s:I, s:I}, s:O, s:o}", "record",
                    "history", "schema", SCHEMA, "added_s", added_s, "started_s", r->started_s,
                    "commit", r->commit, "accepted", accepted, "disturbed", r->disturbed, "end",
                    "by", r->end.by, "steps", (json_int_t)r->end.steps, "epochs",
                    (json_int_t)r->end.epochs, "fingerprint", r->fingerprint, "metrics", values);
}

/* Whether the history has this run already. */
static bool is_known(const struct history *h, const struct repeat *r)
{
    for (int64_t i = 0; i < h->n; i++)
        if (repeat_same(&h->entry[i].repeat, r))
            return true;
    return false;
}

enum status history_append(const char *dir, const struct repeats *runs, bool accepted)
{
    char path[REPEATS_PATH_SIZE];
    struct history before = {0};
    struct journal j = {0};
    json_t *entries = json_array();
    double now_s = clock_wall_s();
    int fd = -1;
    enum status st, closed;
    CHECK(path_of(dir, path));
    CHECK(dir_make(dir));
    CHECK(dir_lock(dir, "ampscale compare", WAIT_SECONDS, &fd));
    CHECK(history_load(dir, true, &before));
    for (int64_t i = 0; i < runs->n; i++) {
        struct history_entry e;
        if (is_known(&before, &runs->repeat[i]))
            continue;
        json_add(entries, entry_json(&runs->repeat[i], now_s, accepted));
        if (!entry_read(json_array_get(entries, json_array_size(entries) - 1), &e))
            CHECK(status_fail(STATUS_DATA, "'%s' has values that no history can hold",
                              runs->repeat[i].dir));
    }
    if (before.n + before.repeated + (int64_t)json_array_size(entries) > HISTORY_MAX)
        CHECK(status_fail(STATUS_DATA, "'%s' is full: begin another history", path));
    CHECK(journal_open(&j, path));
    for (size_t i = 0; i < json_array_size(entries); i++)
        CHECK(journal_write_json(&j, json_incref(json_array_get(entries, i)), JSON_COMPACT));
done:
    closed = journal_close(&j);
    history_free(&before);
    json_decref(entries);
    fd_close(&fd);
    return st == STATUS_OK ? closed : st;
}
