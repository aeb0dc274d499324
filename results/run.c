/* Loading a run's folder. */
#include "results/run.h"

#include "base/file.h"
#include "results/lines.h"
#include "results/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* run.json and summary.json: far above what we write, far below what hurts. */
enum { DOCUMENT_MAX_BYTES = 16 << 20 };

/* A growing array of records of one kind, kept ascending by an int64_t key inside them. */
struct rows {
    const struct schema *schema;
    size_t size;    /* of a record */
    size_t key;     /* offset of the key */
    size_t elapsed; /* offset of the double `elapsed` */
    char *row;
    int64_t n, capacity;
};

static int64_t row_key(const struct rows *r, const char *row)
{
    return *(const int64_t *)(row + r->key);
}

/* Drops what an earlier attempt recorded at `key` and after. */
static void rows_cut(struct rows *r, int64_t key)
{
    while (r->n > 0 && row_key(r, r->row + (size_t)(r->n - 1) * r->size) >= key)
        r->n--;
}

static enum status rows_reserve(struct rows *r)
{
    if (r->n < r->capacity)
        return STATUS_OK;
    int64_t capacity = r->capacity ? 2 * r->capacity : 256;
    char *row = realloc(r->row, (size_t)capacity * r->size);
    if (!row)
        return status_fail(STATUS_OOM, "no memory for %lld records", (long long)capacity);
    r->row = row;
    r->capacity = capacity;
    return STATUS_OK;
}

/* An event line. Kinds that this version does not know are left alone. */
static enum status event_apply(struct rows *r, const json_t *event, const char *key,
                               struct run *run, bool count)
{
    const char *kind = json_string_value(json_object_get(event, "event"));
    if (!kind || strcmp(kind, "resume") != 0)
        return STATUS_OK;
    const json_t *from = json_object_get(event, key);
    if (!json_is_integer(from) || json_integer_value(from) < 0)
        return status_fail(STATUS_DATA, "'%s' is not a whole number", key);
    rows_cut(r, json_integer_value(from));
    if (count)
        run->resumes++;
    return STATUS_OK;
}

static enum status row_append(struct rows *r, const json_t *object, struct run *run)
{
    TRY(rows_reserve(r));
    /* Parsed behind the end first: cutting may free that very place, so it is moved after. */
    char *parsed = r->row + (size_t)r->n * r->size;
    TRY(schema_parse(r->schema, object, parsed));
    double elapsed = *(double *)(parsed + r->elapsed);
    if (isfinite(elapsed) && elapsed > run->elapsed)
        run->elapsed = elapsed;
    rows_cut(r, row_key(r, parsed));
    memmove(r->row + (size_t)r->n * r->size, parsed, r->size);
    r->n++;
    return STATUS_OK;
}

static enum status line_apply(struct rows *r, const char *key, const char *line, size_t size,
                              struct run *run)
{
    json_t *object = json_loadb(line, size, JSON_REJECT_DUPLICATES, NULL);
    if (!object)
        return status_fail(STATUS_DATA, "not valid JSON");
    enum status st;
    if (json_object_get(object, "event"))
        st = event_apply(r, object, key, run, strcmp(key, "step") == 0);
    else
        st = row_append(r, object, run);
    json_decref(object);
    return st;
}

/* Reads one file of records; a missing file holds none (a run that was killed at its birth). */
static enum status rows_load(struct rows *r, const char *dir, const char *file, const char *key,
                             struct run *run, int64_t *whole)
{
    char path[4096];
    TRY(path_format(path, sizeof path, "%s/%s", dir, file));
    if (!path_exists(path))
        return STATUS_OK;
    struct lines lines;
    enum status st = lines_open(&lines, path);
    while (st == STATUS_OK) {
        char *line;
        size_t size;
        st = lines_next(&lines, &line, &size);
        if (st != STATUS_OK || !line)
            break;
        st = line_apply(r, key, line, size, run);
        if (st != STATUS_OK)
            st = status_context(st, "'%s' line %lld", path, (long long)lines.number);
    }
    *whole = lines.whole;
    lines_close(&lines);
    return st;
}

static enum status document_load(const char *dir, const char *file, json_t **out)
{
    char path[4096];
    char *bytes = NULL;
    size_t size;
    TRY(path_format(path, sizeof path, "%s/%s", dir, file));
    TRY(file_read(path, DOCUMENT_MAX_BYTES, &bytes, &size));
    json_error_t where;
    *out = json_loadb(bytes, size, JSON_REJECT_DUPLICATES, &where);
    free(bytes);
    if (!*out)
        return status_fail(STATUS_DATA, "'%s' line %d: not valid JSON", path, where.line);
    const json_t *schema = json_object_get(*out, "schema");
    if (!json_is_integer(schema) || json_integer_value(schema) < 1)
        return status_fail(STATUS_DATA, "'%s' is not a record of ampscale: it names no schema",
                           path);
    if (json_integer_value(schema) > RUN_SCHEMA)
        return status_fail(STATUS_DATA, "'%s' has schema %lld, newer than this program's %d", path,
                           (long long)json_integer_value(schema), RUN_SCHEMA);
    return STATUS_OK;
}

/* The last part of a path, "." and trailing slashes aside: what people call the run. */
static enum status name_set(struct run *run, const char *dir)
{
    char *real = realpath(dir, NULL);
    const char *path = real ? real : dir;
    const char *slash = strrchr(path, '/');
    const char *last = slash && slash[1] ? slash + 1 : path;
    run->dir = strdup(dir);
    run->name = malloc(strlen(last) + 1);
    if (run->name)
        text_clean(run->name, strlen(last) + 1, last);
    free(real);
    if (!run->dir || !run->name)
        return status_fail(STATUS_OOM, "no memory for the run in '%s'", dir);
    return STATUS_OK;
}

static enum status documents_load(const char *dir, struct run *run)
{
    char path[4096];
    TRY(path_format(path, sizeof path, "%s/run.json", dir));
    if (!path_is_dir(dir))
        return status_fail(STATUS_DATA, "no run in '%s': there is no such folder", dir);
    if (!path_exists(path))
        return status_fail(STATUS_DATA,
                           "no run in '%s': it has no run.json; give the folder of 'ampscale "
                           "train --out'",
                           dir);
    TRY(document_load(dir, "run.json", &run->info));
    TRY(path_format(path, sizeof path, "%s/summary.json", dir));
    if (path_exists(path))
        TRY(document_load(dir, "summary.json", &run->summary));
    return STATUS_OK;
}

enum status run_load(const char *dir, struct run **out)
{
    enum status st;
    struct rows steps = {
        .schema = &step_schema,
        .size = sizeof(struct step_record),
        .key = offsetof(struct step_record, step),
        .elapsed = offsetof(struct step_record, elapsed),
    };
    struct rows epochs = {
        .schema = &epoch_schema,
        .size = sizeof(struct epoch_record),
        .key = offsetof(struct epoch_record, epoch),
        .elapsed = offsetof(struct epoch_record, elapsed),
    };
    struct run *run = calloc(1, sizeof *run);
    if (!run)
        return status_fail(STATUS_OOM, "no memory for the run in '%s'", dir);
    CHECK(documents_load(dir, run));
    CHECK(name_set(run, dir));
    st = rows_load(&steps, dir, "steps.jsonl", "step", run, &run->steps_whole);
    run->step = (struct step_record *)steps.row;
    run->n_steps = steps.n;
    CHECK(st);
    st = rows_load(&epochs, dir, "epochs.jsonl", "epoch", run, &run->epochs_whole);
    run->epoch = (struct epoch_record *)epochs.row;
    run->n_epochs = epochs.n;
    CHECK(st);
    *out = run;
    run = NULL;
done:
    run_free(run);
    return st;
}

void run_free(struct run *run)
{
    if (!run)
        return;
    free(run->dir);
    free(run->name);
    json_decref(run->info);
    json_decref(run->summary);
    free(run->step);
    free(run->epoch);
    free(run);
}

const char *run_config_text(const struct run *run, const char *key, const char *otherwise)
{
    const char *text =
        json_string_value(json_object_get(json_object_get(run->info, "config"), key));
    return text ? text : otherwise;
}

int64_t run_config_count(const struct run *run, const char *key, int64_t otherwise)
{
    const json_t *value = json_object_get(json_object_get(run->info, "config"), key);
    return json_is_integer(value) ? json_integer_value(value) : otherwise;
}
