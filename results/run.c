/* Loading a run's folder. */
#include "results/run.h"

#include "base/file.h"
#include "results/lines.h"
#include "results/rows.h"
#include "results/text.h"

#include <stdlib.h>
#include <string.h>

/* run.json and summary.json: far above what we write, far below what hurts. */
enum { DOCUMENT_MAX_BYTES = 16 << 20 };

/* Reads one file of records; a missing file holds none (a run that was killed at its birth). */
static enum status rows_load(struct rows *r, struct run *run)
{
    char path[4096];
    bool exists;
    TRY(path_format(path, sizeof path, "%s/%s", run->dir, r->file));
    TRY(path_look(path, &exists));
    if (!exists)
        return STATUS_OK;
    struct lines lines;
    enum status st = lines_open(&lines, path);
    while (st == STATUS_OK) {
        char *line;
        size_t size;
        st = lines_next(&lines, &line, &size);
        if (st != STATUS_OK || !line)
            break;
        st = rows_line(r, line, size, run);
        if (st != STATUS_OK)
            st = status_context(st, "'%s' line %lld", path, (long long)lines.number);
    }
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

/* run.json, and the attempt that it describes. */
static enum status info_load(const char *dir, struct run *run)
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
    enum status st = run_add_attempt(run, run->info);
    if (st != STATUS_OK)
        return status_context(st, "'%s'", path);
    return STATUS_OK;
}

enum status run_load_summary(struct run *run)
{
    char path[4096];
    json_decref(run->summary);
    run->summary = NULL;
    TRY(path_format(path, sizeof path, "%s/summary.json", run->dir));
    bool exists;
    TRY(path_look(path, &exists));
    return exists ? document_load(run->dir, "summary.json", &run->summary) : STATUS_OK;
}

enum status run_begin(const char *dir, struct run **out)
{
    enum status st;
    struct run *run = calloc(1, sizeof *run);
    if (!run)
        return status_fail(STATUS_OOM, "no memory for the run in '%s'", dir);
    CHECK(info_load(dir, run));
    CHECK(name_set(run, dir));
    CHECK(run_load_summary(run));
    *out = run;
    run = NULL;
done:
    run_free(run);
    return st;
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

int64_t run_host_cores(const struct run *run, int64_t attempt)
{
    const json_t *ranks = json_array_get(run->attempts, (size_t)attempt);
    const json_t *cores = json_object_get(json_array_get(ranks, 0), "host_cores");
    return json_is_integer(cores) && json_integer_value(cores) > 0 ? json_integer_value(cores) : 0;
}

/* Names of hosts sort together. */
static int compare_hosts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

enum status run_hosts(const struct run *run, int64_t attempt, int64_t *hosts,
                      int64_t *ranks_per_host)
{
    int64_t n = run_attempt_ranks(run, attempt), same = 1;
    *hosts = *ranks_per_host = 1;
    if (n < 2)
        return STATUS_OK;
    const char **name = calloc((size_t)n, sizeof *name);
    if (!name)
        return status_fail(STATUS_OOM, "no memory for the hosts of %lld ranks", (long long)n);
    for (int64_t i = 0; i < n; i++)
        name[i] = run_rank_host(run, attempt, i);
    qsort(name, (size_t)n, sizeof *name, compare_hosts);
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
        n += run->step[i].bad_images; /* of an epoch that is under way, or was not finished */
    return n;
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
