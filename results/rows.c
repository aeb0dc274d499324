/* Records into arrays. */
#include "results/rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

enum status run_add_attempt(struct run *run, const json_t *info)
{
    json_t *ranks = json_object_get(info, "ranks");
    if (ranks && !schema_is_rank_list(ranks))
        return status_fail(STATUS_DATA, "'ranks' is not a list of ranks");
    if (json_array_append(run->attempts, ranks ? ranks : json_null()) != 0)
        return status_fail(STATUS_OOM, "no memory for the attempts of a run");
    return STATUS_OK;
}

/* An event line. Kinds that this version does not know are left alone. */
static enum status event_apply(struct rows *r, const json_t *event, struct run *run)
{
    const char *kind = json_string_value(json_object_get(event, "event"));
    if (kind && strcmp(kind, "checkpoint") == 0)
        run->checkpoints++;
    if (!kind || strcmp(kind, "resume") != 0)
        return STATUS_OK;
    const json_t *from = json_object_get(event, r->name);
    if (!json_is_integer(from) || json_integer_value(from) < 0)
        return status_fail(STATUS_DATA, "'%s' is not a whole number", r->name);
    rows_cut(r, json_integer_value(from), 0);
    if (r->schema != &step_schema) /* each event is in several files, and counts once */
        return STATUS_OK;
    run->resumes++;
    return run_add_attempt(run, event);
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

enum status rows_line(struct rows *r, const char *line, size_t size, struct run *run)
{
    json_t *object = json_loadb(line, size, JSON_REJECT_DUPLICATES, NULL);
    if (!object)
        return status_fail(STATUS_DATA, "not valid JSON");
    enum status st;
    if (json_object_get(object, "event"))
        st = event_apply(r, object, run);
    else
        st = row_append(r, object, run);
    json_decref(object);
    return st;
}

void rows_keep(struct rows *r, int64_t keep)
{
    if (r->n <= keep)
        return;
    memmove(r->row, r->row + (size_t)(r->n - keep) * r->size, (size_t)keep * r->size);
    r->n = keep;
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

/* What the devices did is not undone when a run goes on from an earlier step: no event is among
 * these. */
static enum status telemetry_take(struct run *run, const void *row)
{
    elapsed_take(run, ((const struct telemetry_record *)row)->elapsed);
    return STATUS_OK;
}

/* clang-format off */
#define ROWS(file, name, type, key, minor, take)                                                   \
    {file, name, &type##_schema, sizeof(struct type##_record), offsetof(struct type##_record, key), \
     offsetof(struct type##_record, minor), take, NULL, 0, 0}
/* clang-format on */

void rows_begin(struct rows rows[ROWS_FILES])
{
    static const struct rows none[ROWS_FILES] = {
        [ROWS_STEPS] = ROWS("steps.jsonl", "step", step, step, step, step_take),
        [ROWS_EPOCHS] = ROWS("epochs.jsonl", "epoch", epoch, epoch, epoch, epoch_take),
        [ROWS_RANKS] = ROWS("ranks.jsonl", "epoch", rank, epoch, rank, rank_take),
        [ROWS_TELEMETRY] =
            ROWS("telemetry.jsonl", "sample", telemetry, sample, device, telemetry_take),
    };
    memcpy(rows, none, sizeof none);
}

void rows_show(const struct rows rows[ROWS_FILES], struct run *run)
{
    run->step = (struct step_record *)rows[ROWS_STEPS].row;
    run->n_steps = rows[ROWS_STEPS].n;
    run->epoch = (struct epoch_record *)rows[ROWS_EPOCHS].row;
    run->n_epochs = rows[ROWS_EPOCHS].n;
    run->rank = (struct rank_record *)rows[ROWS_RANKS].row;
    run->n_ranks = rows[ROWS_RANKS].n;
    run->telemetry = (struct telemetry_record *)rows[ROWS_TELEMETRY].row;
    run->n_telemetry = rows[ROWS_TELEMETRY].n;
}
