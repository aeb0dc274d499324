/* Shows a run, or a study and its current run. Of a study, reads in its folder:
 *
 *   plan.json              {"runs": [{"cell": name, "repeat": k, ...}, ...]} in order of execution
 *   cells/<cell>/r<k>/     the folder of a run; the run is complete if it has summary.json
 *   cells/<cell>/r<k>.failed  {"reason": text}: why it failed */
#include "watch/watch.h"

#include "base/array.h"
#include "base/bar.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/json.h"
#include "base/text.h"
#include "base/text_new.h"
#include "results/follow.h"
#include "results/outcome.h"
#include "watch/view.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Maximum number of failed runs of a study that are listed. */
enum { FAILED_SHOWN = 3 };

enum planned_state { PLANNED_LEFT, PLANNED_RUNNING, PLANNED_DONE, PLANNED_FAILED, PLANNED_STATES };

struct planned_run {
    char *dir; /* of the run */
    enum planned_state state;
};

struct watch_plan {
    int64_t n;
    struct planned_run *run;       /* (n) in the plan's order */
    int64_t count[PLANNED_STATES]; /* of the runs */
    int64_t current;               /* index of the run in progress whose files were written last;
                                    * -1: none */
    double done_s;                 /* seconds that all complete runs took together */
};

struct watch {
    char dir[4096];
    bool is_study;
    struct watch_plan plan;
    struct follow *follow; /* follows the run, or the current run of the study; NULL: none */
    int64_t followed;      /* index, in the study, of the run that is followed */
};

/* Limits that are large enough for plans of thousands of runs, each with its command. */
enum { PLAN_MAX_BYTES = 64 << 20, DOCUMENT_MAX_BYTES = 16 << 20, RUNS_MAX = 1000000 };

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

static void plan_free(struct watch_plan *s)
{
    for (int64_t i = 0; i < s->n; i++)
        free(s->run[i].dir);
    free(s->run);
    *s = (struct watch_plan){0};
}

/* Reads the plan; the caller frees it with plan_free. */
static enum status plan_load(const char *dir, struct watch_plan *s)
{
    enum status st = STATUS_OK;
    char path[4096];
    *s = (struct watch_plan){.current = -1};
    TRY(path_format(path, sizeof path, "%s/plan.json", dir));
    json_t *plan;
    TRY(json_read(path, PLAN_MAX_BYTES, &plan));
    const json_t *runs = json_object_get(plan, "runs");
    if (!json_is_array(runs) || json_array_size(runs) > RUNS_MAX)
        CHECK(status_fail(STATUS_DATA, "'%s' is not the plan of a study", path));
    CHECK(array_new(&s->run, json_array_size(runs)));
    for (; s->n < (int64_t)json_array_size(runs); s->n++)
        CHECK(run_dir(dir, json_array_get(runs, (size_t)s->n), &s->run[s->n].dir));
done:
    json_decref(plan);
    if (st != STATUS_OK)
        plan_free(s);
    return st;
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

/* Updates the state of the runs. */
static enum status plan_look(struct watch_plan *s)
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

/* The reason of a failed run, as one cleaned line. */
static void plan_reason(const struct planned_run *r, char *out, int size)
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

enum status watch_open(const char *dir, struct watch **out)
{
    enum status st;
    bool over;
    struct watch *w;
    TRY(array_new(&w, 1));
    CHECK(path_format(w->dir, sizeof w->dir, "%s", dir));
    w->is_study = dir_has(dir, "plan.json");
    if (w->is_study)
        CHECK(plan_load(dir, &w->plan));
    CHECK(watch_poll(w, &over));
    *out = w;
    return STATUS_OK;
done:
    watch_close(w);
    return st;
}

void watch_close(struct watch *w)
{
    if (!w)
        return;
    plan_free(&w->plan);
    follow_close(w->follow);
    free(w);
}

/* Polls the current run of a study. It is not a failure if the run has no files yet, or if they
 * were removed for a new attempt. */
static void poll_current(struct watch *w)
{
    const struct watch_plan *s = &w->plan;
    if (w->follow && w->followed != s->current) {
        follow_close(w->follow);
        w->follow = NULL;
    }
    if (s->current < 0)
        return;
    enum status st =
        w->follow ? follow_poll(w->follow) : follow_open(s->run[s->current].dir, &w->follow);
    w->followed = s->current;
    if (st != STATUS_OK) {
        follow_close(w->follow);
        w->follow = NULL;
    }
}

enum status watch_poll(struct watch *w, bool *over)
{
    if (w->is_study) {
        TRY(plan_look(&w->plan));
        poll_current(w);
        *over = w->plan.count[PLANNED_LEFT] + w->plan.count[PLANNED_RUNNING] == 0;
        return STATUS_OK;
    }
    if (w->follow)
        TRY(follow_poll(w->follow));
    else
        TRY(follow_open(w->dir, &w->follow));
    *over = view_is_over(follow_run(w->follow));
    return STATUS_OK;
}

/* "nd-fp32-resnet8-1x64/r2" */
static void run_name(char out[256], const struct planned_run *r)
{
    const char *cell = strstr(r->dir, "/cells/");
    for (const char *next = cell; next; next = strstr(next + 1, "/cells/"))
        cell = next;
    text_clean(out, 256, cell ? cell + strlen("/cells/") : r->dir);
}

static void put_failed(FILE *out, const struct watch_plan *s, const struct view_options *o)
{
    int shown = 0;
    for (int64_t i = 0; i < s->n && shown < FAILED_SHOWN; i++) {
        char name[256], why[256];
        if (s->run[i].state != PLANNED_FAILED)
            continue;
        run_name(name, &s->run[i]);
        plan_reason(&s->run[i], why, sizeof why);
        draw_line(out, o, "failed    %s: %s", name, why);
        shown++;
    }
    if (s->count[PLANNED_FAILED] > shown)
        draw_line(out, o, "          and %" PRId64 " more", s->count[PLANNED_FAILED] - shown);
}

static void put_study(FILE *out, const struct watch *w, const struct view_options *o)
{
    char bar[DRAW_MAX], left[BAR_TIME_SIZE], name[256];
    const struct watch_plan *s = &w->plan;
    int64_t done = s->count[PLANNED_DONE],
            ahead = s->count[PLANNED_LEFT] + s->count[PLANNED_RUNNING];
    /* A study trains one run at a time. Other runs without a summary were interrupted. */
    enum run_state state = w->follow ? outcome_state(follow_run(w->follow)) : RUN_GONE;
    bool running = state == RUN_ALIVE || state == RUN_UNKNOWN;
    bar_text(bar, s->n ? (double)(s->n - ahead) / (double)s->n : 1, 24);
    bar_time(done ? s->done_s / (double)done * (double)ahead : NAN, left);
    draw_line(out, o, "study     %s %" PRId64 " runs, %s left", bar, s->n, ahead ? left : "0:00");
    draw_line(out, o,
              "          %" PRId64 " done, %d running, %" PRId64 " failed, %" PRId64 " to come",
              done, running, s->count[PLANNED_FAILED], ahead - running);
    put_failed(out, s, o);
    if (!w->follow)
        return;
    run_name(name, &s->run[w->followed]);
    draw_line(out, o, "now       %s", name);
    draw_line(out, o, "%s", "");
}

/* Writes the first `height` lines of a text. */
static void put_top(FILE *out, const char *text, int height)
{
    for (int lines = 0; *text && lines < height; lines++) {
        size_t size = strcspn(text, "\n") + 1;
        fwrite(text, 1, size, out);
        text += size;
    }
}

enum status watch_view(const struct watch *w, const struct watch_options *o, FILE *out)
{
    struct view_options view = {.width = o->width > VIEW_MIN_WIDTH ? o->width : VIEW_MIN_WIDTH,
                                .ascii = o->ascii,
                                .quiet_s = w->follow ? follow_quiet(w->follow) : 0};
    enum status st = STATUS_OK;
    struct text_stream lines;
    TRY(text_stream_open(&lines));
    if (w->is_study)
        put_study(lines.out, w, &view);
    if (w->follow)
        st = view_run(lines.out, follow_run(w->follow), &view);
    TRY(text_stream_close(&lines));
    if (st == STATUS_OK)
        put_top(out, lines.text, o->height > 0 ? o->height : INT32_MAX);
    free(lines.text);
    return st;
}
