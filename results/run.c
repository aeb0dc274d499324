/* Loads a run's folder: its lines as arrays of records, and its JSON documents. */
#include "results/run.h"

#include "base/array.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/json.h"
#include "base/lines.h"
#include "base/stats.h"
#include "base/text.h"
#include "base/text_new.h"
#include "results/rows.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Largest accepted size of run.json and summary.json. It is far above their usual sizes and far
 * below the memory of a machine. */
enum { DOCUMENT_MAX_BYTES = 16 << 20 };

/* ---- records into arrays ---- */

static int64_t value_at(const char *row, size_t offset)
{
    return *(const int64_t *)(row + offset);
}

/* Drops the records whose key is (`key`, `minor`) or higher. Earlier attempts wrote them. */
static void rows_cut(struct rows *r, int64_t key, int64_t minor)
{
    for (; r->n > 0; r->n--) {
        const char *last = r->row + (size_t)(r->n - 1) * r->size;
        int64_t last_key = value_at(last, r->key);
        if (last_key < key || (last_key == key && value_at(last, r->minor) < minor))
            break;
    }
}

/* Adds the ranks and the command of the attempt that run.json or a resume event describes. */
static enum status run_add_attempt(struct run *run, const json_t *info)
{
    json_t *ranks = json_object_get(info, "ranks");
    if (ranks && !schema_is_rank_list(ranks))
        return status_fail(STATUS_DATA, "'ranks' is not a list of ranks");
    json_decref(run->process);
    run->process = json_incref(json_object_get(info, "process"));
    json_add(run->attempts, ranks ? json_incref(ranks) : json_null());
    json_add(run->infos, json_incref((json_t *)info));
    return STATUS_OK;
}

/* Applies an event line; ignores kinds that this version does not know. */
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
    if (r->schema != &step_schema) /* each event is in several files; count it once */
        return STATUS_OK;
    run->resumes++;
    return run_add_attempt(run, event);
}

/* Fails if the attempt of record `r` does not have the record's rank. */
static enum status check_rank(const struct run *run, const struct rank_record *r)
{
    int64_t n = run_attempt_ranks(run, r->attempt);
    return r->rank < n
               ? STATUS_OK
               : status_fail(STATUS_DATA, "'rank' is out of range: the attempt has %lld ranks",
                             (long long)n);
}

static enum status row_append(struct rows *r, const json_t *object, struct run *run)
{
    TRY(array_reserve_sized(&r->row, r->n, r->size, r->file));
    /* Parses the row into the place after the last row, and moves it afterwards, because rows_cut
     * may drop rows before it. */
    char *parsed = r->row + (size_t)r->n * r->size;
    TRY(schema_parse(r->schema, object, parsed));
    if (r->schema == &rank_schema) {
        const struct rank_record *rank = (const void *)parsed;
        if (rank->attempt > run->resumes) {
            run->strayed = true;
            return STATUS_OK;
        }
        TRY(check_rank(run, rank));
    }
    double elapsed = r->elapsed ? *(const double *)(const void *)(parsed + r->elapsed) : 0;
    if (isfinite(elapsed) && elapsed > run->elapsed)
        run->elapsed = elapsed;
    rows_cut(r, value_at(parsed, r->key), value_at(parsed, r->minor));
    memmove(r->row + (size_t)r->n * r->size, parsed, r->size);
    r->n++;
    return STATUS_OK;
}

enum status rows_line(struct rows *r, const char *line, size_t size, struct run *run)
{
    if (size == 0) /* what `echo >FILE` leaves */
        return STATUS_OK;
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

/* clang-format off */
#define ROWS(file, name, type, key, minor, elapsed)                                                \
    {file, name, &type##_schema, sizeof(struct type##_record), offsetof(struct type##_record, key), \
     offsetof(struct type##_record, minor), elapsed, NULL, 0}
/* clang-format on */

void rows_begin(struct rows rows[ROWS_FILES])
{
    static const struct rows none[ROWS_FILES] = {
        [ROWS_STEPS] =
            ROWS("steps.jsonl", "step", step, step, step, offsetof(struct step_record, elapsed)),
        [ROWS_EPOCHS] = ROWS("epochs.jsonl", "epoch", epoch, epoch, epoch,
                             offsetof(struct epoch_record, elapsed)),
        [ROWS_RANKS] = ROWS("ranks.jsonl", "epoch", rank, epoch, rank, 0),
        /* Samples stay valid when a run resumes from an earlier step, so this file has no resume
         * events. */
        [ROWS_TELEMETRY] = ROWS("telemetry.jsonl", "sample", telemetry, sample, device,
                                offsetof(struct telemetry_record, elapsed)),
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

/* ---- files ---- */

struct rows_of_run {
    struct rows *rows;
    struct run *run;
};

static enum status row_take(void *context, char *line, size_t size)
{
    struct rows_of_run *into = context;
    return rows_line(into->rows, line, size, into->run);
}

/* Reads one file of records. A missing file counts as empty: a run that was killed at its start has
 * not written it. */
static enum status rows_load(struct rows *r, struct run *run)
{
    char path[4096];
    bool exists;
    TRY(path_format(path, sizeof path, "%s/%s", run->dir, r->file));
    TRY(path_look(path, &exists));
    struct rows_of_run into = {r, run};
    return exists ? lines_each(path, false, row_take, &into) : STATUS_OK;
}

static enum status document_load(const char *dir, const char *file, json_t **out)
{
    char path[4096];
    TRY(path_format(path, sizeof path, "%s/%s", dir, file));
    TRY(json_read(path, DOCUMENT_MAX_BYTES, out));
    const json_t *schema = json_object_get(*out, "schema");
    if (!json_is_integer(schema) || json_integer_value(schema) < 1)
        return status_fail(STATUS_DATA, "'%s' is not a record of ampscale: it has no schema", path);
    if (json_integer_value(schema) > RUN_SCHEMA)
        return status_fail(
            STATUS_DATA,
            "'%s' has schema %lld, but this program reads only up to %d; use a newer ampscale",
            path, (long long)json_integer_value(schema), RUN_SCHEMA);
    return STATUS_OK;
}

/* Sets the run's name: the last part of its path, without "." and trailing slashes. */
static enum status name_set(struct run *run, const char *dir)
{
    char *real = realpath(dir, NULL);
    const char *path = real ? real : dir; /* a parent folder may be unreadable */
    const char *slash = strrchr(path, '/'), *last = slash && slash[1] ? slash + 1 : path;
    enum status st;
    CHECK(text_new(&run->dir, "%s", dir));
    CHECK(array_new(&run->name, strlen(last) + 1));
    text_clean(run->name, strlen(last) + 1, last);
done:
    free(real);
    return st;
}

/* Loads run.json, and adds the attempt that it describes. */
static enum status info_load(const char *dir, struct run *run)
{
    bool is_dir, is_run;
    TRY(path_look_dir(dir, &is_dir));
    if (!is_dir)
        return status_fail(STATUS_DATA, "no run in '%s': there is no such folder", dir);
    TRY(dir_look(dir, "run.json", &is_run));
    if (!is_run)
        return status_fail(STATUS_DATA,
                           "no run in '%s': it has no run.json; give the folder of 'ampscale "
                           "train --out'",
                           dir);
    TRY(document_load(dir, "run.json", &run->info));
    run->attempts = json_array();
    run->infos = json_array();
    enum status st = run_add_attempt(run, run->info);
    return st == STATUS_OK ? st : status_context(st, "'%s/run.json'", dir);
}

static enum status reload(const struct run *run, const char *file, json_t **document)
{
    char path[4096];
    json_decref(*document);
    *document = NULL;
    TRY(path_format(path, sizeof path, "%s/%s", run->dir, file));
    bool exists;
    TRY(path_look(path, &exists));
    return exists ? document_load(run->dir, file, document) : STATUS_OK;
}

enum status run_load_end(struct run *run)
{
    TRY(reload(run, "summary.json", &run->summary));
    return reload(run, "outcome.json", &run->outcome);
}

enum status run_begin(const char *dir, struct run **out)
{
    enum status st;
    struct run *run;
    TRY(array_new(&run, 1));
    CHECK(info_load(dir, run));
    CHECK(name_set(run, dir));
    CHECK(run_load_end(run));
    *out = run;
    run = NULL;
done:
    run_free(run);
    return st;
}

/* Drops the attempts of which no step is left, but for the only one. */
static void drop_idle(struct run *run)
{
    double end = run->n_steps ? (double)run->step[run->n_steps - 1].step + 1 : 0;
    size_t n = json_array_size(run->infos);
    run->attempt = run->n_steps ? 0 : run->resumes;
    for (size_t i = n; i-- > 0 && run->n_steps;) {
        double begin = i ? json_number_at(json_array_get(run->infos, i), "step") : 0;
        if (begin >= end)
            json_array_remove(run->infos, i);
        else if (run->attempt < (int64_t)i)
            run->attempt = (int64_t)i;
        end = begin < end ? begin : end;
    }
}

enum status run_load(const char *dir, struct run **out)
{
    struct run *run;
    struct rows rows[ROWS_FILES];
    TRY(run_begin(dir, &run));
    enum status st = STATUS_OK;
    rows_begin(rows);
    for (int i = 0; i < ROWS_FILES && st == STATUS_OK; i++)
        st = rows_load(&rows[i], run);
    rows_show(rows, run);
    drop_idle(run);
    if (st == STATUS_OK)
        *out = run;
    else
        run_free(run);
    return st;
}

enum status run_drop_weights(const char *dir)
{
    static const char *const weights[] = {"checkpoint", "checkpoint-prev", "best"};
    for (size_t i = 0; i < sizeof weights / sizeof *weights; i++) {
        char path[4096];
        TRY(path_format(path, sizeof path, "%s/%s.safetensors", dir, weights[i]));
        TRY(dir_remove(path));
    }
    return STATUS_OK;
}

void run_free(struct run *run)
{
    if (!run)
        return;
    free(run->dir);
    free(run->name);
    json_decref(run->info);
    json_decref(run->summary);
    json_decref(run->outcome);
    json_decref(run->process);
    json_decref(run->attempts);
    json_decref(run->infos);
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

int64_t run_host_cores(const struct run *run, int64_t attempt)
{
    const json_t *ranks = json_array_get(run->attempts, (size_t)attempt);
    const json_t *cores = json_object_get(json_array_get(ranks, 0), "host_cores");
    return json_is_integer(cores) && json_integer_value(cores) > 0 ? json_integer_value(cores) : 0;
}

enum status run_hosts(const struct run *run, int64_t attempt, int64_t *hosts,
                      int64_t *ranks_per_host)
{
    int64_t n = run_attempt_ranks(run, attempt), same = 1;
    *hosts = *ranks_per_host = 1;
    if (n < 2)
        return STATUS_OK;
    const char **name;
    TRY(array_new(&name, n));
    for (int64_t i = 0; i < n; i++)
        name[i] = run_rank_host(run, attempt, i);
    qsort(name, (size_t)n, sizeof *name, text_order);
    for (int64_t i = 1; i < n; i++) {
        bool again = strcmp(name[i], name[i - 1]) == 0;
        same = again ? same + 1 : 1;
        *hosts += !again;
        *ranks_per_host = same > *ranks_per_host ? same : *ranks_per_host;
    }
    free(name);
    return STATUS_OK;
}

int64_t run_left_out(const struct run *run)
{
    int64_t n = 0;
    for (int64_t i = 0; i < run->n_epochs; i++)
        n += run->epoch[i].bad_images;
    int64_t epochs = run->n_epochs ? run->epoch[run->n_epochs - 1].epoch + 1 : 0;
    for (int64_t i = run->n_steps - 1; i >= 0 && run->step[i].epoch >= epochs; i--)
        n += run->step[i].bad_images; /* adds the bad images of an epoch that is not complete */
    return n;
}

bool run_has_rows(const struct run *run, int64_t steps, int64_t epochs)
{
    int64_t n = run->n_steps, m = run->n_epochs;
    const struct step_record *s = run->step;
    const struct epoch_record *e = run->epoch;
    const char *from = run_config_text(run, "resume", "");
    bool other = *from && strcmp(from, "auto") != 0; /* it began at another run's checkpoint */
    bool gap = (n && s[n - 1].step - s->step != n - 1) || (m && e[m - 1].epoch - e->epoch != m - 1);
    gap = gap || (n && m && s->epoch != e->epoch) || (n && s->step > 0 && s->epoch == 0 && !other);
    int64_t ended = m ? e[m - 1].epoch + 1 : n ? s->epoch : 0;
    return !gap && !run->strayed && (n ? s[n - 1].step + 1 : 0) >= steps && ended >= epochs;
}

bool run_is_whole(const struct run *run)
{
    const json_t *steps = json_object_get(run->summary, "steps");
    const json_t *epochs = json_object_get(run->summary, "epochs");
    int64_t n = json_integer_value(steps), m = json_integer_value(epochs);
    if (!steps || !epochs || json_is_true(run_config(run, "evaluate")))
        return run_has_rows(run, 0, 0);
    return json_is_integer(steps) && json_is_integer(epochs) && run_has_rows(run, n, m) &&
           !run_has_rows(run, n + 1, 0) && !run_has_rows(run, 0, m + 1);
}

enum status run_load_whole(const char *dir, struct run **out)
{
    TRY(run_load(dir, out));
    if (run_is_whole(*out))
        return STATUS_OK;
    run_free(*out);
    *out = NULL;
    return status_fail(STATUS_DATA, "'%s' lacks rows of steps or epochs", dir);
}

const json_t *run_config(const struct run *run, const char *key)
{
    return json_object_get(json_object_get(run->info, "config"), key);
}

struct run run_attempt(const struct run *run, size_t attempt)
{
    struct run view = *run;
    view.info = json_array_get(run->infos, attempt);
    return view;
}

const char *run_differs(const struct run *a, const struct run *b, const char *const *keys)
{
    for (; *keys; keys++) {
        const json_t *x = run_config(a, *keys), *y = run_config(b, *keys);
        if (x && y && !json_equal(x, y))
            return *keys;
    }
    return NULL;
}

const char *run_changed(const struct run *run, const char *const *keys)
{
    const char *key = NULL;
    for (size_t i = 1; i < json_array_size(run->infos) && !key; i++) {
        const struct run later = run_attempt(run, i);
        key = run_differs(run, &later, keys);
    }
    return key;
}

bool run_recorded(const struct run *run, char *out, size_t size)
{
    const char *name;
    json_t *value;
    *out = '\0';
    json_object_foreach(json_object_get(run->summary, "metrics"), name, value)
    {
        text_join(out, size, ", ", "%s %.5g", name, json_number_value(value));
    }
    return run_config(run, "command") != NULL;
}

const char *run_config_text(const struct run *run, const char *key, const char *otherwise)
{
    return json_text_or(json_object_get(run->info, "config"), key, otherwise);
}

int64_t run_config_count(const struct run *run, const char *key, int64_t otherwise)
{
    const json_t *value = run_config(run, key);
    return json_is_integer(value) ? json_integer_value(value) : otherwise;
}

int64_t run_warmup(const struct run *run)
{
    enum { WARMUP_STEPS = 10 };
    return stats_warmup(run->n_steps, run_config_count(run, "warmup_steps", WARMUP_STEPS));
}

double run_images_per_s(const struct run *run)
{
    double images = 0, seconds = 0;
    for (int64_t i = run_warmup(run); i < run->n_steps; i++) {
        images += (double)run->step[i].images;
        seconds += run->step[i].total_s;
    }
    return seconds > 0 ? images / seconds : NAN;
}

const struct epoch_record *run_reached(const struct run *run)
{
    double target = json_number_value(run_config(run, "desired_acc"));
    for (int64_t i = 0; target > 0 && i < run->n_epochs; i++)
        if (run->epoch[i].val_images > 0 && run->epoch[i].val_top1 >= target)
            return &run->epoch[i];
    return NULL;
}

void run_key(const struct run *run, char *out, size_t size)
{
    static const char *const setting[][2] = {{"arch", ""},
                                             {"precision", ""},
                                             {"emulated", ""},
                                             {"batch_size", ""},
                                             {"image_size", ""},
                                             {"val_resize", ""},
                                             {"interpolation", "\"bilinear\""},
                                             {"decode", "\"fast\""},
                                             {"epochs", ""},
                                             {"steps", ""},
                                             {"lr", ""},
                                             {"lr_schedule", ""},
                                             {"momentum", ""},
                                             {"classes", ""},
                                             {"weight_decay", ""},
                                             {"warmup_epochs", ""},
                                             {"label_smoothing", ""},
                                             {"mixup", ""},
                                             {"mode", "\"nd\""},
                                             {"world_size", "1"},
                                             {"devices_per_rank", "1"},
                                             {"accumulate", "1"},
                                             {"sync_bn", "false"},
                                             {"lars", "0.0"},
                                             {"lr_scale", "\"none\""},
                                             {"grad_compress", "\"fp32\""}};
    snprintf(out, size, "%" PRId64, run->n_epochs ? run->epoch[0].train_images : 0);
    for (size_t i = 0; i < sizeof setting / sizeof *setting; i++) {
        char *text = json_dumps(run_config(run, setting[i][0]), JSON_ENCODE_ANY);
        text_append(out, size, " %s", text ? text : setting[i][1]);
        free(text);
    }
}
