/* Writing a run's folder. */
#include "results/record.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/stop.h"
#include "results/environment.h"
#include "results/journal.h"
#include "results/run.h"
#include "results/text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

/* Readers that watch a run see it at most this much later. */
#define FLUSH_NS UINT64_C(1000000000)

struct record {
    int lock; /* the folder, open and locked */
    char dir[4096];
    struct journal steps, epochs;
    struct journal ranks;     /* open where there are several, or were in an earlier attempt */
    struct journal telemetry; /* open from the first sample on */
    int64_t samples;          /* taken so far, over all attempts */
    int64_t n_ranks;          /* 0: one, of which no more is told */
    int64_t attempt;          /* from 0 */
    uint64_t opened_ns, flushed_ns;
    double elapsed_before; /* of earlier attempts */
    const struct record_observer *observer;
    pthread_mutex_t fresh_lock; /* for the next two, which two threads share */
    int n_fresh;                /* rows of the last sample that the observer has not been told */
    struct telemetry_record fresh[TELEMETRY_DEVICES_MAX];
    bool finished;
};

static double record_elapsed(const struct record *r)
{
    return r->elapsed_before + (double)(clock_ns() - r->opened_ns) * 1e-9;
}

/* Takes over a new reference; a failure to allocate shows in the return value. */
static bool set(json_t *object, const char *key, json_t *value)
{
    return json_object_set_new(object, key, value) == 0;
}

/* The object of run.json. */
static enum status info_json(const struct run_info *info, json_t **out)
{
    if (!json_is_object(info->config))
        return status_fail(STATUS_INVALID, "the configuration of a run is not an object");
    if (info->ranks && !schema_is_rank_list(info->ranks))
        return status_fail(STATUS_INVALID, "the ranks of a run are not a list of ranks");
    char now[ENVIRONMENT_TIME_MAX];
    double now_s = environment_time(now);
    json_t *host;
    TRY(environment_describe(&host));
    if (info->hardware && json_object_update(host, (json_t *)info->hardware) != 0) {
        json_decref(host);
        return status_fail(STATUS_OOM, "no memory to describe the run");
    }
    json_t *argv = json_array();
    bool ok = true;
    for (int i = 0; i < info->argc; i++)
        ok = json_array_append_new(argv, text_json(info->argv[i])) == 0 && ok;
    json_t *run = json_object();
    ok = set(run, "schema", json_integer(RUN_SCHEMA)) && ok;
    ok = environment_program(run) && ok;
    ok = set(run, "started", json_string(now)) && ok;
    ok = set(run, "started_s", json_real(now_s)) && ok;
    ok = set(run, "argv", argv) && ok;
    ok = set(run, "seed", json_integer((json_int_t)info->seed)) && ok;
    ok = set(run, "config", json_deep_copy(info->config)) && ok;
    ok = set(run, "device", text_json(info->device)) && ok;
    ok = set(run, "libraries", info->libraries ? json_deep_copy(info->libraries) : json_object()) &&
         ok;
    ok = set(run, "host", host) && ok;
    if (info->ranks)
        ok = set(run, "ranks", json_deep_copy(info->ranks)) && ok;
    if (info->ladder)
        ok = set(run, "ladder", json_deep_copy(info->ladder)) && ok;
    if (!ok) {
        json_decref(run);
        return status_fail(STATUS_OOM, "no memory to describe the run");
    }
    *out = run;
    return STATUS_OK;
}

static enum status json_write(const char *path, const json_t *object)
{
    char *text = json_dumps(object, JSON_INDENT(2));
    if (!text)
        return status_fail(STATUS_OOM, "no memory to write '%s'", path);
    struct atomic_file f;
    enum status st = atomic_file_open(&f, path);
    if (st == STATUS_OK) {
        fprintf(f.stream, "%s\n", text); /* commit checks the stream */
        st = atomic_file_commit(&f);
    }
    free(text);
    return st;
}

static enum status path_in(const struct record *r, const char *file, char path[4096])
{
    return path_format(path, 4096, "%s/%s", r->dir, file);
}

/* The record is open: from here on there is something to observe. */
static void observe(struct record *r, const struct run_info *info, int64_t step)
{
    r->observer = info->observer;
    if (r->observer)
        r->observer->begin(r->observer->state, r->dir, info, step);
}

/* Tells the observer of the last sample, on the thread that trains. */
static void hand_over(struct record *r)
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

/* Ranks of a job that has just failed may hold the lock until they have ended. */
static int lock_patiently(int fd)
{
    enum { TRIES = 50 };
    const struct timespec pause = {.tv_nsec = 100000000};
    for (int i = 0;; i++) {
        int failed = flock(fd, LOCK_EX | LOCK_NB);
        if (!failed || errno != EWOULDBLOCK || i == TRIES || stop_requested())
            return failed;
        nanosleep(&pause, NULL);
    }
}

/* Makes the folder and takes its lock, which lasts as long as the process or the record. */
static enum status record_open(const char *dir, const struct run_info *info, struct record **out)
{
    enum status st;
    struct record *r = calloc(1, sizeof *r);
    if (!r)
        return status_fail(STATUS_OOM, "no memory for the record in '%s'", dir);
    r->lock = -1;
    pthread_mutex_init(&r->fresh_lock, NULL);
    r->n_ranks = (int64_t)json_array_size(info->ranks);
    CHECK(path_format(r->dir, sizeof r->dir, "%s", dir));
    CHECK(dir_make(dir));
    r->lock = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (r->lock < 0) {
        st = status_fail(STATUS_IO, "cannot open '%s': %s", dir, strerror(errno));
        goto done;
    }
    /* Where locks are not offered, none is held: two writers are the rare case. */
    if (lock_patiently(r->lock) != 0 && errno == EWOULDBLOCK) {
        st = status_fail(STATUS_IO, "'%s' is in use: another process writes its run there", dir);
        goto done;
    }
    r->opened_ns = r->flushed_ns = clock_ns();
    *out = r;
    return STATUS_OK;
done:
    if (r->lock >= 0)
        close(r->lock);
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

/* Ends a failed opening; what went wrong first is what is told. */
static void record_drop(struct record *r)
{
    enum status ignored = record_close(r);
    (void)ignored;
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

/* The folder is open and locked, and holds no run. */
static enum status record_begin(struct record *r, const struct run_info *info)
{
    char path[4096];
    TRY(path_in(r, "run.json", path));
    json_t *run;
    TRY(info_json(info, &run));
    enum status st = json_write(path, run);
    json_decref(run);
    TRY(st);
    return journals_open(r);
}

enum status record_create(const char *dir, const struct run_info *info, struct record **record)
{
    struct record *r;
    TRY(record_open(dir, info, &r));
    enum status st;
    bool found;
    CHECK(look_for_run(r, &found));
    if (found) {
        st =
            status_fail(STATUS_USAGE,
                        "'%s' already holds a run; go on with it by --resume auto, or name another "
                        "folder by --out",
                        dir);
        goto done;
    }
    CHECK(record_begin(r, info));
    observe(r, info, 0);
    *record = r;
    return STATUS_OK;
done:
    record_drop(r);
    return st;
}

/* The lines that tell readers where this attempt begins. */
static enum status resume_event(struct record *r, const struct run_info *info, int64_t step,
                                int64_t epoch)
{
    json_t *event;
    TRY(info_json(info, &event));
    enum status st;
    char *text = NULL;
    bool ok = set(event, "event", json_string("resume"));
    ok = set(event, "step", json_integer(step)) && ok;
    ok = set(event, "epoch", json_integer(epoch)) && ok;
    ok = set(event, "elapsed", json_real(r->elapsed_before)) && ok;
    text = ok ? json_dumps(event, JSON_COMPACT) : NULL;
    if (!text) {
        st = status_fail(STATUS_OOM, "no memory to describe the run");
        goto done;
    }
    CHECK(journal_write(&r->steps, text, strlen(text)));
    CHECK(journal_write(&r->steps, "\n", 1));
    char line[128];
    int size = snprintf(line, sizeof line,
                        "{\"event\":\"resume\",\"step\":%" PRId64 ",\"epoch\":%" PRId64 "}\n", step,
                        epoch);
    CHECK(journal_write(&r->epochs, line, (size_t)size));
    if (r->ranks.stream)
        CHECK(journal_write(&r->ranks, line, (size_t)size));
    CHECK(record_sync(r));
done:
    free(text);
    json_decref(event);
    return st;
}

static enum status summary_set_aside(struct record *r, int64_t step)
{
    char file[64];
    snprintf(file, sizeof file, "summary-%" PRId64 ".json", step);
    if (renameat(r->lock, "summary.json", r->lock, file) != 0 && errno != ENOENT)
        return status_fail(STATUS_IO, "cannot rename '%s/summary.json': %s", r->dir,
                           strerror(errno));
    return STATUS_OK;
}

enum status record_resume(const char *dir, const struct run_info *info, int64_t step, int64_t epoch,
                          struct record **record)
{
    struct record *r;
    struct run *run = NULL;
    TRY(record_open(dir, info, &r));
    enum status st;
    bool found;
    CHECK(look_for_run(r, &found));
    if (!found) {
        CHECK(record_begin(r, info));
    } else {
        CHECK(run_load(dir, &run));
        CHECK(journals_open(r));
        r->elapsed_before = run->elapsed;
        r->attempt = run->resumes + 1;
        if (run->n_telemetry)
            r->samples = run->telemetry[run->n_telemetry - 1].sample + 1;
        CHECK(summary_set_aside(r, step));
        CHECK(resume_event(r, info, step, epoch));
    }
    run_free(run);
    observe(r, info, step);
    *record = r;
    return STATUS_OK;
done:
    run_free(run);
    record_drop(r);
    return st;
}

enum status record_step(struct record *r, const struct step_record *step)
{
    char line[SCHEMA_LINE_MAX];
    struct step_record row = *step;
    row.elapsed = record_elapsed(r);
    TRY(journal_write(&r->steps, line, schema_format(&step_schema, &row, line)));
    hand_over(r);
    if (r->observer)
        r->observer->step(r->observer->state, &row);
    uint64_t now = clock_ns();
    if (now - r->flushed_ns < FLUSH_NS)
        return STATUS_OK;
    r->flushed_ns = now;
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
    hand_over(r);
    if (r->observer)
        r->observer->epoch(r->observer->state, &row);
    return record_sync(r);
}

enum status record_rank(struct record *r, const struct rank_record *rank)
{
    char line[SCHEMA_LINE_MAX];
    struct rank_record row = *rank;
    if (rank->rank < 0 || rank->rank >= r->n_ranks)
        return status_fail(STATUS_INVALID,
                           "a record of rank %" PRId64 ", where %" PRId64 " were announced",
                           rank->rank, r->n_ranks);
    row.attempt = r->attempt;
    return journal_write(&r->ranks, line, schema_format(&rank_schema, &row, line));
}

/* Its file is opened here, by the thread that it belongs to, so that a run without samples has
 * none.
 */
enum status record_telemetry(struct record *r, const struct telemetry_record *row, int n)
{
    char line[SCHEMA_LINE_MAX], path[4096];
    double elapsed = record_elapsed(r);
    if (!r->telemetry.stream) {
        TRY(path_in(r, "telemetry.jsonl", path));
        TRY(journal_open(&r->telemetry, path));
    }
    if (n > TELEMETRY_DEVICES_MAX)
        return status_fail(STATUS_INVALID, "telemetry of %d devices", n);
    pthread_mutex_lock(&r->fresh_lock);
    for (int i = 0; i < n; i++) {
        r->fresh[i] = row[i];
        r->fresh[i].sample = r->samples;
        r->fresh[i].attempt = r->attempt;
        r->fresh[i].elapsed = elapsed;
    }
    r->n_fresh = n;
    pthread_mutex_unlock(&r->fresh_lock);
    for (int i = 0; i < n; i++) /* this thread alone writes these */
        TRY(journal_write(&r->telemetry, line,
                          schema_format(&telemetry_schema, &r->fresh[i], line)));
    r->samples++;
    return journal_flush(&r->telemetry, false);
}

enum status record_checkpoint(struct record *r, int64_t step)
{
    char line[96];
    int size =
        snprintf(line, sizeof line, "{\"event\":\"checkpoint\",\"step\":%" PRId64 "}\n", step);
    TRY(journal_write(&r->steps, line, (size_t)size));
    return journal_flush(&r->steps, false);
}

/* In this order, so that an epoch on disk has its steps and ranks there. */
enum status record_sync(struct record *r)
{
    TRY(journal_flush(&r->steps, true));
    if (r->ranks.stream)
        TRY(journal_flush(&r->ranks, true));
    return journal_flush(&r->epochs, true);
}

enum status record_finish(struct record *r, const json_t *summary)
{
    char path[4096], now[ENVIRONMENT_TIME_MAX];
    environment_time(now);
    TRY(record_sync(r));
    if (r->telemetry.stream)
        TRY(journal_flush(&r->telemetry, true));
    TRY(path_in(r, "summary.json", path));
    json_t *out = json_copy((json_t *)summary); /* jansson's copy lacks the const it keeps */
    enum status st;
    if (set(out, "schema", json_integer(RUN_SCHEMA)) && set(out, "finished", json_string(now)) &&
        set(out, "elapsed", json_real(record_elapsed(r))))
        st = json_write(path, out);
    else
        st = status_fail(STATUS_OOM, "no memory to write '%s'", path);
    json_decref(out);
    r->finished = st == STATUS_OK;
    return st;
}

enum status record_close(struct record *r)
{
    if (!r)
        return STATUS_OK;
    hand_over(r);
    if (r->observer)
        r->observer->close(r->observer->state, r->finished);
    enum status steps = journal_close(&r->steps);
    enum status ranks = journal_close(&r->ranks);
    enum status telemetry = journal_close(&r->telemetry);
    enum status epochs = journal_close(&r->epochs);
    close(r->lock);
    free(r);
    const enum status all[] = {steps, ranks, telemetry, epochs};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i] != STATUS_OK)
            return all[i];
    return STATUS_OK;
}
