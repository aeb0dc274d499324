/* Worker processes over the table. */
#include "verify/operations.h"

#include "verify/describe.h"
#include "verify/operations_result.h"
#include "verify/sanitizer.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/host.h"
#include "base/process.h"
#include "base/words.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CONV_SHARES = 4, WORKERS_MAX = OP_KIND_COUNT * CONV_SHARES, GRACE_SECONDS = 3 };

/* One worker's part of the table. */
struct job {
    struct operations_kind *kind;
    int every, share;
};

struct operations {
    const struct operations_config *config;
    char program[PATH_MAX], sanitizer[PATH_MAX];
    char dir[PATH_MAX]; /* of logs and plans */
    struct process_signals signals;
    struct job job[WORKERS_MAX];
    int n_jobs, begun;           /* those that have been started come first */
    uint64_t due_ns;             /* 0: no limit */
    bool covered[OP_KIND_COUNT]; /* kinds of which the backend has operations */
    int received;                /* a signal asked for an end */
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

/* Planning convolutions takes long, so that they have several workers, which begin first. */
static void list_jobs(struct operations *o, bool convolutions)
{
    const struct selection *all = &o->config->worker.selection;
    for (int i = 0; i < o->result.n_kinds; i++) {
        struct operations_kind *k = &o->result.kind[i];
        bool conv = strncmp(k->name, "conv_", strlen("conv_")) == 0;
        int shares = conv && all->number < 0 ? CONV_SHARES : 1;
        for (int s = 0; s < shares && conv == convolutions; s++) {
            struct selection part = *all;
            part.kind = k->name;
            part.every = all->every * shares;
            part.share = all->share + s * all->every;
            if (is_job(o, &part))
                o->job[o->n_jobs++] = (struct job){k, part.every, part.share};
        }
    }
}

static void find_jobs(struct operations *o)
{
    const struct case_list *list = o->result.list;
    for (int i = 0; i < list->n; i++)
        if (selection_has(&o->config->worker.selection, i, &list->item[i])) {
            const struct op_desc *d = &list->item[i].desc;
            struct operations_kind *k = kind_named(&o->result, op_str(d->kind));
            k->cases++;
            k->covered = o->covered[d->kind] && !is_fused(d);
        }
    list_jobs(o, true);
    list_jobs(o, false);
}

/* --- one worker --- */

static enum status add_number(struct words *w, const char *flag, int64_t n)
{
    TRY(words_add(w, "%s", flag));
    return words_add(w, "%lld", (long long)n);
}

static enum status add_text(struct words *w, const char *flag, const char *text)
{
    if (!text)
        return STATUS_OK;
    TRY(words_add(w, "%s", flag));
    return words_add(w, "%s", text);
}

static enum status add_fault(struct words *w, const struct comparison_fault *f)
{
    static const char *const name[] = {
        [COMPARISON_WRONG] = "wrong", [COMPARISON_CRASH] = "crash", [COMPARISON_HANG] = "hang"};
    if (f->kind == COMPARISON_SOUND)
        return STATUS_OK;
    TRY(words_add(w, "--inject"));
    return words_add(w, "%s=%d", name[f->kind], f->number);
}

static enum status worker_command(const struct operations *o, const struct job *job,
                                  const char *dir, struct words *w)
{
    const struct worker_config *c = &o->config->worker;
    const struct selection *s = &c->selection;
    if (o->config->sanitizer)
        TRY(sanitizer_command(o->sanitizer, o->config->sanitizer, w));
    TRY(words_add(w, "%s", o->program));
    TRY(words_add(w, "selftest"));
    TRY(words_add(w, "--operations"));
    TRY(add_text(w, "--worker", dir));
    TRY(add_text(w, "--devices", c->devices));
    TRY(add_number(w, "--threads", c->threads));
    TRY(add_text(w, "--isa", c->isa));
    TRY(add_fault(w, &c->fault));
    if (s->number >= 0)
        return add_number(w, "--case", s->number);
    TRY(add_text(w, "--kind", job->kind->name));
    TRY(add_text(w, "--only", s->only));
    for (int i = 0; i < s->n_without; i++)
        TRY(add_text(w, "--without", s->without[i]));
    TRY(add_number(w, "--every", job->every));
    return add_number(w, "--share", job->share);
}

static enum status worker_path(const struct operations *o, int job, const char *end,
                               char path[PATH_MAX])
{
    return path_format(path, PATH_MAX, "%s/%d%s", o->dir, job, end);
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

static void end_with(struct operations_result *r, struct operations_kind *k, int at,
                     const char *reason)
{
    operations_add_failure(r, k, at, reason);
    if (!*k->ended)
        snprintf(k->ended, sizeof k->ended, "%s%s%s", reason, at >= 0 ? ", at " : "",
                 at >= 0 ? r->list->item[at].name : "");
}

/* A worker that has found wrong results has completed. */
static void judge_end(struct operations *o, struct operations_kind *k,
                      const struct process_end *end, int at)
{
    char reason[OPERATIONS_TEXT_SIZE];
    bool found = end->code == SANITIZER_FOUND && (k->findings > 0 || o->result.unsupported);
    if (end->received) {
        o->received = end->received;
        snprintf(k->ended, sizeof k->ended, "stopped by a signal: %s", strsignal(end->received));
    } else if (end->late) {
        snprintf(reason, sizeof reason, "not done within the limit of %lld s",
                 (long long)o->config->limit_s);
        end_with(&o->result, k, at, reason);
        k->late++;
    } else if (end->code > 128) {
        snprintf(reason, sizeof reason, "ended by a signal: %s", strsignal(end->code - 128));
        end_with(&o->result, k, at, reason);
        k->crashed++;
    } else if (end->code == status_exit_code(STATUS_DATA)) {
        end_with(&o->result, k, at, end->message);
        k->missing++;
    } else if (end->code != 0 && end->code != status_exit_code(STATUS_MISMATCH) && !found) {
        snprintf(reason, sizeof reason, "exit code %d: %s", end->code, end->message);
        end_with(&o->result, k, at, reason);
        k->crashed++;
    }
}

static enum status end_worker(struct operations *o, int job, const struct process_end *end)
{
    char log[PATH_MAX];
    struct operations_kind *k = o->job[job].kind;
    int at;
    TRY(worker_path(o, job, ".log", log));
    TRY(operations_read_log(&o->result, k, log, &at));
    if (end->seconds > k->seconds)
        k->seconds = end->seconds;
    judge_end(o, k, end, at);
    return STATUS_OK;
}

/* --- all workers --- */

static enum status run_jobs(struct operations *o, int at_once)
{
    struct process child[OPERATIONS_JOBS_MAX] = {{0}};
    int job[OPERATIONS_JOBS_MAX], slot;
    enum status st = STATUS_OK;
    for (;;) {
        for (int i = 0; i < at_once && o->begun < o->n_jobs && !o->received; i++) {
            if (child[i].pid != 0 || (o->due_ns && seconds_left(o) == 0))
                continue;
            job[i] = o->begun++;
            CHECK(start_worker(o, job[i], &child[i]));
        }
        if (!process_any(child, at_once))
            break;
        CHECK(process_wait(&o->signals, child, at_once, &slot));
        CHECK(end_worker(o, job[slot], &child[slot].end));
    }
    for (int i = o->begun; i < o->n_jobs; i++)
        if (o->received)
            snprintf(o->job[i].kind->ended, OPERATIONS_TEXT_SIZE, "not begun before the signal");
        else
            judge_end(o, o->job[i].kind, &(struct process_end){.late = true}, -1);
done:
    process_kill(child, at_once);
    return st;
}

/* A kind of which the device has operations, and many cases were chosen, but none could run: a
 * library that cannot be loaded must not look like a pass. */
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
        t->findings += k->findings;
        t->late += k->late > 0;
        t->crashed += k->crashed > 0;
        t->missing += k->missing > 0;
    }
}

static enum status verdict(const struct operations *o)
{
    const struct operations_kind *t = &o->result.total;
    if (t->failed)
        return status_fail(STATUS_MISMATCH, "operations: %d results are wrong or missing",
                           t->failed);
    if (o->config->sanitizer && o->result.unsupported)
        return status_fail(STATUS_DATA, "--sanitizer %s: the tool does not support '%s'",
                           o->config->sanitizer, o->result.device);
    if (t->findings)
        return status_fail(STATUS_MISMATCH, "--sanitizer %s: %d findings; the first: %s",
                           o->config->sanitizer, t->findings, o->result.first_finding);
    if (o->received)
        return status_fail(STATUS_INTERRUPTED, "operations: stopped by a signal: %s",
                           strsignal(o->received));
    if (t->crashed)
        return status_fail(STATUS_LIBRARY, "operations: kinds with a process that crashed: %d",
                           t->crashed);
    if (t->late)
        return status_fail(STATUS_DATA, "operations: kinds that were not done in time: %d of %d",
                           t->late, o->result.n_kinds);
    if (t->missing || t->passed == 0)
        return status_fail(STATUS_DATA, "operations: kinds of which no case could run: %d of %d",
                           t->missing ? t->missing : o->result.n_kinds, o->result.n_kinds);
    return STATUS_OK;
}

/* What workers would all fail at. */
static enum status check_device(struct operations *o)
{
    struct device *dev;
    if (o->config->sanitizer)
        TRY(sanitizer_find(o->config->worker.devices, o->sanitizer, sizeof o->sanitizer));
    TRY(worker_open(&o->config->worker, &dev));
    dev->backend->describe(dev, o->result.device, sizeof o->result.device);
    for (int i = 0; i < dev->backend->n_records; i++)
        o->covered[dev->backend->record[i].kind] = true;
    device_close(dev);
    return STATUS_OK;
}

enum status operations_run(const struct operations_config *c)
{
    struct operations *o = calloc(1, sizeof *o);
    struct case_list list = {0};
    const char *tmp = getenv("TMPDIR");
    int cores = host_cores(), held = -1, at_once = c->jobs ? c->jobs : cores;
    enum status st = STATUS_OK;
    if (!o)
        return status_fail(STATUS_OOM, "no memory to compare operations");
    o->config = c;
    o->signals.fd = -1;
    o->result.list = &list;
    if (at_once > OPERATIONS_JOBS_MAX)
        at_once = OPERATIONS_JOBS_MAX;
    CHECK(process_own_file(o->program, sizeof o->program));
    CHECK(check_device(o));
    CHECK(case_list_new(&list));
    CHECK(path_format(o->dir, sizeof o->dir, "%s/ampscale-operations-XXXXXX",
                      tmp && *tmp ? tmp : "/tmp"));
    CHECK(dir_make_temporary(o->dir, &held));
    CHECK(process_signals_open(&o->signals));
    o->due_ns = c->limit_s ? clock_ns() + (uint64_t)c->limit_s * 1000000000u : 0;
    find_jobs(o);
    if (o->n_jobs == 0)
        CHECK(status_fail(STATUS_USAGE, "operations: no case is chosen; see --list"));
    CHECK(run_jobs(o, at_once));
    add_up(&o->result);
    CHECK(operations_report(c, &o->result));
    st = verdict(o);
done:
    process_signals_close(&o->signals);
    if (held >= 0 && dir_remove(o->dir) == STATUS_OK)
        close(held);
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
