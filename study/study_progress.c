/* Prints the progress of a study. */
#include "study/study_progress.h"

#include "base/array.h"
#include "base/bar.h"
#include "base/digits.h"
#include "base/file.h"
#include "base/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

enum { SUMMARY_MAX_BYTES = 16 << 20 };

/* Counts a run of an earlier call, if its record has its duration. */
static enum status count_earlier(struct study_progress *p, const struct study_store *store,
                                 const struct study_run *run)
{
    char path[STUDY_PATH_SIZE];
    json_t *summary = NULL;
    bool exists;
    TRY(study_run_path(store->plan, run, store->dir, "/summary.json", path));
    TRY(path_look(path, &exists));
    if (!exists)
        return STATUS_OK;
    enum status st = json_read(path, SUMMARY_MAX_BYTES, &summary);
    double seconds = json_number_at(summary, "elapsed");
    json_decref(summary);
    if (st == STATUS_OK && seconds > 0) {
        p->seconds[run->cell] += seconds;
        p->runs[run->cell]++;
    }
    return st == STATUS_DATA ? STATUS_OK : st;
}

enum status study_progress_begin(struct study_progress *p, const struct study_store *store,
                                 const bool *wanted, FILE *out)
{
    const struct study_plan *plan = store->plan;
    *p = (struct study_progress){.plan = plan, .out = out, .terminal = out && bar_redraws(out)};
    TRY(array_new(&p->seconds, plan->n_cells));
    TRY(array_new(&p->runs, plan->n_cells));
    TRY(array_new(&p->left, plan->n_cells));
    for (int64_t i = 0; i < plan->n_runs; i++) {
        p->total += wanted[i];
        p->left[plan->run[i].cell] += wanted[i];
        if (!wanted[i])
            TRY(count_earlier(p, store, &plan->run[i]));
    }
    return STATUS_OK;
}

void study_progress_free(struct study_progress *p)
{
    if (p->terminal)
        fputs("\r\033[K", p->out);
    free(p->seconds);
    free(p->runs);
    free(p->left);
    *p = (struct study_progress){0};
}

/* Estimated seconds until all runs are done. The estimate of a run is the mean over the finished
 * runs of its cell or, if there are none, over all finished runs. NAN while no run has finished. */
static double study_progress_left(const struct study_progress *p)
{
    double seconds = 0, sum = 0;
    int64_t n = 0;
    for (int64_t c = 0; c < p->plan->n_cells; c++) {
        sum += p->seconds[c];
        n += p->runs[c];
    }
    if (n == 0)
        return NAN;
    for (int64_t c = 0; c < p->plan->n_cells; c++)
        seconds += (double)p->left[c] *
                   (p->runs[c] ? p->seconds[c] / (double)p->runs[c] : sum / (double)n);
    return seconds;
}

enum { LEFT_SIZE = DIGITS_SIZE + 8 };

/* Writes ", 3 min left", or "" while the time is not known. */
static void say_left(const struct study_progress *p, char out[LEFT_SIZE])
{
    char time[DIGITS_SIZE];
    double s = study_progress_left(p);
    digits_duration(time, s, 100);
    snprintf(out, LEFT_SIZE, "%s%s%s", isfinite(s) ? ", " : "", isfinite(s) ? time : "",
             isfinite(s) ? " left" : "");
}

void study_progress_forecast(const struct study_progress *p, FILE *out)
{
    char time[DIGITS_SIZE];
    int64_t cells = 0;
    double seconds = study_progress_left(p);
    for (int64_t c = 0; c < p->plan->n_cells; c++)
        cells += p->left[c] > 0;
    digits_duration(time, seconds, 100);
    fprintf(out, "# runs: %" PRId64 ", cells: %" PRId64 ", estimated time: %s\n", p->total, cells,
            isfinite(seconds) ? time : "unknown until runs are complete");
}

void study_say(FILE *out, bool terminal, bool stays, const char *text)
{
    if (!out || (!stays && !terminal))
        return;
    /* A line that is redrawn must not wrap: the escape sequence "?7l" makes the terminal cut it. */
    if (terminal)
        fprintf(out, "\r\033[K%s%s\033[?7h", stays ? "" : "\033[?7l", text);
    else
        fputs(text, out);
    fputs(stays ? "\n" : "", out);
    fflush(out);
}

void study_progress_data(struct study_progress *p, const char *name)
{
    char text[256];
    snprintf(text, sizeof text, "making data '%s'", name);
    study_say(p->out, p->terminal, false, text);
}

void study_progress_again(struct study_progress *p, const struct study_run *run)
{
    p->total++;
    p->left[run->cell]++;
    study_say(p->out, p->terminal, true, "a run was disturbed by other work; measuring it again");
}

void study_progress_start(struct study_progress *p, const struct study_run *run)
{
    char text[512], left[LEFT_SIZE];
    say_left(p, left);
    snprintf(text, sizeof text, "[%" PRId64 "/%" PRId64 "%s] running %s r%d", p->done, p->total,
             left, p->plan->cell[run->cell].name, run->repeat);
    study_say(p->out, p->terminal, false, text);
}

void study_progress_end(struct study_progress *p, const struct study_run *run,
                        const struct process_end *end, bool done)
{
    char text[1024], left[LEFT_SIZE];
    p->done++;
    p->left[run->cell]--;
    p->runs[run->cell]++;
    p->seconds[run->cell] += end->seconds;
    say_left(p, left);
    snprintf(text, sizeof text, "[%" PRId64 "/%" PRId64 "%s] %s r%d: %.1f s%s%s", p->done, p->total,
             left, p->plan->cell[run->cell].name, run->repeat, end->seconds,
             done ? "" : ", FAILED: ", done ? "" : end->message);
    study_say(p->out, p->terminal, true, text);
}
