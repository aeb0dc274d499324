/* Reading a study's folder. */
#include "watch/plan.h"

#include "base/file.h"
#include "results/text.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A plan of thousands of runs, each with its command. */
enum { PLAN_MAX_BYTES = 64 << 20, DOCUMENT_MAX_BYTES = 16 << 20, RUNS_MAX = 1000000 };

bool watch_plan_is_there(const char *dir)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/plan.json", dir);
    return path_exists(path);
}

/* An object from a file; NULL where there is none that can be read. */
static json_t *document(const char *path, size_t max)
{
    char *bytes;
    size_t size;
    if (file_read(path, max, &bytes, &size) != STATUS_OK)
        return NULL;
    json_t *object = json_loadb(bytes, size, JSON_REJECT_DUPLICATES, NULL);
    free(bytes);
    return object;
}

/* The folder of a run of the plan, which must lie inside the study's. */
static enum status run_dir(const char *dir, const json_t *run, char **out)
{
    char path[4096];
    const char *cell = json_string_value(json_object_get(run, "cell"));
    const json_t *repeat = json_object_get(run, "repeat");
    if (!cell || *cell == '\0' || *cell == '.' || strchr(cell, '/') || !json_is_integer(repeat))
        return status_fail(STATUS_DATA, "'%s/plan.json' is not the plan of a study", dir);
    TRY(path_format(path, sizeof path, "%s/cells/%s/r%" JSON_INTEGER_FORMAT, dir, cell,
                    json_integer_value(repeat)));
    *out = strdup(path);
    return *out ? STATUS_OK : status_fail(STATUS_OOM, "no memory for the plan of a study");
}

enum status watch_plan_load(const char *dir, struct watch_plan *s)
{
    enum status st = STATUS_OK;
    char path[4096];
    *s = (struct watch_plan){.current = -1};
    TRY(path_format(path, sizeof path, "%s/plan.json", dir));
    json_t *plan = document(path, PLAN_MAX_BYTES);
    const json_t *runs = json_object_get(plan, "runs");
    if (!json_is_array(runs) || json_array_size(runs) > RUNS_MAX) {
        st = status_fail(STATUS_DATA, "'%s' is not the plan of a study", path);
        goto done;
    }
    s->run = calloc(json_array_size(runs) + 1, sizeof *s->run);
    if (!s->run) {
        st = status_fail(STATUS_OOM, "no memory for the plan of a study");
        goto done;
    }
    for (; s->n < (int64_t)json_array_size(runs); s->n++)
        CHECK(run_dir(dir, json_array_get(runs, (size_t)s->n), &s->run[s->n].dir));
done:
    json_decref(plan);
    if (st != STATUS_OK)
        watch_plan_free(s);
    return st;
}

void watch_plan_free(struct watch_plan *s)
{
    for (int64_t i = 0; i < s->n; i++)
        free(s->run[i].dir);
    free(s->run);
    *s = (struct watch_plan){0};
}

/* When a file of the run was written last, in seconds since 1970; -1: it is not there. */
static enum status written(const struct planned_run *r, const char *suffix, double *out)
{
    char path[4096];
    struct stat s;
    TRY(path_format(path, sizeof path, "%s%s", r->dir, suffix));
    *out = stat(path, &s) == 0 ? (double)s.st_mtim.tv_sec + (double)s.st_mtim.tv_nsec * 1e-9 : -1;
    return STATUS_OK;
}

static double elapsed(const struct planned_run *r)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/summary.json", r->dir);
    json_t *summary = document(path, DOCUMENT_MAX_BYTES);
    double seconds = json_number_value(json_object_get(summary, "elapsed"));
    json_decref(summary);
    return seconds > 0 ? seconds : 0;
}

/* How a run stands, and when it was heard of last. */
static enum status look_at(const struct planned_run *r, enum planned_state *state, double *heard)
{
    double summary, failed, begun, steps;
    TRY(written(r, "/summary.json", &summary));
    TRY(written(r, ".failed", &failed));
    TRY(written(r, "/run.json", &begun));
    TRY(written(r, "/steps.jsonl", &steps));
    *state = summary >= 0  ? PLANNED_DONE
             : failed >= 0 ? PLANNED_FAILED
             : begun >= 0  ? PLANNED_RUNNING
                           : PLANNED_LEFT;
    *heard = steps > begun ? steps : begun;
    return STATUS_OK;
}

enum status watch_plan_look(struct watch_plan *s)
{
    double latest = -1;
    s->current = -1;
    memset(s->count, 0, sizeof s->count);
    for (int64_t i = 0; i < s->n; i++) {
        struct planned_run *r = &s->run[i];
        enum planned_state state;
        double heard;
        TRY(look_at(r, &state, &heard));
        if (state == PLANNED_DONE && r->state != PLANNED_DONE)
            s->done_s += elapsed(r);
        r->state = state;
        s->count[state]++;
        if (state == PLANNED_RUNNING && heard > latest) {
            latest = heard;
            s->current = i;
        }
    }
    return STATUS_OK;
}

void watch_plan_reason(const struct planned_run *r, char *out, int size)
{
    char path[4096];
    snprintf(path, sizeof path, "%s.failed", r->dir);
    json_t *why = document(path, DOCUMENT_MAX_BYTES);
    const char *reason = json_string_value(json_object_get(why, "reason"));
    text_clean(out, (size_t)size, reason ? reason : "for a reason that cannot be read");
    json_decref(why);
}
