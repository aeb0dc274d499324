/* Runs the missing runs of a study, after it has checked that they can start. */
#include "study/study_run.h"

#include "base/array.h"
#include "base/file.h"
#include "base/host.h"
#include "base/json.h"
#include "base/launcher.h"
#include "base/stop.h"
#include "base/text_new.h"
#include "input/dataset.h"
#include "results/environment.h"
#include "study/study_progress.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum {
    GRACE_SECONDS = 40,   /* longer than the grace period that `launch` gives its ranks */
    CONNECT_SECONDS = 10, /* time limit for ssh to connect */
    ASK_SECONDS = 60,     /* time limit for a host's answer: loading a GPU driver may take
                           * seconds */
    ANSWER_MAX = 1 << 20,
};

/* ---- what the runs need ---- */

/* The resources that the wanted runs need. */
struct needs {
    int64_t ranks;   /* largest number of ranks in a run */
    int64_t devices; /* largest number of devices in a process */
    bool data[STUDY_MAX_LIST];
};

struct check {
    const struct study_plan *plan;
    const char *program;
    const struct process_signals *signals;
    struct needs needs;
    struct text_stream missing; /* the missing things, separated by "; " */
};

static void find_needs(struct check *c, const bool *wanted)
{
    const struct study_plan *plan = c->plan;
    for (int64_t i = 0; i < plan->n_runs; i++) {
        const struct study_cell *cell = &plan->cell[plan->run[i].cell];
        int64_t devices = cell->devices / cell->ranks;
        if (!wanted[i])
            continue;
        c->needs.data[cell->data - plan->spec->data] = true;
        c->needs.ranks = cell->ranks > c->needs.ranks ? cell->ranks : c->needs.ranks;
        c->needs.devices = devices > c->needs.devices ? devices : c->needs.devices;
    }
}

static PRINTF_LIKE(2, 3) void add_missing(struct check *c, const char *fmt, ...)
{
    va_list args;
    if (ftell(c->missing.out) > 0)
        fputs("; ", c->missing.out);
    va_start(args, fmt);
    vfprintf(c->missing.out, fmt, args);
    va_end(args);
}

static void check_data(struct check *c)
{
    static const char *const splits[] = {"train", "val"};
    const struct study_spec *s = c->plan->spec;
    for (int d = 0; d < s->n_data; d++)
        for (size_t i = 0; i < sizeof splits / sizeof *splits; i++) {
            if (!c->needs.data[d] || !*s->data[d].folder ||
                dataset_has_split(s->data[d].folder, splits[i]))
                continue;
            add_missing(c, "data '%s': there is no folder '%s/%s'", s->data[d].name,
                        s->data[d].folder, splits[i]);
        }
}

/* Counts the usable GPUs in the output of `ampscale info --json`; -1: the text is not such an
 * output. */
static int count_gpus(const char *path)
{
    json_t *info;
    const json_t *device;
    size_t i;
    int n = 0;
    if (json_read(path, ANSWER_MAX, &info) != STATUS_OK)
        return -1;
    const json_t *devices = json_object_get(info, "devices");
    if (!json_is_array(devices))
        n = -1;
    json_array_foreach(devices, i, device)
    {
        const char *name = json_string_value(json_object_get(device, "device"));
        n += name && strncmp(name, "cuda", 4) == 0 &&
             json_is_true(json_object_get(device, "usable"));
    }
    json_decref(info);
    return n;
}

static bool is_this_machine(const char *host)
{
    char own[HOST_NAME_SIZE] = "";
    return strcmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0 ||
           (gethostname(own, sizeof own - 1) == 0 && strcmp(host, own) == 0);
}

/* Appends the program and arguments that run `command` on a host: ssh in batch mode, which asks no
 * questions, or a shell, if `host` is this machine. */
static enum status add_remote(const char *host, const struct words *command, struct words *w)
{
    char *line;
    enum status st;
    TRY(words_shell(command, &line));
    if (is_this_machine(host)) {
        CHECK(words_add_all(w, "sh", "-c", line, NULL));
    } else {
        CHECK(words_add_all(w, "ssh", "-o", "BatchMode=yes", NULL));
        CHECK(words_add_flag(w, "-o", "ConnectTimeout=%d", CONNECT_SECONDS));
        CHECK(words_add_all(w, "-o", "ServerAliveInterval=10", "--", host, line, NULL));
    }
done:
    free(line);
    return st;
}

/* Runs `ampscale info --json` on `host` by ssh or, if `host` is NULL, on this machine. Sets *gpus
 * to the number of usable GPUs, or to -1 if there was no answer; `end` then has the reason. */
static enum status ask(struct check *c, const char *host, int *gpus, struct process_end *end)
{
    char out[64], log[64];
    struct words w = {0}, remote = {0};
    enum status st = STATUS_OK;
    int answer = memfd_create("study-info", MFD_CLOEXEC),
        errors = memfd_create("study-info-log", MFD_CLOEXEC);
    if (answer < 0 || errors < 0)
        CHECK(status_fail(STATUS_IO, "cannot create a file in memory: %s", strerror(errno)));
    snprintf(out, sizeof out, "/proc/%ld/fd/%d", (long)getpid(), answer);
    snprintf(log, sizeof log, "/proc/%ld/fd/%d", (long)getpid(), errors);
    CHECK(words_add_all(&remote, c->program, "info", "--json", NULL));
    CHECK(host ? add_remote(host, &remote, &w) : words_add_list(&w, remote.n, remote.v));
    const struct process_config child = {
        .argv = w.v, .out = out, .log = log, .signals = c->signals, .limit_s = ASK_SECONDS};
    CHECK(process_run(&child, end));
    st = stop_check();
    *gpus = end->code == 0 ? count_gpus(out) : -1;
done:
    fd_close(&answer);
    fd_close(&errors);
    words_free(&w);
    words_free(&remote);
    return st;
}

static enum status check_place(struct check *c, const char *host, int64_t needed)
{
    struct process_end end;
    const char *name = host ? host : "this machine";
    bool gpu = strcmp(c->plan->spec->device, "cuda") == 0;
    int gpus = -1;
    if (!host && !gpu)
        return STATUS_OK;
    TRY(ask(c, host, &gpus, &end));
    if (gpus < 0)
        add_missing(c, "%s does not answer: %s", name,
                    end.late       ? "the time limit has passed"
                    : *end.message ? end.message
                    : end.code == 0
                        ? "cannot parse the output of 'ampscale info --json' on that host"
                        : "ssh printed no reason");
    else if (gpu && gpus < needed)
        add_missing(c, "%s has %d of %" PRId64 " GPUs%s", name, gpus, needed,
                    host ? "" : ", and --hosts is not given");
    return STATUS_OK;
}

/* Checks the hosts that the largest run uses; the first host also runs the cells that have only one
 * process. */
static enum status check_hosts(struct check *c)
{
    const struct launch_hosts *hosts = c->plan->hosts;
    int64_t left = c->needs.ranks;
    for (int i = 0; i < hosts->n && left > 0; i++) {
        const struct launch_host *h = &hosts->v[i];
        int64_t ranks = left < h->slots ? left : h->slots;
        TRY(check_place(c, h->name, ranks > c->needs.devices ? ranks : c->needs.devices));
        left -= ranks;
    }
    if (left > 0)
        add_missing(c, "--hosts: %" PRId64 " ranks need %" PRId64 " more slots", c->needs.ranks,
                    left);
    return STATUS_OK;
}

static enum status check_machine(struct check *c)
{
    int64_t ranks = c->needs.ranks;
    int tasks = launcher_slurm_tasks();
    if (tasks > 0 && ranks > tasks)
        add_missing(c, "the Slurm allocation has only %d of the %" PRId64 " tasks needed", tasks,
                    ranks);
    bool alone = tasks == 0 && !launcher_has_hosts();
    TRY(check_place(c, NULL, alone && ranks > c->needs.devices ? ranks : c->needs.devices));
    return STATUS_OK;
}

/* Checks that the wanted runs have what they need: folders of data, hosts that ssh reaches, slots
 * of --hosts or of the Slurm allocation, GPUs. `program`: this program's file, which has the same
 * path on all hosts. If something is missing, returns STATUS_DATA, with everything that is missing
 * in one line. After a signal, returns STATUS_INTERRUPTED. If the study has its own launcher, only
 * the data is checked. */
static enum status ready_check(const struct study_plan *plan, const bool *wanted,
                               const char *program, const struct process_signals *signals)
{
    struct check c = {.plan = plan, .program = program, .signals = signals};
    bool hosts = plan->hosts && plan->hosts->n > 0;
    enum status st = STATUS_OK, closed;
    find_needs(&c, wanted);
    TRY(text_stream_open(&c.missing));
    check_data(&c);
    if (c.needs.ranks > 0 && !plan->spec->launcher)
        st = hosts ? check_hosts(&c) : check_machine(&c);
    closed = text_stream_close(&c.missing);
    st = st == STATUS_OK ? closed : st;
    if (st == STATUS_OK && c.missing.size > 0)
        st = status_fail(STATUS_DATA, "no run was started: %s", c.missing.text);
    free(c.missing.text);
    return st;
}

/* Warns in a line if the ranks and devices of a wanted run have more compute threads than this
 * machine has cores. Hosts, GPUs and a launcher have cores of their own. */
static void ready_warn(const struct study_plan *plan, const bool *wanted, FILE *out)
{
    const struct study_cell *most = NULL;
    char text[160];
    bool elsewhere = (plan->hosts && plan->hosts->n > 0) || plan->spec->launcher ||
                     launcher_slurm_tasks() > 0 || launcher_has_hosts();
    for (int64_t i = 0; i < plan->n_runs; i++) {
        const struct study_cell *c = &plan->cell[plan->run[i].cell];
        if (wanted[i] && (!most || c->devices > most->devices))
            most = c;
    }
    if (!most || elsewhere || strcmp(plan->spec->device, "cuda") == 0)
        return;
    int64_t threads = most->devices * (plan->spec->threads > 0 ? plan->spec->threads : 1);
    if (host_oversubscribed(threads < INT_MAX ? (int)threads : INT_MAX, text, sizeof text))
        fprintf(out, "ampscale: warning: cell '%s': %s: their sharing is measured, not scaling\n",
                most->name, text);
}

/* ---- running ---- */

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
        left->failed += selected && state >= STUDY_FAILED;
        left->pending += selected && state == STUDY_PENDING;
        left->others += !selected && state != STUDY_COMPLETE;
    }
    return STATUS_OK;
}

/* Whether other work disturbed a run, and it can be measured again: a run of a given number of
 * epochs is training, which may take days. */
static bool is_doubtful(const struct work *w, const struct study_run *run)
{
    return !w->store->plan->spec->epochs && study_store_disturbed(w->store, run);
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
    *wanted = (state == STUDY_PENDING ||
               (w->options->retry && (state >= STUDY_FAILED || is_doubtful(w, run)))) &&
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
    if (stop_requested())
        return status_fail(STATUS_INTERRUPTED,
                           "interrupted by %s; the same command continues the study",
                           stop_requested());
    if (end->late)
        snprintf(end->message, sizeof end->message, "not done within the limit of %lld s",
                 (long long)limit_s);
    else if (end->code > 128) {
        char last[sizeof end->message];
        snprintf(last, sizeof last, "%s", *end->message ? end->message : silence(log));
        snprintf(end->message, sizeof end->message, "ended by a signal (%s): %.250s",
                 strsignal(end->code - 128), last);
    } else if (!*end->message)
        snprintf(end->message, sizeof end->message, "exit code %d, %s", end->code, silence(log));
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
    if (end.code != 0)
        CHECK(status_fail(STATUS_DATA, "cannot make data '%s': %s", data->name, end.message));
    CHECK(path_format(made_in, sizeof made_in, "%s/data/%s", w->store->dir, data->name));
    /* removes files of killed commands; the study's lock makes this safe */
    atomic_file_sweep(made_in);
    *made = true;
done:
    words_free(&command);
    return st;
}

/* Whether all ranks run on this machine. */
static bool is_here(const struct study_plan *plan)
{
    return plan->hosts->n == 0 && !plan->spec->launcher && !launcher_has_hosts();
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
    CHECK(study_store_prepare(w->store, run, is_here(w->store->plan), &resume));
    CHECK(study_run_path(w->store->plan, run, w->store->dir, ".log", log));
    CHECK(study_run_command(w->store->plan, run, w->options->program, w->store->dir, resume,
                            &command));
    CHECK(run_command(w, command.v, log, w->store->plan->spec->limit_s, end));
    CHECK(study_store_state(w->store, run, &state, why));
    *done = state == STUDY_COMPLETE;
    if (state == STUDY_FOREIGN)
        st = status_fail(STATUS_USAGE,
                         "'%s' holds runs that do not belong with this one: %s; give "
                         "another --out",
                         w->store->dir, why);
    if (state == STUDY_FAILED)
        snprintf(end->message, sizeof end->message, "%s", why);
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
    TRY(done ? study_store_complete(w->store, run) : study_store_failed(w->store, run, &end));
    if (process_signals_check(&w->signals) != STATUS_OK)
        return status_fail(STATUS_INTERRUPTED, "interrupted; the same command continues the study");
    return STATUS_OK;
}

/* Measures each run of this call that other work disturbed once more. On a machine that stays busy
 * this is in vain: ends after three runs that were disturbed again. */
static enum status repeat_disturbed(struct work *w)
{
    enum { IN_VAIN_MOST = 3 };
    int in_vain = 0;
    for (int64_t i = 0; i < w->store->plan->n_runs && in_vain < IN_VAIN_MOST; i++) {
        const struct study_run *run = &w->store->plan->run[i];
        if (!w->wanted[i] || !is_doubtful(w, run))
            continue;
        study_progress_again(&w->progress, run);
        TRY(run_one(w, run));
        in_vain = study_store_disturbed(w->store, run) ? in_vain + 1 : 0;
    }
    return STATUS_OK;
}

enum status study_run_missing(const struct study_store *store, const struct study_options *options)
{
    struct work w = {.store = store, .options = options, .signals = {.fd = -1}};
    enum status st;
    CHECK(process_signals_open(&w.signals));
    CHECK(choose(&w));
    if (w.progress.total > 0 && environment_joins_own(json_object_get(store->first, ""),
                                                      is_here(store->plan), false) != STATUS_OK)
        CHECK(status_fail(STATUS_USAGE,
                          "'%s' holds runs of another version, build or machine; give "
                          "another --out",
                          store->dir));
    CHECK(ready_check(store->plan, w.wanted, options->program, &w.signals));
    ready_warn(store->plan, w.wanted, stderr);
    for (int64_t i = 0; i < store->plan->n_runs; i++)
        if (w.wanted[i])
            CHECK(run_one(&w, &store->plan->run[i]));
    CHECK(repeat_disturbed(&w));
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
    ready_warn(store->plan, w.wanted, stderr);
    study_progress_forecast(&w.progress, out);
done:
    study_progress_free(&w.progress);
    free(w.wanted);
    return st;
}
