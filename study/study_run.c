/* Runs the missing runs of a study. */
#include "study/study_run.h"

#include "base/array.h"
#include "base/file.h"
#include "base/stop.h"
#include "study/study_progress.h"
#include "study/study_ready.h"

#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

enum { GRACE_SECONDS = 40 }; /* longer than the grace period that `launch` gives its ranks */

/* The state of study_run_missing. */
struct work {
    const struct study_store *store;
    const struct study_options *options;
    struct process_signals signals;
    struct study_progress progress;
    bool dry_run;              /* nothing in the folder is changed */
    bool *wanted;              /* (n_runs) whether this call executes the run */
    bool made[STUDY_MAX_LIST]; /* whether the data set is complete */
};

enum status study_count_left(const struct study_store *store, const struct study_options *options,
                             struct study_left *left)
{
    *left = (struct study_left){0};
    for (int64_t i = 0; i < store->plan->n_runs; i++) {
        const struct study_run *run = &store->plan->run[i];
        enum study_state state;
        char why[PROCESS_MESSAGE_SIZE];
        TRY(study_store_state(store, run, &state, why));
        bool selected = study_run_matches(store->plan, run, options->only);
        left->failed += selected && state == STUDY_FAILED;
        left->pending += selected && state == STUDY_PENDING;
        left->others += !selected && state != STUDY_COMPLETE;
    }
    return STATUS_OK;
}

static enum status is_wanted(const struct work *w, const struct study_run *run, bool *wanted)
{
    enum study_state state;
    char why[PROCESS_MESSAGE_SIZE];
    TRY(study_store_state(w->store, run, &state, why));
    /* If an earlier call was killed, a complete run may still have its checkpoint.
     * study_store_complete removes it. */
    if (state == STUDY_COMPLETE && !w->dry_run)
        TRY(study_store_complete(w->store, run));
    *wanted = (state == STUDY_PENDING || (state == STUDY_FAILED && w->options->retry)) &&
              study_run_matches(w->store->plan, run, w->options->only);
    return STATUS_OK;
}

static enum status choose(struct work *w)
{
    const struct study_plan *plan = w->store->plan;
    TRY(array_new(&w->wanted, plan->n_runs));
    for (int64_t i = 0; i < plan->n_runs; i++)
        TRY(is_wanted(w, &plan->run[i], &w->wanted[i]));
    return study_progress_begin(&w->progress, w->store, w->wanted, w->options->progress);
}

/* Returns the message for a command whose log has no message, with the likely reason. */
static const char *silence(const char *log)
{
    struct statvfs disk;
    bool full = statvfs(log, &disk) == 0 && disk.f_bavail == 0;
    return full ? "no message: no space is left for its log" : "no message";
}

/* Runs a command. If it exceeds its time limit, or its log has no message, sets end->message. */
static enum status run_command(struct work *w, char *const *argv, const char *log, int64_t limit_s,
                               struct process_end *end)
{
    struct process_config child = {.argv = argv,
                                   .log = log,
                                   .signals = &w->signals,
                                   .limit_s = limit_s,
                                   .grace_s = GRACE_SECONDS};
    TRY(process_run(&child, end));
    if (end->received)
        return status_fail(STATUS_INTERRUPTED,
                           "interrupted by %s; the same command continues the study",
                           stop_signal_str(end->received));
    if (end->late)
        snprintf(end->message, sizeof end->message, "not done within the limit of %lld s",
                 (long long)limit_s);
    else if (!*end->message)
        snprintf(end->message, sizeof end->message, "exit code %d %s", end->code, silence(log));
    return STATUS_OK;
}

/* Runs the command that generates a data set, once per call. If the data set is complete, the
 * command only checks it. */
static enum status make_data(struct work *w, const struct study_data *data)
{
    char log[STUDY_PATH_SIZE], made_in[STUDY_PATH_SIZE];
    bool *made = &w->made[data - w->store->plan->spec->data];
    struct words command = {0};
    struct process_end end;
    enum status st = STATUS_OK;
    if (!data->generated || *made)
        return STATUS_OK;
    CHECK(path_format(log, sizeof log, "%s/data", w->store->dir));
    CHECK(dir_make(log));
    CHECK(path_format(log, sizeof log, "%s/data/%s.log", w->store->dir, data->name));
    CHECK(study_data_command(data, w->options->program, w->store->dir, &command));
    study_progress_data(&w->progress, data->name);
    CHECK(run_command(w, command.v, log, 0, &end));
    if (end.code != 0) {
        st = status_fail(STATUS_DATA, "cannot make data '%s': %s", data->name, end.message);
        goto done;
    }
    CHECK(path_format(made_in, sizeof made_in, "%s/data/%s", w->store->dir, data->name));
    /* removes files of killed commands; the study's lock makes this safe */
    atomic_file_sweep(made_in);
    *made = true;
done:
    words_free(&command);
    return st;
}

/* Runs one attempt. Sets *done if the run is complete now. */
static enum status attempt(struct work *w, const struct study_run *run, bool *done,
                           struct process_end *end)
{
    char log[STUDY_PATH_SIZE], why[PROCESS_MESSAGE_SIZE];
    struct words command = {0};
    enum study_state state;
    enum status st;
    bool resume;
    CHECK(study_store_prepare(w->store, run, &resume));
    CHECK(study_run_path(w->store->plan, run, w->store->dir, ".log", log));
    CHECK(study_run_command(w->store->plan, run, w->options->program, w->store->dir, resume,
                            &command));
    CHECK(run_command(w, command.v, log, w->store->plan->spec->limit_s, end));
    CHECK(study_store_state(w->store, run, &state, why));
    *done = state == STUDY_COMPLETE;
done:
    words_free(&command);
    return st;
}

static enum status run_one(struct work *w, const struct study_run *run)
{
    struct process_end end;
    bool done = false;
    TRY(make_data(w, w->store->plan->cell[run->cell].data));
    study_progress_start(&w->progress, run);
    TRY(attempt(w, run, &done, &end));
    if (!done && w->options->retry)
        TRY(attempt(w, run, &done, &end));
    study_progress_end(&w->progress, run, &end, done);
    return done ? study_store_complete(w->store, run) : study_store_failed(w->store, run, &end);
}

enum status study_run_missing(const struct study_store *store, const struct study_options *options)
{
    struct work w = {.store = store, .options = options, .signals = {.fd = -1}};
    enum status st;
    CHECK(process_signals_open(&w.signals));
    CHECK(choose(&w));
    CHECK(study_ready_check(store->plan, w.wanted, options->program, &w.signals));
    study_ready_warn(store->plan, w.wanted, stderr);
    for (int64_t i = 0; i < store->plan->n_runs; i++) {
        if (!w.wanted[i])
            continue;
        CHECK(run_one(&w, &store->plan->run[i]));
        if (process_signals_received(&w.signals)) {
            st = status_fail(STATUS_INTERRUPTED,
                             "interrupted; the same command continues the study");
            goto done;
        }
    }
done:
    study_progress_free(&w.progress);
    process_signals_close(&w.signals);
    free(w.wanted);
    return st;
}

enum status study_dry_run(const struct study_store *store, const struct study_options *options,
                          FILE *out)
{
    struct work w = {.store = store, .options = options, .dry_run = true};
    enum status st;
    CHECK(choose(&w));
    CHECK(study_plan_print(store->plan, store->dir, w.wanted, out));
    study_ready_warn(store->plan, w.wanted, stderr);
    study_progress_forecast(&w.progress, out);
done:
    study_progress_free(&w.progress);
    free(w.wanted);
    return st;
}
