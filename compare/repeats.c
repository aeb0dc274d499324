/* Reads repeats from run folders. */
#include "compare/repeats.h"

#include "base/array.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/json.h"
#include "base/text.h"
#include "base/text_new.h"
#include "compare/fingerprint.h"
#include "results/noise.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum status repeats_cells(const char *study, struct words *cells)
{
    char dir[REPEATS_PATH_SIZE], path[REPEATS_PATH_SIZE];
    struct words all = {0};
    bool is_dir;
    enum status st;
    CHECK(path_format(dir, sizeof dir, "%s/cells", study));
    CHECK(dir_list(dir, "", &all));
    for (int i = 0; i < all.n; i++) {
        CHECK(path_format(path, sizeof path, "%s/%s", dir, all.v[i]));
        CHECK(path_look_dir(path, &is_dir));
        if (is_dir)
            CHECK(words_add(cells, "%s", all.v[i]));
    }
    if (cells->n < 1 || cells->n > REPEATS_CELLS_MAX)
        st = status_fail(STATUS_DATA, "'%s' has %d cells; give a study of 1 to %d cells", study,
                         cells->n, REPEATS_CELLS_MAX);
done:
    words_free(&all);
    return st;
}

static void unfinished(const char *dir, struct repeats *r)
{
    if (r->unfinished++ == 0)
        text_clean(r->example, sizeof r->example, dir);
}

static enum status grow(struct repeats *r)
{
    if (r->n == REPEATS_MAX)
        return status_fail(STATUS_DATA,
                           "there are more than %d runs of one configuration, which is the limit",
                           REPEATS_MAX);
    return array_reserve(&r->repeat, r->n);
}

static enum status take(const struct run *run, struct repeat *r)
{
    char noise[NOISE_TEXT_MAX];
    *r = (struct repeat){.end = {.steps = run->n_steps, .epochs = run->n_epochs},
                         .started_s = json_number_at(run->info, "started_s")};
    text_clean(r->end.by, sizeof r->end.by, json_text_at(run->summary, "ended_by"));
    r->disturbed = noise_recorded(run->summary, noise);
    bool other = json_object_get(run->summary, "metrics") != NULL; /* of another program */
    text_clean(r->commit, sizeof r->commit,
               json_text_at(other ? run->summary : run->info, "commit"));
    text_clean(r->host, sizeof r->host,
               json_text_at(json_object_get(run->info, "host"), "hostname"));
    struct stat folder = {0};
    bool there;
    TRY(path_stat(run->dir, &folder, &there));
    r->disk = folder.st_dev;
    r->node = folder.st_ino;
    TRY(metrics_of(run, r->value));
    TRY(fingerprint_of(run, &r->fingerprint));
    enum status st = text_new(&r->dir, "%s", run->dir);
    if (st != STATUS_OK)
        json_decref(r->fingerprint);
    return st;
}

static enum status add_run(const char *dir, struct repeats *r)
{
    struct run *run = NULL;
    enum status st = run_load_whole(dir, &run);
    if (st == STATUS_DATA) {
        if (r->damaged++ == 0)
            text_clean(r->damage, sizeof r->damage, status_message());
        st = STATUS_OK;
        goto done;
    }
    CHECK(st);
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

/* Adds an entry of a folder of runs: a run, or the ".failed" folder of a failed run. Ignores
 * anything else. */
static enum status add_entry(const char *path, struct repeats *r)
{
    char stem[REPEATS_PATH_SIZE];
    const char *dot = strrchr(path, '.');
    bool is_run;
    TRY(dir_look(path, "run.json", &is_run));
    if (is_run)
        return add_run(path, r);
    if (!dot || strcmp(dot, ".failed") != 0)
        return STATUS_OK;
    TRY(path_format(stem, sizeof stem, "%.*s", (int)(dot - path), path));
    TRY(dir_look(stem, "run.json", &is_run));
    if (!is_run)
        unfinished(stem, r);
    return STATUS_OK;
}

enum status repeats_add(const char *dir, struct repeats *r)
{
    char path[REPEATS_PATH_SIZE];
    struct words names = {0};
    enum status st;
    bool is_run;
    TRY(dir_look(dir, "run.json", &is_run));
    if (is_run)
        return add_run(dir, r);
    CHECK(dir_list(dir, "", &names));
    for (int i = 0; i < names.n; i++) {
        CHECK(path_format(path, sizeof path, "%s/%s", dir, names.v[i]));
        CHECK(add_entry(path, r));
    }
done:
    words_free(&names);
    return st;
}

bool repeat_same(const struct repeat *a, const struct repeat *b)
{
    bool folder = a->node != 0 && a->node == b->node && a->disk == b->disk;
    return folder || (a->started_s == b->started_s && /* not NaN */
                      json_equal(a->fingerprint, b->fingerprint));
}

enum status repeats_copy(const struct repeat *from, struct repeats *r)
{
    TRY(grow(r));
    r->repeat[r->n] = *from;
    r->repeat[r->n].dir = NULL;
    r->repeat[r->n].node = 0;
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
