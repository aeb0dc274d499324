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
#include "base/stats.h"
#include "base/text.h"
#include "base/text_new.h"
#include "results/follow.h"
#include "results/outcome.h"
#include "results/ranks.h"
#include "results/run.h"
#include "results/sensors.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* --- a run as lines of text: throughput, the parts of a step, loss and accuracy, time left --- */

struct view_options {
    int width;      /* maximum number of columns of a line; at least VIEW_MIN_WIDTH */
    bool ascii;     /* use only ASCII characters, except in names */
    double quiet_s; /* seconds since the last record */
};

enum { VIEW_MIN_WIDTH = 40 };

/* Size in bytes of a buffer for the text of a line. */
enum { DRAW_MAX = 1024 };

/* The view shows means and medians over this many recent steps, because single steps vary too much;
 * not over warm-up. Of a complete run, the summary has those of all steps. */
enum { RECENT_STEPS = 50 };

/* Maximum numbers of ranks and devices that are shown: the slowest ranks, and the last devices of
 * the sample. */
enum { RANKS_SHOWN = 8, DEVICES_SHOWN = 8 };

/* A run is reported as quiet if its last record is older than all of these times: QUIET_S;
 * QUIET_STEPS times the run's slowest recent step; twice the duration of its last validation and
 * checkpoint. During validation and checkpoint, a run writes no step records. */
#define QUIET_S     10.0
#define QUIET_STEPS 5.0

/* No run has so many steps; a larger number of steps in a record is ignored. */
#define STEPS_MAX INT64_C(1000000000000000)

/* The data from which the view is computed. */
struct sight {
    const struct run *run;
    const struct step_record *last_step;   /* NULL: none */
    const struct epoch_record *last_epoch; /* NULL: none */
    struct stats rate, time;               /* statistics of the recent steps; n is 0 if there are
                                            * none; rate.mean is images over time */
    double *rates;                         /* (run->n_steps) */
    int64_t recent;                        /* index of the first recent step */
    int64_t epoch_steps;                   /* number of steps of an epoch; 0: unknown */
    int64_t done;                          /* steps since the run began */
};

/* Writes a line with a newline. A line that is too wide is cut after a space, so that no number
 * loses digits, and ends with an ellipsis. Text of unknown origin must have been cleaned
 * (base/text.h). */
static void draw_line(FILE *out, const struct view_options *o, const char *fmt, ...)
{
    char text[2 * DRAW_MAX];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    for (size_t n = strlen(text); n > 0 && text[n - 1] == ' ';)
        text[--n] = '\0';
    const char *mark = o->ascii ? "..." : "…";
    int columns = 0, most = o->width - (o->ascii ? 3 : 1);
    size_t end = 0, cut = 0; /* number of bytes; `cut`: of the words that fit beside the mark */
    for (; text[end]; end++) {
        columns += ((unsigned char)text[end] & 0xc0) != 0x80;
        bool word = text[end] == ' ' || cut == 0 || text[cut - 1] != ' ';
        cut = columns <= most && word ? end + 1 : cut;
    }
    bool whole = columns <= o->width;
    fprintf(out, "%.*s%s\n", (int)(whole ? end : cut), text, whole ? "" : mark);
}

/* Writes text as draw_line does, but over as many lines as it needs; lines break at spaces. */
static void draw_lines(FILE *out, const struct view_options *o, const char *text)
{
    size_t width = (size_t)o->width;
    while (strlen(text) > width) {
        size_t n = width;
        while (n > 0 && text[n] != ' ')
            n--;
        if (n == 0)
            break;
        draw_line(out, o, "%.*s", (int)n, text);
        text += n + 1;
    }
    draw_line(out, o, "%s", text);
}

/* Draws n values in order, with a block for each; a higher value has a taller block. If n is above
 * `columns`, neighbours are averaged. Values that are not finite are ignored. */
static void draw_spark(char out[DRAW_MAX], const double *x, int64_t n, int columns, bool ascii)
{
    enum { LEVELS = 8, COLUMNS_MAX = 256 };
    static const char *const blocks[LEVELS] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const char *const plain[LEVELS] = {"_", ".", ":", "-", "=", "+", "*", "#"};
    double column[COLUMNS_MAX], low = INFINITY, high = -INFINITY;
    columns = columns < COLUMNS_MAX ? columns : COLUMNS_MAX;
    int shown = n < columns ? (int)n : columns;
    for (int i = 0; i < shown; i++) {
        int64_t begin = n * i / shown, end = n * (i + 1) / shown;
        column[i] = stats_mean_finite(x + begin, end - begin);
        low = fmin(low, column[i]);
        high = fmax(high, column[i]);
    }
    out[0] = '\0';
    for (int i = 0; i < shown; i++) {
        int level =
            high > low ? (int)((column[i] - low) / (high - low) * (LEVELS - 1) + 0.5) : LEVELS / 2;
        const char *mark = !isfinite(column[i]) ? " " : ascii ? plain[level] : blocks[level];
        text_append(out, DRAW_MAX, "%s", mark);
    }
}

/* Number of steps of an epoch, from the run's configuration. If the configuration lacks it, the
 * number of steps of the last epoch. */
static int64_t epoch_steps(const struct run *run)
{
    int64_t said = run_config_count(run, "epoch_steps", 0);
    if (said > 0 && said < STEPS_MAX)
        return said;
    if (run->n_epochs == 0)
        return 0;
    int64_t before = run->n_epochs > 1 ? run->epoch[run->n_epochs - 2].steps : 0;
    int64_t all = run->epoch[run->n_epochs - 1].steps;
    return all > before ? all - before : 0;
}

static enum status sight_take(struct sight *s, const struct run *run)
{
    int64_t n = run->n_steps, warm = n > 0 ? run_warmup(run) - run->step[0].step : 0;
    double times[RECENT_STEPS], rates[RECENT_STEPS];
    *s = (struct sight){.run = run, .epoch_steps = epoch_steps(run), .recent = n - RECENT_STEPS};
    s->recent = s->recent > warm ? s->recent : warm > 0 ? warm : 0;
    TRY(array_new(&s->rates, n));
    for (int64_t i = 0; i < n; i++)
        s->rates[i] = (double)run->step[i].images / run->step[i].total_s;
    int64_t kept = 0;
    double images = 0;
    for (int64_t i = s->recent; i < n; i++) {
        if (!isfinite(s->rates[i]))
            continue;
        images += (double)run->step[i].images;
        rates[kept] = s->rates[i];
        times[kept++] = run->step[i].total_s;
    }
    if (kept > 0) {
        TRY(stats_of(rates, kept, &s->rate));
        TRY(stats_of(times, kept, &s->time));
        s->rate.mean = images / (s->time.mean * (double)kept);
    }
    double mean = json_number_at(run->summary, "images_per_s_mean");
    double median = json_number_at(json_object_get(run->summary, "images_per_s"), "median");
    s->rate.mean = isfinite(mean) ? mean : s->rate.mean;
    s->rate.median = isfinite(median) ? median : s->rate.median;
    if (n > 0)
        s->last_step = &run->step[n - 1];
    if (run->n_epochs > 0)
        s->last_epoch = &run->epoch[run->n_epochs - 1];
    s->done = s->last_step ? s->last_step->step + 1 : s->last_epoch ? s->last_epoch->steps : 0;
    return STATUS_OK;
}

static void put_head(FILE *out, const struct sight *s, const struct view_options *o)
{
    const struct run *run = s->run;
    char device[256], settings[256], what[256], many[64];
    text_clean(device, sizeof device, json_text_at(run->info, "device"));
    bool emulated = json_is_true(run_config(run, "emulated"));
    snprintf(settings, sizeof settings, "%s, %s%s, %s", run_config_text(run, "arch", "?"),
             run_config_text(run, "precision", "?"), emulated ? " (emulated)" : "",
             run_config_text(run, "mode", "?"));
    text_clean(what, sizeof what, settings);
    int64_t ranks = run_config_count(run, "world_size", 1);
    snprintf(many, sizeof many, " in each of %" PRId64 " ranks", ranks);
    draw_line(out, o, "%s: %s, batch %" PRId64 "%s", run->name, what,
              run_config_count(run, "batch_size", 0), ranks > 1 ? many : "");
    draw_line(out, o, "%s", device);
}

/* Total number of the run's steps; 0: not known. */
static double run_steps(const struct sight *s)
{
    double limit = (double)run_config_count(s->run, "steps", 0);
    double steps = (double)run_config_count(s->run, "epochs", 0) * (double)s->epoch_steps;
    return limit > 0 && (limit < steps || steps <= 0) ? limit : steps;
}

/* Seconds until the run's end; NAN if they are not known. They are not known if no step is
 * recorded, or if the command that resumed the run gave it more steps than the recorded
 * configuration. */
static double run_left(const struct sight *s)
{
    double steps = run_steps(s), left = steps - (double)s->done;
    if (s->time.n == 0 || steps <= 0 || left < 0)
        return NAN;
    double seconds = left * s->time.median;
    if (!s->last_epoch || s->epoch_steps == 0)
        return seconds;
    double ends =
        floor(steps / (double)s->epoch_steps) - floor((double)s->done / (double)s->epoch_steps);
    return seconds + ends * (s->last_epoch->val_s + s->last_epoch->checkpoint_s);
}

/* Writes "epoch 3/12"; without "/12" if the command that resumed the run gave it more epochs. */
static void epoch_text(char out[96], const struct sight *s, int64_t epoch)
{
    int64_t epochs = run_config_count(s->run, "epochs", 0);
    if (epoch < epochs)
        snprintf(out, 96, "epoch     %" PRId64 "/%" PRId64, epoch + 1, epochs);
    else
        snprintf(out, 96, "epoch     %" PRId64, epoch + 1);
}

static void put_progress(FILE *out, const struct sight *s, const struct view_options *o)
{
    char bar[DRAW_MAX], left[BAR_TIME_SIZE], all[BAR_TIME_SIZE], head[96];
    int64_t finished = s->last_epoch ? s->last_epoch->steps : 0;
    int64_t epoch = s->last_step ? s->last_step->epoch : s->last_epoch ? s->last_epoch->epoch : 0;
    bool over = s->last_epoch && s->last_epoch->epoch >= epoch;
    int64_t in_epoch = over ? s->epoch_steps : s->done - finished;
    epoch_text(head, s, epoch);
    bar_time(run_left(s), all);
    if (run_config_count(s->run, "steps", 0) > 0) {
        double steps = run_steps(s);
        bar_text(bar, (double)s->done / steps, o->width >= 78 ? 24 : 8);
        draw_line(out, o, "step      %" PRId64 "/%.0f %s %3.0f %%, run %s left", s->done, steps,
                  bar, fmin((double)s->done / steps, 1) * 100, all);
        return;
    }
    if (s->epoch_steps == 0) {
        draw_line(out, o, "%s, step %" PRId64 ", run %s left", head, in_epoch, all);
        return;
    }
    double share = (double)in_epoch / (double)s->epoch_steps;
    bar_text(bar, share, o->width >= 78 ? 24 : 8);
    if (s->run->summary) { /* complete, even if its last epoch was cut short */
        draw_line(out, o, "%s %s %3.0f %%", head, bar, fmin(share, 1) * 100);
        return;
    }
    bar_time(s->time.n ? fmax(0, (double)(s->epoch_steps - in_epoch)) * s->time.median : NAN, left);
    draw_line(out, o, "%s %s %3.0f %%, %s left, run %s left", head, bar, fmin(share, 1) * 100, left,
              all);
}

static void put_rate(FILE *out, const struct sight *s, const struct view_options *o)
{
    char spark[DRAW_MAX], head[128];
    if (!s->last_step) {
        draw_line(out, o, "no step yet");
        return;
    }
    snprintf(head, sizeof head, "images/s  mean %.1f, median %.1f  ", s->rate.mean, s->rate.median);
    draw_spark(spark, s->rates, s->run->n_steps, o->width - (int)strlen(head), o->ascii);
    draw_line(out, o, "%s%s", head, spark);
}

/* A part of a step, and its letter in the bar. */
struct part {
    const char *name;
    char letter;
    double seconds; /* sum over the recent steps */
};

enum { PARTS = 7 };

static double parts_of(const struct sight *s, struct part part[PARTS])
{
    const struct run *run = s->run;
    static const struct part none[PARTS] = {
        {"data", 'd', 0}, {"h2d", 'h', 0},       {"forward", 'f', 0}, {"backward", 'b', 0},
        {"comm", 'c', 0}, {"optimizer", 'o', 0}, {"other", '.', 0}};
    double total = 0, known = 0;
    memcpy(part, none, sizeof none);
    for (int64_t i = s->recent; i < run->n_steps; i++) {
        const struct step_record *r = &run->step[i];
        double seconds[PARTS - 1] = {r->data_s,     r->h2d_s,  r->forward_s,
                                     r->backward_s, r->comm_s, r->optimizer_s};
        for (int p = 0; p < PARTS - 1; p++) {
            part[p].seconds += seconds[p];
            known += seconds[p];
        }
        total += r->total_s;
    }
    part[PARTS - 1].seconds = fmax(0, total - known);
    return fmax(total, known);
}

static void put_split(FILE *out, const struct sight *s, const struct view_options *o)
{
    struct part part[PARTS];
    double total = parts_of(s, part), before = 0;
    char bar[DRAW_MAX] = "", names[DRAW_MAX] = "", head[64];
    if (s->time.n == 0 || !(total > 0 && isfinite(total)))
        return;
    snprintf(head, sizeof head, "step      %.1f ms  ", s->time.median * 1000);
    int columns = o->width - (int)strlen(head), at = 0;
    columns = columns < 60 ? columns : 60;
    for (int p = 0; p < PARTS; p++) {
        before += part[p].seconds;
        for (int end = (int)(before / total * columns + 0.5); at < end && at < columns; at++)
            bar[at] = part[p].letter;
        double percent = part[p].seconds / total * 100;
        if (percent >= 0.5)
            text_append(names, sizeof names, "%s %.0f%%  ", part[p].name, percent);
    }
    bar[at] = '\0';
    draw_line(out, o, "%s%s", head, bar);
    draw_line(out, o, "          %s", names);
}

/* Writes the sensors of the last sample, a line for each device. */
static void put_sensors(FILE *out, const struct sight *s, const struct view_options *o)
{
    static const struct {
        const char *format;
        size_t offset;
    } sensor[] = {
        {", %.0f MHz", offsetof(struct telemetry_record, clock_mhz)},
        {", %.0f W", offsetof(struct telemetry_record, power_w)},
        {", %.0f C", offsetof(struct telemetry_record, temperature_c)},
        {", busy %.0f %%", offsetof(struct telemetry_record, busy)},
    };
    const struct run *run = s->run;
    int64_t first = run->n_telemetry;
    while (first > 0 && run->n_telemetry - first < DEVICES_SHOWN &&
           run->telemetry[first - 1].sample == run->telemetry[run->n_telemetry - 1].sample)
        first--;
    for (int64_t i = first; i < run->n_telemetry; i++) {
        const struct telemetry_record *r = &run->telemetry[i];
        char text[DRAW_MAX] = "", throttle[THROTTLE_WORDS_MAX];
        for (size_t k = 0; k < sizeof sensor / sizeof *sensor; k++) {
            double value = *(const double *)((const char *)r + sensor[k].offset);
            if (isfinite(value))
                text_append(text, sizeof text, sensor[k].format, value);
        }
        if (isfinite(r->throttle) && r->throttle > 0) {
            throttle_words((uint32_t)r->throttle, throttle);
            text_append(text, sizeof text, ", slowed by %s", throttle);
        }
        draw_line(out, o, "%s device %" PRId64 "%s", i == first ? "sensors  " : "         ",
                  r->device, text);
    }
}

static void put_learning(FILE *out, const struct sight *s, const struct view_options *o)
{
    const struct step_record *r = s->last_step;
    const struct epoch_record *e = s->last_epoch;
    if (r)
        draw_line(out, o, "train     loss %.4f, top-1 %.2f %%, top-5 %.2f %%, lr %g", r->loss,
                  r->top1, r->top5, r->lr);
    if (e && e->val_images)
        draw_line(out, o,
                  "val       loss %.4f, top-1 %.2f %%, top-5 %.2f %%, epoch %" PRId64
                  ", best %.2f %%",
                  e->val_loss, e->val_top1, e->val_top5, e->epoch + 1, e->best_top1);
    int64_t left_out = run_left_out(s->run);
    if (left_out > 0)
        draw_line(out, o, "skipped   %" PRId64 " image%s that could not be decoded", left_out,
                  left_out == 1 ? "" : "s");
    if (!r || r->loss_scale <= 0)
        return;
    int64_t skipped = e ? e->skipped : 0;
    for (int64_t i = 0; i < s->run->n_steps; i++)
        skipped += s->run->step[i].skipped && (!e || s->run->step[i].step >= e->steps);
    draw_line(out, o, "scale     %g, %" PRId64 " step%s skipped", r->loss_scale, skipped,
              skipped == 1 ? "" : "s");
}

/* Sets order[] to the indices of the ranks, the slowest first. */
static void order_ranks(const struct ranks *r, int64_t *order)
{
    for (int64_t i = 0; i < r->n; i++) {
        int64_t at = i;
        for (; at > 0 && r->rank[order[at - 1]].own_s < r->rank[i].own_s; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
}

static enum status put_ranks(FILE *out, const struct sight *s, const struct view_options *o)
{
    struct ranks r;
    int64_t *order = NULL;
    TRY(ranks_of(s->run, &r));
    enum status st;
    CHECK(array_new(&order, r.n));
    order_ranks(&r, order);
    if (r.n > 0)
        draw_line(out, o, "ranks     %s rank %" PRId64 ", +%.1f %%, mostly %s",
                  r.slow ? "straggler:" : "no straggler: slowest is", r.slowest, r.behind * 100,
                  rank_part_str(r.part));
    if (r.n > 0)
        draw_line(out, o, "          rank   own ms  data  h2d   fwd   bwd   opt  comm  host");
    for (int64_t i = 0; i < r.n && i < RANKS_SHOWN; i++) {
        const struct rank_step *k = &r.rank[order[i]];
        char host[128];
        text_clean(host, sizeof host, k->host);
        draw_line(out, o, "          %4" PRId64 " %8.1f %5.1f %4.1f %5.1f %5.1f %5.1f %5.1f  %s",
                  order[i], k->own_s * 1e3, k->part[RANK_DATA] * 1e3, k->part[RANK_H2D] * 1e3,
                  k->part[RANK_FORWARD] * 1e3, k->part[RANK_BACKWARD] * 1e3,
                  k->part[RANK_OPTIMIZER] * 1e3, k->part[RANK_COMM] * 1e3, host);
    }
    if (r.n > RANKS_SHOWN)
        draw_line(out, o, "          and %" PRId64 " faster ones", r.n - RANKS_SHOWN);
done:
    free(order);
    ranks_free(&r);
    return st;
}

static void put_state(FILE *out, const struct sight *s, const struct view_options *o)
{
    char elapsed[BAR_TIME_SIZE], quiet[BAR_TIME_SIZE], why[STATUS_MESSAGE_MAX + 256];
    const struct run *run = s->run;
    double patience = QUIET_STEPS * (s->time.n ? s->time.max : 0);
    if (s->last_epoch)
        patience = fmax(patience, 2 * (s->last_epoch->val_s + s->last_epoch->checkpoint_s));
    bar_time(run->elapsed, elapsed);
    enum run_state state = outcome_state(run);
    if (run->summary) {
        const char *by = json_string_value(json_object_get(run->summary, "ended_by"));
        text_clean(why, sizeof why, by ? by : "complete");
        draw_line(out, o, "ended: %s, after %" PRId64 " steps in %s", why, s->done, elapsed);
    } else if (state != RUN_UNKNOWN && state != RUN_ALIVE) {
        outcome_sentence(run, state, why, sizeof why);
        draw_line(out, o, "ended after %" PRId64 " steps in %s", s->done, elapsed);
        draw_lines(out, o, why);
    } else if (o->quiet_s > fmax(QUIET_S, patience)) {
        bar_time(o->quiet_s, quiet);
        draw_line(out, o, "no new record for %s: %s", quiet,
                  state == RUN_ALIVE ? "its process still runs, and may hang"
                                     : "the run was killed, or hangs");
    } else {
        draw_line(out, o, "running for %s", elapsed);
    }
}

/* Writes a view of `run`'s records; `run` may have only its latest steps (results/follow.h).
 * STATUS_DATA for times out of range. */
static enum status view_run(FILE *out, const struct run *run, const struct view_options *o)
{
    struct sight s;
    enum status st;
    CHECK(sight_take(&s, run));
    put_head(out, &s, o);
    put_progress(out, &s, o);
    put_rate(out, &s, o);
    put_split(out, &s, o);
    put_learning(out, &s, o);
    put_sensors(out, &s, o);
    CHECK(put_ranks(out, &s, o));
    put_state(out, &s, o);
done:
    free(s.rates);
    return st;
}

/* --- the runs of a study --- */

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
    bool exists;
    TRY(path_format(path, sizeof path, "%s%s", r->dir, suffix));
    TRY(path_stat(path, &s, &exists));
    *out = exists ? (double)s.st_mtim.tv_sec + (double)s.st_mtim.tv_nsec * 1e-9 : -1;
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
    CHECK(dir_look(dir, "plan.json", &w->is_study));
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
    /* not one that ended by a signal, a lost rank or a kill: it may be resumed */
    const struct run *run = follow_run(w->follow);
    enum run_state state = outcome_recorded(run);
    *over = run->summary || state == RUN_DIVERGED || state == RUN_ERROR;
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
