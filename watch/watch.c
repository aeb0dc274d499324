/* Shows a run, or a study and its current run. */
#include "watch/watch.h"

#include "base/array.h"
#include "base/bar.h"
#include "base/file.h"
#include "base/text.h"
#include "base/text_new.h"
#include "results/follow.h"
#include "results/outcome.h"
#include "watch/draw.h"
#include "watch/plan.h"
#include "watch/view.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Maximum number of failed runs of a study that are listed. */
enum { FAILED_SHOWN = 3 };

struct watch {
    char dir[4096];
    bool is_study;
    struct watch_plan plan;
    struct follow *follow; /* follows the run, or the current run of the study; NULL: none */
    int64_t followed;      /* index, in the study, of the run that is followed */
};

enum status watch_open(const char *dir, struct watch **out)
{
    enum status st;
    bool over;
    struct watch *w;
    TRY(array_new(&w, 1));
    CHECK(path_format(w->dir, sizeof w->dir, "%s", dir));
    w->is_study = watch_plan_is_there(dir);
    if (w->is_study)
        CHECK(watch_plan_load(dir, &w->plan));
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
    watch_plan_free(&w->plan);
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
        TRY(watch_plan_look(&w->plan));
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
        watch_plan_reason(&s->run[i], why, sizeof why);
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
