/* From folders to repeats. */
#include "compare/repeats.h"

#include "base/file.h"
#include "compare/fingerprint.h"
#include "results/text.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int is_visible(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

void cell_names_free(struct cell_names *names)
{
    for (int i = 0; i < names->n; i++)
        free(names->name[i]);
    free(names->name);
    *names = (struct cell_names){0};
}

/* All that is in a folder, by name, whatever the locale. */
static enum status list(const char *dir, struct cell_names *out)
{
    struct dirent **entry;
    *out = (struct cell_names){0};
    int n = scandir(dir, &entry, is_visible, by_bytes);
    if (n < 0)
        return status_fail(errno == ENOENT ? STATUS_DATA : STATUS_IO, "cannot open '%s': %s", dir,
                           strerror(errno));
    out->name = calloc((size_t)n + 1, sizeof *out->name);
    for (int i = 0; i < n; i++) {
        if (out->name && (out->name[out->n] = strdup(entry[i]->d_name)))
            out->n++;
        free(entry[i]);
    }
    free(entry);
    if (out->n == n)
        return STATUS_OK;
    cell_names_free(out);
    return status_fail(STATUS_OOM, "no memory to list '%s'", dir);
}

bool repeats_is_study(const char *dir)
{
    char path[REPEATS_PATH_SIZE];
    return path_format(path, sizeof path, "%s/cells", dir) == STATUS_OK && path_is_dir(path);
}

enum status repeats_cells(const char *study, struct cell_names *cells)
{
    char dir[REPEATS_PATH_SIZE], path[REPEATS_PATH_SIZE];
    enum status st;
    int kept = 0;
    TRY(path_format(dir, sizeof dir, "%s/cells", study));
    TRY(list(dir, cells));
    for (int i = 0; i < cells->n; i++) {
        CHECK(path_format(path, sizeof path, "%s/%s", dir, cells->name[i]));
        char *name = cells->name[i];
        cells->name[i] = NULL;
        if (path_is_dir(path))
            cells->name[kept++] = name;
        else
            free(name);
    }
    st = kept > 0 && kept <= REPEATS_CELLS_MAX
             ? STATUS_OK
             : status_fail(STATUS_DATA, "'%s' has %d cells, not 1 to %d", study, kept,
                           REPEATS_CELLS_MAX);
done:
    if (st == STATUS_OK)
        cells->n = kept;
    else
        cell_names_free(cells);
    return st;
}

static void unfinished(const char *dir, struct repeats *r)
{
    if (r->unfinished++ == 0)
        text_clean(r->example, sizeof r->example, dir);
}

static enum status grow(struct repeats *r)
{
    if (r->n < r->capacity)
        return STATUS_OK;
    if (r->n == REPEATS_MAX)
        return status_fail(STATUS_DATA, "more than %d runs of one configuration", REPEATS_MAX);
    int64_t capacity = r->capacity ? 2 * r->capacity : 16;
    struct repeat *more = realloc(r->repeat, (size_t)capacity * sizeof *more);
    if (!more)
        return status_fail(STATUS_OOM, "no memory for %lld runs", (long long)capacity);
    r->repeat = more;
    r->capacity = capacity;
    return STATUS_OK;
}

static enum status take(const struct run *run, struct repeat *r)
{
    const char *by = json_string_value(json_object_get(run->summary, "ended_by"));
    const char *commit = json_string_value(json_object_get(run->info, "commit"));
    const json_t *started = json_object_get(run->info, "started_s");
    *r = (struct repeat){.end = {.steps = run->n_steps, .epochs = run->n_epochs},
                         .started_s = json_is_number(started) ? json_number_value(started) : NAN};
    text_clean(r->end.by, sizeof r->end.by, by ? by : "");
    text_clean(r->commit, sizeof r->commit, commit ? commit : "");
    TRY(metrics_of(run, r->value));
    TRY(fingerprint_of(run, &r->fingerprint));
    r->dir = strdup(run->dir);
    if (r->dir)
        return STATUS_OK;
    json_decref(r->fingerprint);
    return status_fail(STATUS_OOM, "no memory for a run");
}

static enum status add_run(const char *dir, struct repeats *r)
{
    struct run *run;
    enum status st = run_load(dir, &run);
    if (st == STATUS_DATA) {
        if (r->damaged++ == 0)
            text_clean(r->damage, sizeof r->damage, status_message());
        return STATUS_OK;
    }
    if (st != STATUS_OK)
        return st;
    if (!run->summary) {
        unfinished(dir, r);
        goto done;
    }
    CHECK(grow(r));
    CHECK(take(run, &r->repeat[r->n]));
    r->n++;
done:
    run_free(run);
    return st;
}

static bool is_run(const char *dir)
{
    char path[REPEATS_PATH_SIZE];
    return path_format(path, sizeof path, "%s/run.json", dir) == STATUS_OK && path_exists(path);
}

/* An entry of a folder of runs: a run, why one failed, or something else. */
static enum status add_entry(const char *path, struct repeats *r)
{
    char stem[REPEATS_PATH_SIZE];
    const char *dot = strrchr(path, '.');
    if (is_run(path))
        return add_run(path, r);
    if (!dot || strcmp(dot, ".failed") != 0)
        return STATUS_OK;
    TRY(path_format(stem, sizeof stem, "%.*s", (int)(dot - path), path));
    if (!is_run(stem))
        unfinished(stem, r);
    return STATUS_OK;
}

enum status repeats_add(const char *dir, struct repeats *r)
{
    char path[REPEATS_PATH_SIZE];
    struct cell_names names;
    enum status st = STATUS_OK;
    if (is_run(dir))
        return add_run(dir, r);
    TRY(list(dir, &names));
    for (int i = 0; i < names.n; i++) {
        CHECK(path_format(path, sizeof path, "%s/%s", dir, names.name[i]));
        CHECK(add_entry(path, r));
    }
done:
    cell_names_free(&names);
    return st;
}

bool repeat_same(const struct repeat *a, const struct repeat *b)
{
    return a->started_s == b->started_s && /* not NaN */
           json_equal(a->fingerprint, b->fingerprint);
}

enum status repeats_copy(const struct repeat *from, struct repeats *r)
{
    TRY(grow(r));
    r->repeat[r->n] = *from;
    r->repeat[r->n].dir = NULL;
    json_incref(from->fingerprint);
    r->n++;
    return STATUS_OK;
}

void repeats_free(struct repeats *r)
{
    for (int64_t i = 0; i < r->n; i++) {
        free(r->repeat[i].dir);
        json_decref(r->repeat[i].fingerprint);
    }
    free(r->repeat);
    *r = (struct repeats){0};
}

static int by_start(const void *a, const void *b)
{
    double x = ((const struct repeat *)a)->started_s, y = ((const struct repeat *)b)->started_s;
    return (x > y) - (x < y);
}

static bool all_started(const struct repeats *r)
{
    for (int64_t i = 0; i < r->n; i++)
        if (!isfinite(r->repeat[i].started_s))
            return false;
    return true;
}

bool repeats_take_turns(struct repeats *a, struct repeats *b)
{
    if (a->n == 0 || a->n != b->n || !all_started(a) || !all_started(b))
        return false;
    qsort(a->repeat, (size_t)a->n, sizeof *a->repeat, by_start);
    qsort(b->repeat, (size_t)b->n, sizeof *b->repeat, by_start);
    for (int64_t i = 0; i + 1 < a->n; i++)
        if (fmax(a->repeat[i].started_s, b->repeat[i].started_s) >=
            fmin(a->repeat[i + 1].started_s, b->repeat[i + 1].started_s))
            return false;
    return true;
}
