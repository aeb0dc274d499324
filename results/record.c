/* Writes a run's folder. */
#include "results/record.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/json.h"
#include "base/stop.h"
#include "base/text.h"
#include "results/environment.h"
#include "results/journal.h"
#include "results/outcome.h"
#include "results/run.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LOCK_WAIT_SECONDS = 5 };

/* Longest time from the recording of a step until other processes can read the step. */
#define FLUSH_NS UINT64_C(1000000000)

struct record {
    int lock; /* descriptor of the folder, which is locked */
    char dir[4096];
    struct journal steps, epochs;
    struct journal ranks;     /* open if this or an earlier attempt has several ranks */
    struct journal telemetry; /* open from the first sample on */
    int64_t samples;          /* number of samples so far, over all attempts */
    int64_t n_ranks;          /* number of ranks whose records are written; 0 if there is only one
                               * rank */
    int64_t attempt;          /* number of this attempt, from 0 */
    uint64_t opened_ns, flushed_ns;
    double elapsed_before; /* seconds of earlier attempts */
    int64_t flushes;       /* number of times that steps were written to the operating system */
    const struct record_observer *observer;
    pthread_mutex_t fresh_lock; /* protects n_fresh and `fresh`, which the training and the
                                 * telemetry thread use */
    int n_fresh;                /* rows of the last sample, if not yet passed to the observer; else
                                 * 0 */
    struct telemetry_record fresh[TELEMETRY_DEVICES_MAX];
    bool finished;
};

static double record_elapsed(const struct record *r)
{
    return r->elapsed_before + (double)(clock_ns() - r->opened_ns) * 1e-9;
}

/* Makes the content of run.json. */
static enum status info_json(const struct run_info *info, json_t **out)
{
    char now[ENVIRONMENT_TIME_MAX];
    if (!json_is_object(info->config))
        return status_fail(STATUS_INVALID, "the configuration of a run is not an object");
    if (info->ranks && !schema_is_rank_list(info->ranks))
        return status_fail(STATUS_INVALID, "the ranks of a run are not a list");
    double now_s = environment_time(now);
    json_t *host = environment_describe();
    if (info->hardware)
        json_object_update(host, (json_t *)info->hardware);
    json_t *run = json_new("{s:i}", "schema", RUN_SCHEMA);
    environment_program(run);
    json_put(run, "started", json_utf8(now));
    json_put(run, "started_s", json_finite(now_s));
    json_put(run, "argv", json_array());
    for (int i = 0; i < info->argc; i++)
        json_add(json_object_get(run, "argv"), text_json(info->argv[i]));
    json_put(run, "seed", json_integer((json_int_t)info->seed));
    json_put(run, "config", json_deep_copy(info->config));
    json_put(run, "device", text_json(info->device));
    json_put(run, "libraries", info->libraries ? json_deep_copy(info->libraries) : json_object());
    json_put(run, "host", host);
    json_put(run, "process", outcome_process());
    if (info->ranks)
        json_put(run, "ranks", json_deep_copy(info->ranks));
    if (info->ladder)
        json_put(run, "ladder", json_deep_copy(info->ladder));
    if (info->fusions)
        json_put(run, "fusions", json_deep_copy(info->fusions));
    *out = run;
    return STATUS_OK;
}

static enum status path_in(const struct record *r, const char *file, char path[4096])
{
    return path_format(path, 4096, "%s/%s", r->dir, file);
}

/* Passes the last sample to the observer, on the training thread. */
static void observe_telemetry(struct record *r)
{
    struct telemetry_record row[TELEMETRY_DEVICES_MAX];
    if (!r->observer || !r->observer->telemetry)
        return;
    pthread_mutex_lock(&r->fresh_lock);
    int n = r->n_fresh;
    memcpy(row, r->fresh, (size_t)n * sizeof *row);
    r->n_fresh = 0;
    pthread_mutex_unlock(&r->fresh_lock);
    if (n > 0)
        r->observer->telemetry(r->observer->state, row, n);
}

enum status record_lock(const char *dir, int *lock)
{
    *lock = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*lock < 0)
        return status_fail(STATUS_IO, "cannot open '%s': %s", dir, strerror(errno));
    /* Waits, because ranks of a job that has just failed may own the lock until they exit. If the
     * file system has no locks, the run starts without a lock, because two writers are rare. */
    if (fd_lock(*lock, LOCK_WAIT_SECONDS) == 0 || errno != EWOULDBLOCK)
        return STATUS_OK;
    fd_close(lock);
    TRY(stop_check());
    return status_fail(STATUS_USAGE,
                       "'%s' is in use: another process writes its run there; wait until it has "
                       "ended, or name another folder by --out",
                       dir);
}

/* Creates the folder if it is missing, and locks it until the record is closed or the process
 * ends. */
static enum status record_open(const char *dir, const struct run_info *info, struct record **out)
{
    enum status st;
    struct record *r;
    TRY(array_new(&r, 1));
    r->lock = -1;
    pthread_mutex_init(&r->fresh_lock, NULL);
    r->n_ranks = (int64_t)json_array_size(info->ranks);
    CHECK(path_format(r->dir, sizeof r->dir, "%s", dir));
    CHECK(dir_make(dir));
    r->lock = info->lock;
    CHECK(r->lock > 0 ? STATUS_OK : record_lock(dir, &r->lock));
    r->opened_ns = r->flushed_ns = clock_ns();
    *out = r;
    return STATUS_OK;
done:
    fd_close(&r->lock);
    pthread_mutex_destroy(&r->fresh_lock);
    free(r);
    return st;
}

static enum status journals_open(struct record *r)
{
    char path[4096];
    bool ranks = r->n_ranks > 0;
    TRY(path_in(r, "steps.jsonl", path));
    TRY(journal_open(&r->steps, path));
    TRY(path_in(r, "epochs.jsonl", path));
    TRY(journal_open(&r->epochs, path));
    TRY(path_in(r, "ranks.jsonl", path));
    if (!ranks)
        TRY(path_look(path, &ranks));
    return ranks ? journal_open(&r->ranks, path) : STATUS_OK;
}

static enum status look_for_run(const struct record *r, bool *found)
{
    static const char *const files[] = {"run.json",    "steps.jsonl",     "epochs.jsonl",
                                        "ranks.jsonl", "telemetry.jsonl", "summary.json"};
    char path[4096];
    *found = false;
    for (size_t i = 0; i < sizeof files / sizeof *files && !*found; i++) {
        TRY(path_in(r, files[i], path));
        TRY(path_look(path, found));
    }
    return STATUS_OK;
}

static enum status write_info(const struct record *r, const struct run_info *info)
{
    json_t *run;
    TRY(info_json(info, &run));
    return json_write(run, JSON_INDENT(2), "%s/run.json", r->dir);
}

/* Writes the lines that mark the beginning of this attempt. */
static enum status resume_event(struct record *r, const struct run_info *info, int64_t step,
                                int64_t epoch)
{
    char line[128];
    json_t *event;
    TRY(info_json(info, &event));
    enum status st;
    json_put(event, "event", json_string("resume"));
    json_put(event, "step", json_integer(step));
    json_put(event, "epoch", json_integer(epoch));
    json_put(event, "elapsed", json_finite(r->elapsed_before));
    CHECK(journal_write_json(&r->steps, json_incref(event), JSON_COMPACT));
    int size = snprintf(line, sizeof line,
                        "{\"event\":\"resume\",\"step\":%" PRId64 ",\"epoch\":%" PRId64 "}\n", step,
                        epoch);
    CHECK(journal_write(&r->epochs, line, (size_t)size));
    if (r->ranks.stream)
        CHECK(journal_write(&r->ranks, line, (size_t)size));
    CHECK(record_sync(r));
done:
    json_decref(event);
    return st;
}

/* Continues the run in a folder that is open and locked. */
static enum status record_continue(struct record *r, const struct run_info *info, int64_t step,
                                   int64_t epoch)
{
    struct run *run;
    char file[64], lost[64];
    TRY(run_load(r->dir, &run));
    bool strayed = run->strayed;
    r->elapsed_before = run->elapsed;
    r->attempt = run->resumes + 1;
    if (run->n_telemetry)
        r->samples = run->telemetry[run->n_telemetry - 1].sample + 1;
    if (!run_has_rows(run, step, epoch))
        text_print(stderr, "ampscale: warning: the record in '%s' lacks rows before the checkpoint",
                   r->dir);
    run_free(run);
    if (step == 0) /* nothing of the earlier attempt is kept */
        TRY(write_info(r, info));
    snprintf(lost, sizeof lost, "ranks-%" PRId64 ".jsonl", step);
    for (int n = 2; strayed && faccessat(r->lock, lost, F_OK, AT_SYMLINK_NOFOLLOW) == 0; n++)
        snprintf(lost, sizeof lost, "ranks-%" PRId64 "-%d.jsonl", step, n);
    if (strayed && (errno != ENOENT || renameat(r->lock, "ranks.jsonl", r->lock, lost) != 0))
        return status_fail(STATUS_IO, "cannot rename '%s/ranks.jsonl': %s", r->dir,
                           strerror(errno));
    TRY(journals_open(r));
    (void)!unlinkat(r->lock, "outcome.json", 0); /* of the earlier attempt */
    snprintf(file, sizeof file, "summary-%" PRId64 ".json", step);
    if (renameat(r->lock, "summary.json", r->lock, file) != 0 && errno != ENOENT)
        return status_fail(STATUS_IO, "cannot rename '%s/summary.json': %s", r->dir,
                           strerror(errno));
    return resume_event(r, info, step, epoch);
}

static enum status record_start(const char *dir, const struct run_info *info, bool resume,
                                int64_t step, int64_t epoch, struct record **record)
{
    struct record *r = NULL;
    enum status st, ignored;
    bool found, taken = false;
    TRY(record_open(dir, info, &r));
    CHECK(look_for_run(r, &found));
    if (!found) /* --resume auto would take a checkpoint for this run's */
        CHECK(dir_look(dir, CHECKPOINT_NAME, &taken));
    if (!found && !taken)
        CHECK(dir_look(dir, CHECKPOINT_PREV_NAME, &taken));
    if ((found || taken) && !resume)
        CHECK(status_fail(STATUS_USAGE,
                          "'%s' already holds a run; name another folder by --out, or resume a "
                          "training with --resume auto",
                          dir));
    CHECK(found ? record_continue(r, info, step, epoch) : write_info(r, info));
    if (!found)
        CHECK(journals_open(r));
    /* The record is open: sets the observer, and calls its function `begin`. */
    r->observer = info->observer;
    if (r->observer)
        r->observer->begin(r->observer->state, r->dir, info, step);
    *record = r;
    return STATUS_OK;
done:
    /* Cleans up after a failed opening; keeps the message of the first failure. */
    ignored = record_close(r);
    (void)ignored;
    return st;
}

enum status record_create(const char *dir, const struct run_info *info, struct record **record)
{
    return record_start(dir, info, false, 0, 0, record);
}

enum status record_resume(const char *dir, const struct run_info *info, int64_t step, int64_t epoch,
                          struct record **record)
{
    return record_start(dir, info, true, step, epoch, record);
}

enum status record_step(struct record *r, const struct step_record *step)
{
    char line[SCHEMA_LINE_MAX];
    struct step_record row = *step;
    row.elapsed = record_elapsed(r);
    TRY(journal_write(&r->steps, line, schema_format(&step_schema, &row, line)));
    observe_telemetry(r);
    if (r->observer)
        r->observer->step(r->observer->state, &row);
    uint64_t now = clock_ns();
    if (now - r->flushed_ns < FLUSH_NS)
        return STATUS_OK;
    r->flushed_ns = now;
    r->flushes++;
    return journal_flush(&r->steps, false);
}

enum status record_epoch(struct record *r, const struct epoch_record *epoch)
{
    char line[SCHEMA_LINE_MAX];
    struct epoch_record row = *epoch;
    row.elapsed = record_elapsed(r);
    if (row.val_images == 0)
        row.val_loss = row.val_top1 = row.val_top5 = NAN;
    TRY(journal_write(&r->epochs, line, schema_format(&epoch_schema, &row, line)));
    observe_telemetry(r);
    if (r->observer)
        r->observer->epoch(r->observer->state, &row);
    r->flushes++;
    return record_sync(r);
}

enum status record_rank(struct record *r, const struct rank_record *rank)
{
    char line[SCHEMA_LINE_MAX];
    struct rank_record row = *rank;
    if (rank->rank < 0 || rank->rank >= r->n_ranks)
        return status_fail(STATUS_INVALID,
                           "cannot record rank %" PRId64 " in a run of %" PRId64 " ranks",
                           rank->rank, r->n_ranks);
    row.attempt = r->attempt;
    return journal_write(&r->ranks, line, schema_format(&rank_schema, &row, line));
}

/* telemetry.jsonl is opened at the first sample, so that a run without samples does not have that
 * file. */
enum status record_telemetry(struct record *r, const struct telemetry_record *row, int n)
{
    char line[SCHEMA_LINE_MAX], path[4096];
    double elapsed = record_elapsed(r);
    if (!r->telemetry.stream) {
        TRY(path_in(r, "telemetry.jsonl", path));
        TRY(journal_open(&r->telemetry, path));
    }
    if (n > TELEMETRY_DEVICES_MAX)
        return status_fail(STATUS_INVALID, "cannot record telemetry of %d devices", n);
    pthread_mutex_lock(&r->fresh_lock);
    for (int i = 0; i < n; i++) {
        r->fresh[i] = row[i];
        r->fresh[i].sample = r->samples;
        r->fresh[i].attempt = r->attempt;
        r->fresh[i].elapsed = elapsed;
    }
    r->n_fresh = n;
    pthread_mutex_unlock(&r->fresh_lock);
    for (int i = 0; i < n; i++) /* unlocked: only this thread writes `fresh` and the file */
        TRY(journal_write(&r->telemetry, line,
                          schema_format(&telemetry_schema, &r->fresh[i], line)));
    r->samples++;
    return journal_flush(&r->telemetry, false);
}

enum status record_event(struct record *r, json_t *event)
{
    TRY(journal_write_json(&r->steps, event, JSON_COMPACT));
    return journal_flush(&r->steps, false);
}

int64_t record_flushes(const struct record *r)
{
    return r->flushes;
}

enum status record_checkpoint(struct record *r, int64_t step)
{
    char line[96];
    int size =
        snprintf(line, sizeof line, "{\"event\":\"checkpoint\",\"step\":%" PRId64 "}\n", step);
    TRY(journal_write(&r->steps, line, (size_t)size));
    return journal_flush(&r->steps, false);
}

/* Epochs are flushed last, so that an epoch on disk always has its steps and ranks on disk. */
enum status record_sync(struct record *r)
{
    TRY(journal_flush(&r->steps, true));
    if (r->ranks.stream)
        TRY(journal_flush(&r->ranks, true));
    return journal_flush(&r->epochs, true);
}

enum status record_finish(struct record *r, const json_t *summary)
{
    char now[ENVIRONMENT_TIME_MAX];
    environment_time(now);
    TRY(record_sync(r));
    if (r->telemetry.stream)
        TRY(journal_flush(&r->telemetry, true));
    json_t *out = json_copy((json_t *)summary); /* json_copy does not change its argument, although
                                                 * its parameter is not const */
    enum status st;
    json_put(out, "schema", json_integer(RUN_SCHEMA));
    json_put(out, "finished", json_utf8(now));
    json_put(out, "elapsed", json_finite(record_elapsed(r)));
    CHECK(json_write(json_incref(out), JSON_INDENT(2) | JSON_REAL_PRECISION(9), "%s/summary.json",
                     r->dir));
    st = outcome_write(r->dir, r->attempt, STATUS_OK, json_text_at(out, "ended_by"));
done:
    json_decref(out);
    r->finished = st == STATUS_OK;
    return st;
}

void record_fail(struct record *r, enum status st, const char *message)
{
    struct first_failure run = {0};
    first_failure_keep(&run, st); /* keeps the run's message, which outcome_write may replace */
    enum status ignored = outcome_write(r->dir, r->attempt, st, message);
    ignored = first_failure_return(&run);
    (void)ignored;
}

enum status record_close(struct record *r)
{
    if (!r)
        return STATUS_OK;
    observe_telemetry(r);
    if (r->observer)
        r->observer->close(r->observer->state, r->finished);
    struct first_failure first = {0};
    first_failure_keep(&first, journal_close(&r->steps));
    first_failure_keep(&first, journal_close(&r->ranks));
    first_failure_keep(&first, journal_close(&r->telemetry));
    first_failure_keep(&first, journal_close(&r->epochs));
    if (r->finished && first.status != STATUS_OK) /* outcome.json says that the run is done */
        record_fail(r, first.status, first.message);
    close(r->lock);
    free(r);
    return first_failure_return(&first);
}
