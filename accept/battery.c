/* Running the checks of a spec. */
#include "accept/battery.h"

#include "accept/judge.h"
#include "accept/kind.h"
#include "accept/progress.h"
#include "accept/store.h"
#include "base/file.h"
#include "base/process.h"
#include "config.h"
#include "results/environment.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { GRACE_SECONDS = 10, OUTPUT_MAX_BYTES = 64 << 20 };

struct work {
    const struct accept_spec *spec;
    const struct accept_options *options;
    struct accept_store store;
    struct process_signals signals;
    struct accept_progress progress;
    double burn_s; /* for each check that burns; 0: as often as it repeats */
};

/* One of the checks that run at the same time. */
struct lane {
    const struct accept_check *check;
    struct accept_result *result;
    bool whole;                 /* an earlier battery has measured it */
    char dir[ACCEPT_PATH_SIZE]; /* of the repeat that runs */
};

/* --- one repeat --- */

static void PRINTF_LIKE(3, 4)
    end_with(struct accept_result *r, enum accept_verdict v, const char *fmt, ...)
{
    va_list args;
    r->ended = v;
    va_start(args, fmt);
    vsnprintf(r->ended_why, sizeof r->ended_why, fmt, args);
    va_end(args);
}

/* What a command that did not end well comes to: one that found wrong numbers, broke or hung has
 * failed; where what it needs is not there, something is missing. */
static void judge_end(const struct accept_check *check, const struct process_end *end,
                      struct accept_result *r)
{
    bool missing =
        end->code == status_exit_code(STATUS_USAGE) || end->code == status_exit_code(STATUS_DATA);
    if (end->late)
        end_with(r, ACCEPT_FAIL, "not done within the limit of %lld s", (long long)check->limit_s);
    else if (end->code > 128)
        end_with(r, ACCEPT_FAIL, "ended by a signal: %s", strsignal(end->code - 128));
    else if (*end->message)
        end_with(r, missing ? ACCEPT_MISSING : ACCEPT_FAIL, "%s", end->message);
    else
        end_with(r, missing ? ACCEPT_MISSING : ACCEPT_FAIL, "exit code %d without a word",
                 end->code);
}

/* Weights of a run that was measured are of no use, and large. */
static void drop_checkpoints(const char *dir)
{
    static const char *const left[] = {"checkpoint.safetensors", "checkpoint-prev.safetensors",
                                       "best.safetensors"};
    for (size_t i = 0; i < sizeof left / sizeof *left; i++) {
        char path[ACCEPT_PATH_SIZE];
        if (path_format(path, sizeof path, "%s/run/%s", dir, left[i]) == STATUS_OK)
            unlink(path);
    }
}

static enum status read_output(const struct accept_check *check, const char *dir, json_t **output)
{
    char path[ACCEPT_PATH_SIZE], *bytes;
    size_t size;
    *output = NULL;
    if (check->kind->folder)
        return STATUS_OK;
    TRY(path_format(path, sizeof path, "%s/output.json", dir));
    TRY(file_read(path, OUTPUT_MAX_BYTES, &bytes, &size));
    *output = json_loadb(bytes, size, JSON_REJECT_DUPLICATES, NULL);
    free(bytes);
    return json_is_object(*output) ? STATUS_OK
                                   : status_fail(STATUS_DATA, "'%s' is no JSON object", path);
}

/* What cannot be read was not measured. */
static enum status read_repeat(const struct work *w, const struct accept_check *check,
                               const char *dir, struct accept_result *r)
{
    json_t *output = NULL;
    enum status st = read_output(check, dir, &output);
    if (st == STATUS_OK)
        st = check->kind->read(w->spec, check, output, dir, r);
    json_decref(output);
    if (check->kind->folder)
        drop_checkpoints(dir);
    if (st != STATUS_DATA && st != STATUS_IO)
        return st;
    end_with(r, ACCEPT_MISSING, "%s", status_message());
    return STATUS_OK;
}

static enum status keep_command(const struct words *command, struct accept_result *r)
{
    char *line;
    if (*r->command)
        return STATUS_OK;
    TRY(words_shell(command, &line));
    snprintf(r->command, sizeof r->command, "%s", line);
    free(line);
    return STATUS_OK;
}

static enum status start_repeat(const struct work *w, struct lane *lane, struct process *child)
{
    char log[ACCEPT_PATH_SIZE], out[ACCEPT_PATH_SIZE];
    const struct accept_check *check = lane->check;
    struct words command = {0};
    enum status st;
    CHECK(accept_store_repeat(&w->store, check->name, lane->result->repeats + 1, lane->dir));
    CHECK(path_format(log, sizeof log, "%s/log", lane->dir));
    CHECK(path_format(out, sizeof out, "%s/output.json", lane->dir));
    CHECK(accept_command(w->spec, check, w->options->program, lane->dir, &command));
    CHECK(keep_command(&command, lane->result));
    accept_progress_start(&w->progress, check, lane->result->repeats + 1);
    const struct process_config c = {.argv = command.v,
                                     .log = log,
                                     .out = check->kind->folder ? NULL : out,
                                     .signals = &w->signals,
                                     .limit_s = check->limit_s,
                                     .grace_s = GRACE_SECONDS};
    CHECK(process_start(&c, child));
done:
    words_free(&command);
    return st;
}

/* Takes in what the repeat that has ended came to, and keeps it. */
static enum status end_repeat(const struct work *w, const struct lane *lane,
                              const struct process_end *end)
{
    struct accept_result *r = lane->result;
    enum status st = STATUS_OK;
    r->repeats++;
    r->seconds += end->seconds;
    /* What found wrong numbers says which. */
    if (end->code == 0 || end->code == status_exit_code(STATUS_MISMATCH))
        st = read_repeat(w, lane->check, lane->dir, r);
    if (end->code != 0)
        judge_end(lane->check, end, r);
    return st == STATUS_OK ? accept_store_write(&w->store, r, false) : st;
}

/* --- a check, or several at the same time --- */

static bool is_over(const struct work *w, const struct accept_check *check,
                    const struct accept_result *r)
{
    if (r->ended != ACCEPT_PASS || r->repeats >= ACCEPT_REPEATS_MAX)
        return true;
    return r->repeats >= check->repeats && (!check->burn || r->seconds >= w->burn_s);
}

/* What the folder holds of a check, or the beginning of it. */
static enum status open_lane(const struct work *w, const struct accept_check *check,
                             struct accept_result *r, struct lane *lane)
{
    *lane = (struct lane){.check = check, .result = r};
    TRY(accept_store_read(&w->store, check->name, r, &lane->whole));
    if (lane->whole)
        return STATUS_OK;
    strcpy(r->name, check->name);
    snprintf(r->kind, sizeof r->kind, "%s", check->kind->name);
    r->level = check->level;
    r->device = check->device;
    r->wanted = check->repeats;
    r->verdict = ACCEPT_MISSING; /* until it has ended */
    return STATUS_OK;
}

/* Starts the next repeat; behind the last one, keeps what all of them came to. */
static enum status go_on(const struct work *w, struct lane *lane, struct process *child)
{
    if (!is_over(w, lane->check, lane->result))
        return start_repeat(w, lane, child);
    TRY(accept_judge(lane->check, NULL, NULL, lane->result));
    return accept_store_write(&w->store, lane->result, true);
}

/* Until no repeat runs. After a signal none is begun, and those that it ended count for nothing. */
static enum status run_lanes(const struct work *w, struct lane *lane, struct process *child, int n)
{
    int received = 0, k;
    while (process_any(child, n)) {
        TRY(process_wait(&w->signals, child, n, &k));
        if (child[k].end.received)
            received = child[k].end.received;
        if (received)
            continue;
        TRY(end_repeat(w, &lane[k], &child[k].end));
        TRY(go_on(w, &lane[k], &child[k]));
    }
    if (!received)
        return STATUS_OK;
    return status_fail(STATUS_INTERRUPTED, "interrupted by %s; --resume runs what is missing",
                       strsignal(received));
}

/* Runs the n checks at the same time; the end of one, whatever it is, is not that of the others. */
static enum status run_together(const struct work *w, const struct accept_check *check, int n,
                                struct accept_result *r)
{
    struct lane *lane = calloc((size_t)n, sizeof *lane);
    struct process *child = calloc((size_t)n, sizeof *child);
    enum status st = STATUS_OK;
    if (!lane || !child) {
        st = status_fail(STATUS_OOM, "no memory for %d checks at a time", n);
        goto done;
    }
    for (int i = 0; i < n; i++)
        CHECK(open_lane(w, &check[i], &r[i], &lane[i]));
    for (int i = 0; i < n; i++)
        if (!lane[i].whole)
            CHECK(go_on(w, &lane[i], &child[i]));
    CHECK(run_lanes(w, lane, child, n));
done:
    if (child)
        process_kill(child, n);
    free(child);
    free(lane);
    return st;
}

/* --- all of them --- */

static int count_checks(const struct accept_spec *spec, int level)
{
    int n = 0;
    for (int i = 0; i < spec->n_checks; i++)
        n += spec->check[i].level <= level;
    return n;
}

/* Those that burn one after the other: what runs at the same time counts once. */
static int count_burns(const struct accept_spec *spec, int level)
{
    int n = 0;
    for (int i = 0; i < spec->n_checks; i += spec->check[i].together)
        n += spec->check[i].level <= level && spec->check[i].burn;
    return n;
}

/* What each check that burns gets of the hours. Hours that nothing burns for are a burn-in that
 * would be believed to have been passed. */
static enum status burn_seconds(const struct accept_spec *spec, const struct accept_options *o,
                                double *seconds)
{
    int n = count_burns(spec, o->level);
    *seconds = n > 0 ? o->hours * 3600 / n : 0;
    if (n == 0 && o->hours > 0)
        return status_fail(STATUS_USAGE,
                           "--hours: no check of '%s' up to level %d burns in; give a higher "
                           "--level",
                           spec->name, o->level);
    return STATUS_OK;
}

static enum status begin_report(const struct work *w, struct accept_report *report)
{
    const struct accept_spec *spec = w->spec;
    *report = (struct accept_report){
        .level = w->options->level, .check = calloc((size_t)spec->n_checks, sizeof *report->check)};
    if (!report->check)
        return status_fail(STATUS_OOM, "no memory for the results of checks");
    snprintf(report->spec, sizeof report->spec, "%s", spec->name);
    snprintf(report->version, sizeof report->version, "%s", AMPSCALE_VERSION);
    if (gethostname(report->node, sizeof report->node - 1) != 0)
        strcpy(report->node, "unknown");
    environment_time(report->begun);
    return STATUS_OK;
}

static enum status run_all(struct work *w, struct accept_report *report)
{
    const struct accept_check *check = w->spec->check, *end = check + w->spec->n_checks;
    for (; check < end; check += check->together) {
        struct accept_result *r = &report->check[report->n_checks];
        if (check->level > w->options->level)
            continue;
        report->n_checks += check->together;
        TRY(run_together(w, check, check->together, r));
        for (int k = 0; k < check->together; k++) {
            TRY(accept_judge(&check[k], NULL, NULL, &r[k]));
            accept_progress_end(&w->progress, &r[k]);
        }
        if (check == w->spec->check && r->verdict != ACCEPT_PASS)
            break; /* what it would measure is not what the spec is about */
    }
    environment_time(report->ended);
    return accept_judge_report(w->spec, NULL, NULL, report);
}

static void keep_device(struct accept_report *report)
{
    const struct accept_metric *device = accept_metric_find(&report->check[0], "device");
    if (device && device->text)
        snprintf(report->device, sizeof report->device, "%s", device->text[0]);
}

enum status accept_run(const struct accept_spec *spec, const struct accept_options *options,
                       struct accept_report *report)
{
    struct work w = {
        .spec = spec, .options = options, .store = {.lock = -1}, .signals = {.fd = -1}};
    enum status st;
    *report = (struct accept_report){0};
    CHECK(burn_seconds(spec, options, &w.burn_s));
    w.progress = accept_progress_begin(options->progress, count_checks(spec, options->level));
    CHECK(accept_store_open(spec, options->dir, options->resume, &w.store));
    CHECK(process_signals_open(&w.signals));
    CHECK(begin_report(&w, report));
    CHECK(run_all(&w, report));
    keep_device(report);
done:
    process_signals_close(&w.signals);
    accept_store_close(&w.store);
    if (st != STATUS_OK)
        accept_report_free(report);
    return st;
}

/* --- the plan --- */

/* Of a check, and of those at the same time. */
static double seconds_of(const struct accept_check *check, double burn)
{
    return fmax(check->seconds * check->repeats, check->burn ? burn : 0);
}

enum status accept_plan_seconds(const struct accept_spec *spec, const struct accept_options *o,
                                double *seconds)
{
    double burn;
    TRY(burn_seconds(spec, o, &burn));
    *seconds = 0;
    for (int i = 0; i < spec->n_checks; i += spec->check[i].together)
        if (spec->check[i].level <= o->level)
            *seconds += seconds_of(&spec->check[i], burn);
    return STATUS_OK;
}

/* "40 s", "12 min", "3.5 h" */
static void say_seconds(double s, char *out, size_t size)
{
    if (s < 100)
        snprintf(out, size, "%.0f s", s);
    else if (s < 100 * 60)
        snprintf(out, size, "%.0f min", s / 60);
    else
        snprintf(out, size, "%.1f h", s / 3600);
}

/* `beside`: it runs at the same time as the one before. */
static enum status print_check(const struct accept_spec *spec, const struct accept_check *check,
                               const struct accept_options *o, const char *time, bool beside,
                               FILE *out)
{
    char dir[ACCEPT_PATH_SIZE], *line = NULL;
    struct words command = {0};
    enum status st;
    CHECK(path_format(dir, sizeof dir, "%s/checks/%s/r1", o->dir, check->name));
    CHECK(accept_command(spec, check, "ampscale", dir, &command));
    CHECK(words_shell(&command, &line));
    fprintf(out, "%-20s level %d, %d x, about %s%s\n    %s\n", check->name, check->level,
            check->repeats, time, beside ? ", at the same time" : "", line);
done:
    free(line);
    words_free(&command);
    return st;
}

enum status accept_print_plan(const struct accept_spec *spec, const struct accept_options *o,
                              FILE *out)
{
    double all, burn;
    char time[32];
    TRY(burn_seconds(spec, o, &burn));
    TRY(accept_plan_seconds(spec, o, &all));
    for (int i = 0, n; i < spec->n_checks; i += n) {
        const struct accept_check *check = &spec->check[i];
        n = check->together;
        if (check->level > o->level)
            continue;
        say_seconds(seconds_of(check, burn), time, sizeof time);
        for (int k = 0; k < n; k++)
            TRY(print_check(spec, &check[k], o, time, k > 0, out));
    }
    say_seconds(all, time, sizeof time);
    fprintf(out, "%d checks, about %s\n", count_checks(spec, o->level), time);
    return STATUS_OK;
}
