/* Reading and extending a store of results. */
#include "compare/history.h"

#include "base/file.h"
#include "compare/fingerprint.h"
#include "results/journal.h"
#include "results/lines.h"
#include "results/text.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

enum { SCHEMA = 1, REAL_DIGITS = 17 };

#define STEPS_MAX 9007199254740992 /* 2^53 */

static enum status path_of(const char *dir, char path[REPEATS_PATH_SIZE])
{
    return path_format(path, REPEATS_PATH_SIZE, "%s/history.jsonl", dir);
}

bool history_exists(const char *dir)
{
    char path[REPEATS_PATH_SIZE];
    return path_of(dir, path) == STATUS_OK && path_exists(path);
}

void history_free(struct history *h)
{
    for (int64_t i = 0; i < h->n; i++)
        json_decref(h->entry[i].repeat.fingerprint);
    free(h->entry);
    *h = (struct history){0};
}

/* ---- reading ---- */

/* A number, or NAN for null; false for all else. */
static bool number_read(const json_t *object, const char *key, double *out)
{
    const json_t *value = json_object_get(object, key);
    *out = json_is_number(value) ? json_number_value(value) : NAN;
    return json_is_null(value) || isfinite(*out);
}

static bool count_read(const json_t *object, const char *key, int64_t *out)
{
    const json_t *value = json_object_get(object, key);
    *out = json_integer_value(value);
    return json_is_integer(value) && *out >= 0 && *out <= STEPS_MAX;
}

/* A fingerprint is flat: no value of it holds others. */
static bool is_flat(const json_t *object)
{
    const char *key;
    json_t *value;
    bool flat = json_is_object(object);
    json_object_foreach((json_t *)object, key, value)
    {
        flat = flat && json_object_size(value) == 0 && json_array_size(value) == 0;
    }
    return flat;
}

/* False for what is no entry. The fingerprint is borrowed from `o`. */
static bool entry_read(const json_t *o, struct history_entry *e)
{
    const char *record = json_string_value(json_object_get(o, "record"));
    const json_t *end = json_object_get(o, "end"), *accepted = json_object_get(o, "accepted");
    const json_t *values = json_object_get(o, "metrics");
    const char *by = json_string_value(json_object_get(end, "by"));
    const char *commit = json_string_value(json_object_get(o, "commit"));
    struct repeat *r = &e->repeat;
    bool ok = record && strcmp(record, "history") == 0 &&
              json_integer_value(json_object_get(o, "schema")) == SCHEMA &&
              number_read(o, "added_s", &e->added_s) && isfinite(e->added_s) &&
              number_read(o, "started_s", &r->started_s) && json_is_boolean(accepted) && by &&
              commit && count_read(end, "steps", &r->end.steps) &&
              count_read(end, "epochs", &r->end.epochs) && json_is_object(values);
    for (int i = 0; i < METRICS && ok; i++)
        ok = number_read(values, metrics[i].name, &r->value[i]) ||
             !json_object_get(values, metrics[i].name); /* a metric younger than the entry */
    r->fingerprint = json_object_get(o, "fingerprint");
    if (!ok || !is_flat(r->fingerprint))
        return false;
    e->accepted = json_is_true(accepted);
    text_clean(r->end.by, sizeof r->end.by, by);
    text_clean(r->commit, sizeof r->commit, commit);
    return true;
}

static enum status grow(struct history *h)
{
    if (h->n < h->capacity)
        return STATUS_OK;
    if (h->n == HISTORY_MAX)
        return status_fail(STATUS_DATA, "more than %d lines of history", HISTORY_MAX);
    int64_t capacity = h->capacity ? 2 * h->capacity : 64;
    struct history_entry *more = realloc(h->entry, (size_t)capacity * sizeof *more);
    if (!more)
        return status_fail(STATUS_OOM, "no memory for %lld results", (long long)capacity);
    h->entry = more;
    h->capacity = capacity;
    return STATUS_OK;
}

static enum status take_line(const char *path, const char *line, size_t size, int64_t number,
                             struct history *h)
{
    struct history_entry e = {0};
    TRY(grow(h));
    json_t *o = json_loadb(line, size, JSON_REJECT_DUPLICATES, NULL);
    if (!o || !entry_read(o, &e)) {
        json_decref(o);
        return status_fail(STATUS_DATA,
                           "'%s' line %lld: no entry of a history; put the file right or begin "
                           "another",
                           path, (long long)number);
    }
    json_incref(e.repeat.fingerprint);
    json_decref(o);
    h->entry[h->n++] = e;
    return STATUS_OK;
}

enum status history_load(const char *dir, struct history *h)
{
    char path[REPEATS_PATH_SIZE], *line;
    struct lines l = {.fd = -1};
    size_t size;
    enum status st;
    *h = (struct history){0};
    CHECK(path_of(dir, path));
    if (!path_exists(path)) {
        st = status_fail(STATUS_DATA,
                         "no history in '%s': 'ampscale compare --record %s RUNS' begins one", dir,
                         dir);
        goto done;
    }
    CHECK(lines_open(&l, path));
    CHECK(lines_next(&l, &line, &size));
    while (line) {
        CHECK(take_line(path, line, size, l.number, h));
        CHECK(lines_next(&l, &line, &size));
    }
done:
    lines_close(&l);
    if (st != STATUS_OK)
        history_free(h);
    return st;
}

/* ---- adding ---- */

static json_t *entry_json(const struct repeat *r, double added_s, bool accepted)
{
    json_t *values = json_object();
    for (int i = 0; i < METRICS; i++)
        json_object_set_new(values, metrics[i].name, metric_json(r->value[i]));
    return json_pack("{s:s, s:i, s:f, s:o, s:s, s:b, s:{s:s, s:I, s:I}, s:O, s:o}", "record",
                     "history", "schema", SCHEMA, "added_s", added_s, "started_s",
                     metric_json(r->started_s), "commit", r->commit, "accepted", accepted, "end",
                     "by", r->end.by, "steps", (json_int_t)r->end.steps, "epochs",
                     (json_int_t)r->end.epochs, "fingerprint", r->fingerprint, "metrics", values);
}

static enum status write_entry(struct journal *j, const struct repeat *r, double added_s,
                               bool accepted)
{
    json_t *o = entry_json(r, added_s, accepted);
    char *text = o ? json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(REAL_DIGITS)) : NULL;
    json_decref(o);
    if (!text)
        return status_fail(STATUS_OOM, "no memory for a line of history");
    size_t n = strlen(text);
    text[n] = '\n'; /* in place of the NUL */
    enum status st = n < LINE_MAX_BYTES ? journal_write(j, text, n + 1)
                                        : status_fail(STATUS_DATA, "a run's configuration is too "
                                                                   "long for a line of history");
    free(text);
    return st;
}

/* The folder's lock lasts as long as its descriptor. */
static enum status lock(const char *dir, int *fd)
{
    *fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*fd < 0)
        return status_fail(STATUS_IO, "cannot open '%s': %s", dir, strerror(errno));
    while (flock(*fd, LOCK_EX) != 0)
        if (errno != EINTR)
            return status_fail(STATUS_IO, "cannot lock '%s': %s", dir, strerror(errno));
    return STATUS_OK;
}

/* Whether the history has the very run already. */
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
    struct timespec now;
    int fd = -1;
    enum status st;
    clock_gettime(CLOCK_REALTIME, &now);
    CHECK(path_of(dir, path));
    CHECK(dir_make(dir));
    CHECK(lock(dir, &fd));
    if (path_exists(path))
        CHECK(history_load(dir, &before));
    CHECK(journal_open(&j, path));
    for (int64_t i = 0; i < runs->n; i++)
        if (!is_known(&before, &runs->repeat[i]))
            CHECK(write_entry(&j, &runs->repeat[i], (double)now.tv_sec + 1e-9 * (double)now.tv_nsec,
                              accepted));
done:
    if (j.stream) {
        enum status closed = journal_close(&j);
        st = st == STATUS_OK ? closed : st;
    }
    history_free(&before);
    if (fd >= 0)
        close(fd);
    return st;
}

/* ---- a base ---- */

static bool is_left_out(const struct history_choice *c, const struct repeat *r)
{
    for (int k = 0; k < c->n_without; k++)
        for (int64_t i = 0; i < c->without[k].n; i++)
            if (repeat_same(&c->without[k].repeat[i], r))
                return true;
    return false;
}

enum status history_base(const struct history *h, const struct history_choice *c,
                         struct repeats *base)
{
    for (int64_t i = h->n - 1; i >= 0 && base->n < c->most; i--) {
        const struct repeat *r = &h->entry[i].repeat;
        bool same = false;
        if (!h->entry[i].accepted || is_left_out(c, r))
            continue;
        TRY(fingerprint_agrees(c->fingerprint, r->fingerprint, c->allowed, c->n_allowed, &same));
        if (same)
            TRY(repeats_copy(r, base));
    }
    return STATUS_OK;
}
