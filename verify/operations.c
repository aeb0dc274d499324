/* Runs the cases of the table in worker processes. */
#include "verify/operations.h"

#include "verify/describe.h"
#include "verify/operations_result.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/host.h"
#include "base/process.h"
#include "base/text.h"
#include "base/text_new.h"
#include "base/words.h"

#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    CONV_SHARES = 4,
    WORKERS_MAX = OP_KIND_COUNT * CONV_SHARES,
    RESTARTS_MAX = 4, /* for each part of the table */
    GRACE_SECONDS = 3
};

/* One worker's part of the table: the cases of `kind` from number `first` on are divided into
 * parts; `every` is the number of parts, and `share` is the index of the worker's part. */
struct job {
    struct operations_kind *kind;
    int every, share, first;
    int restarts;
    double seconds; /* of all workers of this part */
};

struct operations {
    const struct operations_config *config;
    char program[PATH_MAX], sanitizer[PATH_MAX];
    struct temporary_dir dir; /* folder of logs and plan caches */
    struct process_signals signals;
    struct job job[WORKERS_MAX];
    int n_jobs, begun; /* number of jobs; the first `begun` have been started */
    uint64_t due_ns;   /* time at which the limit ends workers; 0: unlimited */
    uint64_t covered;  /* kinds of operations that the backend has */
    struct operations_result result;
};

/* --- the jobs --- */

static struct operations_kind *kind_named(struct operations_result *r, const char *name)
{
    for (int i = 0; i < r->n_kinds; i++)
        if (strcmp(r->kind[i].name, name) == 0)
            return &r->kind[i];
    struct operations_kind *k = &r->kind[r->n_kinds++];
    k->name = name;
    return k;
}

static bool is_job(const struct operations *o, const struct selection *part)
{
    const struct case_list *list = o->result.list;
    for (int i = 0; i < list->n; i++)
        if (selection_has(part, i, &list->item[i]))
            return true;
    return false;
}

/* The cases of a job. */
static struct selection job_selection(const struct operations *o, const struct job *job)
{
    struct selection part = o->config->worker.selection;
    part.kind = job->kind->name;
    part.every = job->every;
    part.share = job->share;
    part.first = job->first;
    return part;
}

/* Lists one part of each kind of convolution, or all other kinds. */
static void list_part(struct operations *o, bool convolutions, int shares, int s)
{
    const struct selection *all = &o->config->worker.selection;
    for (int i = 0; i < o->result.n_kinds; i++) {
        struct operations_kind *k = &o->result.kind[i];
        const struct job job = {
            .kind = k, .every = all->every * shares, .share = all->share + s * all->every};
        const struct selection part = job_selection(o, &job);
        if ((strncmp(k->name, "conv_", strlen("conv_")) == 0) == convolutions && is_job(o, &part))
            o->job[o->n_jobs++] = job;
    }
}

/* Lists the jobs in the order in which they start. First all kinds except convolutions: own kernels
 * take seconds, and are most likely to be wrong on a new device. Planning convolutions takes long:
 * they have several workers, and a time limit leaves some part of each kind. */
static void list_jobs(struct operations *o)
{
    int shares = o->config->worker.selection.number < 0 ? CONV_SHARES : 1;
    list_part(o, false, 1, 0);
    for (int s = 0; s < shares; s++)
        list_part(o, true, shares, s);
}

static void find_jobs(struct operations *o)
{
    const struct case_list *list = o->result.list;
    for (int i = 0; i < list->n; i++)
        if (selection_has(&o->config->worker.selection, i, &list->item[i])) {
            const struct op_desc *d = &list->item[i].desc;
            struct operations_kind *k = kind_named(&o->result, op_str(d->kind));
            k->cases++;
            k->covered = op_in(d->kind, o->covered) && !is_fused(d);
        }
    list_jobs(o);
}

/* --- NVIDIA's compute-sanitizer --- */

enum { SANITIZER_FOUND = 9 }; /* the tool's exit code if it found errors */

static const char file_name[] = "compute-sanitizer";

/* Finds the tool on PATH, in $CUDA_HOME/bin or in /usr/local/cuda/bin. STATUS_DATA if the tool is
 * not installed, or if the device is not a GPU. */
static enum status sanitizer_find(const char *devices, char *path, size_t size)
{
    const char *list = getenv("PATH"), *home = getenv("CUDA_HOME");
    char *dirs;
    bool found;
    if (strncmp(devices, "cuda", strlen("cuda")) != 0)
        return status_fail(STATUS_DATA, "--sanitizer: '%s' is not a GPU", devices);
    TRY(text_new(&dirs, "%s:%s/bin:/usr/local/cuda/bin", list ? list : "/bin:/usr/bin",
                 home ? home : "/usr/local/cuda"));
    enum status st = path_of_program(dirs, file_name, path, size, &found);
    free(dirs);
    if (st != STATUS_OK || found)
        return st;
    return status_fail(
        STATUS_DATA, "--sanitizer: %s is not installed; it comes with the CUDA toolkit", file_name);
}

/* Adds the arguments that precede a worker's command. */
static enum status sanitizer_command(const char *path, const char *tool, struct words *w)
{
    TRY(words_add_all(w, path, "--tool", tool, NULL));
    TRY(words_add_flag(w, "--error-exitcode", "%d", SANITIZER_FOUND));
    if (strcmp(tool, "memcheck") != 0)
        return STATUS_OK;
    /* Libraries look up functions that the driver may not have. memcheck would report each failed
     * look-up as an error. */
    return words_add_all(w, "--report-api-errors", "no", NULL);
}

/* --- one worker --- */

static enum status add_fault(struct words *w, const struct comparison_fault *f)
{
    static const char *const name[] = {
        [COMPARISON_WRONG] = "wrong", [COMPARISON_CRASH] = "crash", [COMPARISON_HANG] = "hang"};
    if (f->kind == COMPARISON_SOUND)
        return STATUS_OK;
    return words_add(w, "--inject=%s=%d", name[f->kind], f->number);
}

static enum status worker_command(const struct operations *o, const struct job *job,
                                  const char *dir, struct words *w)
{
    const struct worker_config *c = &o->config->worker;
    const struct selection *s = &c->selection;
    if (o->config->sanitizer)
        TRY(sanitizer_command(o->sanitizer, o->config->sanitizer, w));
    TRY(words_add_all(w, o->program, "selftest", "--operations", NULL));
    TRY(words_add(w, "--worker=%s", dir));
    TRY(words_add(w, "--devices=%s", c->devices));
    TRY(words_add(w, "--threads=%d", c->threads));
    if (c->isa)
        TRY(words_add(w, "--isa=%s", c->isa));
    if (c->conv_algorithm != CONV_AUTO)
        TRY(words_add(w, "--conv-algorithm=%s", conv_algorithm_str(c->conv_algorithm)));
    TRY(add_fault(w, &c->fault));
    if (s->number >= 0)
        return words_add(w, "--case=%d", s->number);
    TRY(words_add(w, "--kind=%s", job->kind->name));
    if (s->only)
        TRY(words_add(w, "--only=%s", s->only));
    for (int i = 0; i < s->n_without; i++)
        TRY(words_add(w, "--without=%s", s->without[i]));
    TRY(words_add(w, "--every=%d", job->every));
    TRY(words_add(w, "--share=%d", job->share));
    return words_add(w, "--first=%d", job->first);
}

static enum status worker_path(const struct operations *o, int job, const char *end,
                               char path[PATH_MAX])
{
    return path_format(path, PATH_MAX, "%s/%d%s", o->dir.path, job, end);
}

static int64_t seconds_left(const struct operations *o)
{
    uint64_t now = clock_ns();
    return o->due_ns > now ? (int64_t)((o->due_ns - now) / 1000000000u) + 1 : 0;
}

static enum status start_worker(const struct operations *o, int job, struct process *child)
{
    char dir[PATH_MAX], log[PATH_MAX];
    struct words command = {0};
    enum status st;
    CHECK(worker_path(o, job, "", dir));
    CHECK(worker_path(o, job, ".log", log));
    CHECK(dir_make(dir));
    CHECK(worker_command(o, &o->job[job], dir, &command));
    const struct process_config c = {.argv = command.v,
                                     .log = log,
                                     .signals = &o->signals,
                                     .limit_s = o->due_ns ? seconds_left(o) : 0,
                                     .grace_s = GRACE_SECONDS};
    CHECK(process_start(&c, child));
done:
    words_free(&command);
    return st;
}

static void PRINTF_LIKE(4, 5)
    end_with(struct operations_result *r, struct operations_kind *k, int at, const char *fmt, ...)
{
    char reason[OPERATIONS_TEXT_SIZE];
    va_list args;
    va_start(args, fmt);
    vsnprintf(reason, sizeof reason, fmt, args);
    va_end(args);
    operations_add_failure(r, k, at, reason);
    if (*k->ended)
        return;
    text_append(k->ended, sizeof k->ended, "%s", reason);
    if (at >= 0)
        text_append(k->ended, sizeof k->ended, ", at %s", r->list->item[at].name);
}

/* Records how a worker ended. A worker that found wrong results counts as completed. */
static void operations_judge_end(struct operations *o, struct operations_kind *k,
                                 const struct process_end *end, int at)
{
    bool found = end->code == SANITIZER_FOUND && (k->findings > 0 || o->result.unsupported);
    if (stop_requested()) {
        snprintf(k->ended, sizeof k->ended, "stopped by a signal: %s", strsignal(stop_signal()));
    } else if (end->late) {
        end_with(&o->result, k, at, "not done within the limit of %lld s",
                 (long long)o->config->limit_s);
        k->late++;
    } else if (end->code > 128) {
        end_with(&o->result, k, at, "ended by a signal: %s", strsignal(end->code - 128));
        k->crashed++;
    } else if (end->code == status_exit_code(STATUS_DATA)) {
        end_with(&o->result, k, at, "%s", end->message);
        k->missing++;
    } else if (end->code != 0 && end->code != status_exit_code(STATUS_MISMATCH) && !found) {
        end_with(&o->result, k, at, "exit code %d: %s", end->code, end->message);
        k->crashed++;
    }
}

/* Whether a new worker has to run the cases after case `at`, at which the last worker ended. */
static bool is_restarted(struct operations *o, struct job *job, int at)
{
    struct job rest = *job;
    rest.first = at + 1;
    rest.restarts++;
    const struct selection part = job_selection(o, &rest);
    if (part.number >= 0 || !is_job(o, &part))
        return false;
    if (o->due_ns && seconds_left(o) == 0) {
        operations_judge_end(o, job->kind, &(struct process_end){.late = true}, -1);
        return false;
    }
    if (job->restarts == RESTARTS_MAX) {
        text_join(job->kind->ended, sizeof job->kind->ended, "; ",
                  "after %d such cases, those behind %s are untested", RESTARTS_MAX + 1,
                  o->result.list->item[at].name);
        return false;
    }
    *job = rest;
    return true;
}

/* Reads the results of a worker that has ended. Sets *again if the job needs a new worker. */
static enum status end_worker(struct operations *o, int job, const struct process_end *end,
                              bool *again)
{
    char log[PATH_MAX];
    struct operations_kind *k = o->job[job].kind;
    struct operations_progress progress;
    TRY(worker_path(o, job, ".log", log));
    TRY(operations_read_log(&o->result, k, log, &progress));
    o->job[job].seconds += end->seconds;
    if (o->job[job].seconds > k->seconds)
        k->seconds = o->job[job].seconds;
    operations_judge_end(o, k, end, progress.at);
    *again = !progress.done && progress.at >= 0 && !end->late && !stop_requested() &&
             end->code != status_exit_code(STATUS_DATA) &&
             is_restarted(o, &o->job[job], progress.at);
    return STATUS_OK;
}

/* --- all workers --- */

static enum status run_jobs(struct operations *o, int at_once)
{
    struct process child[OPERATIONS_JOBS_MAX] = {{0}};
    int job[OPERATIONS_JOBS_MAX], slot;
    bool again;
    enum status st = STATUS_OK;
    bar_begin(o->config->bar, o->n_jobs);
    for (;;) {
        for (int i = 0; i < at_once && o->begun < o->n_jobs && !stop_requested(); i++) {
            if (child[i].pid != 0 || (o->due_ns && seconds_left(o) == 0))
                continue;
            job[i] = o->begun++;
            CHECK(start_worker(o, job[i], &child[i]));
        }
        if (!process_any(child, at_once))
            break;
        CHECK(process_wait(&o->signals, child, at_once, &slot));
        CHECK(end_worker(o, job[slot], &child[slot].end, &again));
        if (again)
            CHECK(start_worker(o, job[slot], &child[slot]));
        else
            bar_step(o->config->bar);
    }
    for (int i = o->begun; i < o->n_jobs; i++)
        if (stop_requested())
            snprintf(o->job[i].kind->ended, OPERATIONS_TEXT_SIZE, "not started before the signal");
        else
            operations_judge_end(o, o->job[i].kind, &(struct process_end){.late = true}, -1);
done:
    bar_erase(o->config->bar);
    process_kill(child, at_once);
    return st;
}

/* Whether the device supports the kind, and many cases of the kind were selected but no case could
 * run. Such a kind counts as failed, because the test must not pass if a library cannot be
 * loaded. */
static bool is_untested(const struct operations_kind *k)
{
    enum { MANY = 20 };
    return k->covered && k->cases >= MANY && k->skipped > 0 && k->passed + k->failed == 0 &&
           !*k->ended;
}

static void add_up(struct operations_result *r)
{
    struct operations_kind *t = &r->total;
    for (int i = 0; i < r->n_kinds; i++) {
        struct operations_kind *k = &r->kind[i];
        bool untested = is_untested(k);
        k->missing += untested;
        if (!*k->ended)
            strcpy(k->ended, untested ? "no case could run" : "completed");
        t->cases += k->cases;
        t->passed += k->passed;
        t->skipped += k->skipped;
        t->failed += k->failed;
        t->oom += k->oom;
        t->findings += k->findings;
        t->late += k->late > 0;
        t->crashed += k->crashed > 0;
        t->missing += k->missing > 0;
    }
}

static enum status operations_verdict(const struct operations *o)
{
    const struct operations_kind *t = &o->result.total;
    if (t->failed > t->oom)
        return status_fail(STATUS_MISMATCH, "operations: %d results are wrong or missing",
                           t->failed);
    if (t->oom)
        return status_fail(STATUS_OOM, "operations: no memory for %d results", t->oom);
    if (o->config->sanitizer && o->result.unsupported)
        return status_fail(STATUS_DATA, "--sanitizer %s: the tool does not support '%s'",
                           o->config->sanitizer, o->result.device);
    if (t->findings)
        return status_fail(STATUS_MISMATCH, "--sanitizer %s: %d findings; the first: %s",
                           o->config->sanitizer, t->findings, o->result.first_finding);
    if (stop_requested())
        return status_fail(STATUS_INTERRUPTED, "operations: stopped by a signal: %s",
                           strsignal(stop_signal()));
    if (t->crashed)
        return status_fail(STATUS_LIBRARY, "operations: kinds whose process crashed: %d",
                           t->crashed);
    if (t->late)
        return status_fail(STATUS_DATA, "operations: kinds that were not done in time: %d of %d",
                           t->late, o->result.n_kinds);
    if (t->missing || t->passed == 0)
        return status_fail(STATUS_DATA, "operations: kinds of which no case could run: %d of %d",
                           t->missing ? t->missing : o->result.n_kinds, o->result.n_kinds);
    return STATUS_OK;
}

/* Fails before any worker starts if the sanitizer or the device is missing. */
static enum status check_device(struct operations *o)
{
    struct device *dev;
    if (o->config->sanitizer)
        TRY(sanitizer_find(o->config->worker.devices, o->sanitizer, sizeof o->sanitizer));
    TRY(worker_open(&o->config->worker, &dev));
    dev->backend->describe(dev, o->result.device, sizeof o->result.device);
    for (int i = 0; i < dev->backend->n_records; i++)
        o->covered |= dev->backend->record[i].kinds;
    device_close(dev);
    return STATUS_OK;
}

/* Number of workers at a time. */
static int count_workers(const struct operations_config *c)
{
    bool gpu = strncmp(c->worker.devices, "cuda", 4) == 0;
    int most = gpu && c->jobs == 0 ? OPERATIONS_GPU_JOBS : OPERATIONS_JOBS_MAX;
    int jobs = c->jobs ? c->jobs : host_cores();
    return jobs < most ? jobs : most;
}

enum status operations_run(const struct operations_config *c)
{
    struct operations *o;
    struct case_list list = {0};
    enum status st = STATUS_OK;
    TRY(array_new(&o, 1));
    o->config = c;
    o->signals.fd = -1;
    o->result.list = &list;
    CHECK(process_own_file(o->program, sizeof o->program));
    CHECK(check_device(o));
    CHECK(case_list_new(&list));
    CHECK(temporary_dir_make(&o->dir, "/tmp", "ampscale-operations"));
    CHECK(process_signals_open(&o->signals));
    o->due_ns = c->limit_s ? clock_ns() + (uint64_t)c->limit_s * 1000000000u : 0;
    find_jobs(o);
    if (o->n_jobs == 0)
        CHECK(status_fail(STATUS_USAGE, "operations: no case is selected; --list shows the cases"));
    CHECK(run_jobs(o, count_workers(c)));
    add_up(&o->result);
    operations_report(c, &o->result);
    st = operations_verdict(o);
done:
    process_signals_close(&o->signals);
    (void)(temporary_dir_remove(&o->dir) == STATUS_OK); /* a later run removes what remains */
    case_list_free(&list);
    free(o);
    return st;
}

enum status operations_list(const struct operations_config *c)
{
    struct case_list list = {0};
    TRY(case_list_new(&list));
    for (int i = 0; i < list.n; i++)
        if (selection_has(&c->worker.selection, i, &list.item[i]))
            fprintf(c->out, "%4d %s\n", i, list.item[i].name);
    case_list_free(&list);
    return STATUS_OK;
}
