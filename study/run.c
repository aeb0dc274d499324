/* Running what a study still lacks. */
#include "study/run.h"

#include "base/file.h"
#include "study/progress.h"

#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

enum { GRACE_SECONDS = 40 }; /* more than `launch` gives its ranks */

/* A study under way. */
struct work {
    const struct study_store *store;
    const struct study_options *options;
    struct process_signals signals;
    struct study_progress progress;
    bool *wanted;              /* (n_runs) to be run by this call */
    bool made[STUDY_MAX_LIST]; /* data sets that are complete */
};

static enum status is_wanted(const struct work *w, const struct study_run *run, bool *wanted)
{
    enum study_state state;
    char why[PROCESS_MESSAGE_SIZE], name[ANALYSIS_NAME_SIZE + 32];
    const struct study_plan *plan = w->store->plan;
    snprintf(name, sizeof name, "%s/r%d", plan->cell[run->cell].name, run->repeat);
    TRY(study_store_state(w->store, run, &state, why));
    /* A study that was killed may have left a checkpoint behind. */
    if (state == STUDY_COMPLETE)
        TRY(study_store_complete(w->store, run));
    *wanted = (state == STUDY_PENDING || (state == STUDY_FAILED && w->options->retry)) &&
              (!w->options->only || regexec(w->options->only, name, 0, NULL, 0) == 0);
    return STATUS_OK;
}

static enum status choose(struct work *w)
{
    const struct study_plan *plan = w->store->plan;
    w->wanted = calloc((size_t)plan->n_runs, sizeof *w->wanted);
    if (!w->wanted)
        return status_fail(STATUS_OOM, "no memory for the runs of a study");
    for (int64_t i = 0; i < plan->n_runs; i++)
        TRY(is_wanted(w, &plan->run[i], &w->wanted[i]));
    return study_progress_begin(&w->progress, plan, w->wanted, w->options->progress);
}

/* Why a command may have had no word to say: they would have gone to its log. */
static const char *silence(const char *log)
{
    struct statvfs disk;
    bool full = statvfs(log, &disk) == 0 && disk.f_bavail == 0;
    return full ? "without a word: no space is left for its log" : "without a word";
}

/* Runs a command; its message becomes what a person can do something with. */
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
                           "interrupted by %s; the same command runs what is missing",
                           strsignal(end->received));
    if (end->late)
        snprintf(end->message, sizeof end->message, "not done within the limit of %lld s",
                 (long long)limit_s);
    else if (!*end->message)
        snprintf(end->message, sizeof end->message, "exit code %d %s", end->code, silence(log));
    return STATUS_OK;
}

/* Makes the images that a run reads, once in a study; what is complete already is only looked at.
 */
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
    atomic_file_sweep(made_in); /* of those that were killed; the study's lock makes it ours */
    *made = true;
done:
    words_free(&command);
    return st;
}

/* One attempt; *done says whether the run is complete now. */
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
    for (int64_t i = 0; i < store->plan->n_runs; i++) {
        if (!w.wanted[i])
            continue;
        CHECK(run_one(&w, &store->plan->run[i]));
        if (process_signals_received(&w.signals)) {
            st = status_fail(STATUS_INTERRUPTED,
                             "interrupted; the same command runs what is missing");
            goto done;
        }
    }
done:
    study_progress_free(&w.progress);
    process_signals_close(&w.signals);
    free(w.wanted);
    return st;
}
