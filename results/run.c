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
    size_t size;  /* of a record */
    size_t key;   /* offset of the key */
    size_t minor; /* offset of what orders rows of equal key; of the key itself: there are none */
    /* Looks at a record of the right shape before it joins the others. */
    enum status (*take)(struct run *run, const void *row);
    char *row;
    int64_t n, capacity;
};

static int64_t value_at(const char *row, size_t offset)
{
    return *(const int64_t *)(row + offset);
}

/* Drops what an earlier attempt recorded at this place and after. */
static void rows_cut(struct rows *r, int64_t key, int64_t minor)
{
    for (; r->n > 0; r->n--) {
        const char *last = r->row + (size_t)(r->n - 1) * r->size;
        int64_t last_key = value_at(last, r->key);
        if (last_key < key || (last_key == key && value_at(last, r->minor) < minor))
            break;
    }
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

/* Who took part in the attempt that run.json or a resume event describes. */
static enum status attempt_add(struct run *run, const json_t *info)
{
    json_t *ranks = json_object_get(info, "ranks");
    if (ranks && !schema_is_rank_list(ranks))
        return status_fail(STATUS_DATA, "'ranks' is not a list of ranks");
    if (json_array_append(run->attempts, ranks ? ranks : json_null()) != 0)
        return status_fail(STATUS_OOM, "no memory for the attempts of a run");
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
    rows_cut(r, json_integer_value(from), 0);
    if (!count)
        return STATUS_OK;
    run->resumes++;
    return attempt_add(run, event);
}

static enum status row_append(struct rows *r, const json_t *object, struct run *run)
{
    TRY(rows_reserve(r));
    /* Parsed behind the end first: cutting may free that very place, so it is moved after. */
    char *parsed = r->row + (size_t)r->n * r->size;
    TRY(schema_parse(r->schema, object, parsed));
    TRY(r->take(run, parsed));
    rows_cut(r, value_at(parsed, r->key), value_at(parsed, r->minor));
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
    run->attempts = json_array();
    enum status st = attempt_add(run, run->info);
    if (st != STATUS_OK)
        return status_context(st, "'%s'", path);
    TRY(path_format(path, sizeof path, "%s/summary.json", dir));
    if (path_exists(path))
        TRY(document_load(dir, "summary.json", &run->summary));
    return STATUS_OK;
}

static void elapsed_take(struct run *run, double elapsed)
{
    if (isfinite(elapsed) && elapsed > run->elapsed)
        run->elapsed = elapsed;
}

static enum status step_take(struct run *run, const void *row)
{
    elapsed_take(run, ((const struct step_record *)row)->elapsed);
    return STATUS_OK;
}

static enum status epoch_take(struct run *run, const void *row)
{
    elapsed_take(run, ((const struct epoch_record *)row)->elapsed);
    return STATUS_OK;
}

/* A rank must be one of those that its attempt has announced. */
static enum status rank_take(struct run *run, const void *row)
{
    const struct rank_record *r = row;
    int64_t n = run_attempt_ranks(run, r->attempt);
    if (r->rank >= n)
        return status_fail(STATUS_DATA, "'rank' is out of range: the attempt announced %lld",
                           (long long)n);
    return STATUS_OK;
}

static enum status telemetry_take(struct run *run, const void *row)
{
    elapsed_take(run, ((const struct telemetry_record *)row)->elapsed);
    return STATUS_OK;
}

/* What the devices did is not undone when a run goes on from an earlier step. */
static enum status telemetry_load(const char *dir, struct run *run)
{
    struct rows rows = {
        .schema = &telemetry_schema,
        .size = sizeof(struct telemetry_record),
        .key = offsetof(struct telemetry_record, sample),
        .minor = offsetof(struct telemetry_record, device),
        .take = telemetry_take,
    };
    enum status st = rows_load(&rows, dir, "telemetry.jsonl", "sample", run, &run->telemetry_whole);
    run->telemetry = (struct telemetry_record *)rows.row;
    run->n_telemetry = rows.n;
    return st;
}

/* The steps come first: their resume events say who took part in each attempt. */
static enum status records_load(const char *dir, struct run *run)
{
    struct rows steps = {
        .schema = &step_schema,
        .size = sizeof(struct step_record),
        .key = offsetof(struct step_record, step),
        .minor = offsetof(struct step_record, step),
        .take = step_take,
    };
    struct rows epochs = {
        .schema = &epoch_schema,
        .size = sizeof(struct epoch_record),
        .key = offsetof(struct epoch_record, epoch),
        .minor = offsetof(struct epoch_record, epoch),
        .take = epoch_take,
    };
    struct rows ranks = {
        .schema = &rank_schema,
        .size = sizeof(struct rank_record),
        .key = offsetof(struct rank_record, epoch),
        .minor = offsetof(struct rank_record, rank),
        .take = rank_take,
    };
    enum status st = rows_load(&steps, dir, "steps.jsonl", "step", run, &run->steps_whole);
    run->step = (struct step_record *)steps.row;
    run->n_steps = steps.n;
    TRY(st);
    st = rows_load(&epochs, dir, "epochs.jsonl", "epoch", run, &run->epochs_whole);
    run->epoch = (struct epoch_record *)epochs.row;
    run->n_epochs = epochs.n;
    TRY(st);
    st = rows_load(&ranks, dir, "ranks.jsonl", "epoch", run, &run->ranks_whole);
    run->rank = (struct rank_record *)ranks.row;
    run->n_ranks = ranks.n;
    TRY(st);
    return telemetry_load(dir, run);
}

enum status run_load(const char *dir, struct run **out)
{
    enum status st;
    struct run *run = calloc(1, sizeof *run);
    if (!run)
        return status_fail(STATUS_OOM, "no memory for the run in '%s'", dir);
    CHECK(documents_load(dir, run));
    CHECK(name_set(run, dir));
    CHECK(records_load(dir, run));
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
    json_decref(run->attempts);
    free(run->step);
    free(run->epoch);
    free(run->rank);
    free(run->telemetry);
    free(run);
}

int64_t run_attempt_ranks(const struct run *run, int64_t attempt)
{
    return (int64_t)json_array_size(json_array_get(run->attempts, (size_t)attempt));
}

const char *run_rank_host(const struct run *run, int64_t attempt, int64_t rank)
{
    const json_t *ranks = json_array_get(run->attempts, (size_t)attempt);
    return json_string_value(json_object_get(json_array_get(ranks, (size_t)rank), "host"));
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
