/* Reads the state of runs from a study's folder. */
#include "watch/plan.h"

#include "base/array.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "base/text_new.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Limits that are large enough for plans of thousands of runs, each with its command. */
enum { PLAN_MAX_BYTES = 64 << 20, DOCUMENT_MAX_BYTES = 16 << 20, RUNS_MAX = 1000000 };

bool watch_plan_is_there(const char *dir)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/plan.json", dir);
    return path_exists(path);
}

/* The folder of a planned run, which must be inside the study's folder. */
static enum status run_dir(const char *dir, const json_t *run, char **out)
{
    char path[4096];
    const char *cell = json_text_at(run, "cell");
    const json_t *repeat = json_object_get(run, "repeat");
    if (*cell == '\0' || *cell == '.' || strchr(cell, '/') || !json_is_integer(repeat))
        return status_fail(STATUS_DATA, "'%s/plan.json' is not the plan of a study", dir);
    TRY(path_format(path, sizeof path, "%s/cells/%s/r%" JSON_INTEGER_FORMAT, dir, cell,
                    json_integer_value(repeat)));
    return text_new(out, "%s", path);
}

enum status watch_plan_load(const char *dir, struct watch_plan *s)
{
    enum status st = STATUS_OK;
    char path[4096];
    *s = (struct watch_plan){.current = -1};
    TRY(path_format(path, sizeof path, "%s/plan.json", dir));
    json_t *plan;
    TRY(json_read(path, PLAN_MAX_BYTES, &plan));
    const json_t *runs = json_object_get(plan, "runs");
    if (!json_is_array(runs) || json_array_size(runs) > RUNS_MAX) {
        st = status_fail(STATUS_DATA, "'%s' is not the plan of a study", path);
        goto done;
    }
    CHECK(array_new(&s->run, json_array_size(runs)));
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

/* Gets the time at which a file of the run was last modified, in seconds since 1970; -1: there is
 * no such file. */
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
    json_t *summary = NULL;
    enum status st = json_read(path, DOCUMENT_MAX_BYTES, &summary);
    double seconds = json_number_at(summary, "elapsed");
    json_decref(summary);
    return st == STATUS_OK && seconds > 0 ? seconds : 0;
}

/* Finds the state of a run, and the time of its last record. */
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
    json_t *why;
    enum status st = json_read(path, DOCUMENT_MAX_BYTES, &why);
    const char *reason = json_text_at(why, "reason");
    text_clean(out, (size_t)size,
               st == STATUS_OK && *reason ? reason : "the reason cannot be read");
    json_decref(why);
}
