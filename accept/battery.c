/* Running the checks of a spec. */
#include "accept/battery.h"

#include "accept/judge.h"
#include "accept/kind.h"
#include "accept/plan.h"
#include "accept/progress.h"
#include "accept/store.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/process.h"
#include "config.h"
#include "results/environment.h"
#include "results/run.h"

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
    uint64_t begun_ns;
};

/* One of the checks that run at the same time. */
struct lane {
    const struct accept_check *check;
    struct accept_result *result;
    bool whole;                 /* an earlier battery has measured it */
    int64_t room_s;             /* seconds after which its repeat is ended */
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

/* How a command that did not end well is judged: one that found wrong numbers, broke or hung has
 * failed; where what it needs is not there, or the budget was, something is missing. */
static void judge_end(const struct lane *lane, const struct process_end *end,
                      struct accept_result *r)
{
    bool missing =
        end->code == status_exit_code(STATUS_USAGE) || end->code == status_exit_code(STATUS_DATA);
    bool budget = lane->room_s < lane->check->limit_s;
    if (end->late && (budget || lane->check->kind->budget)) /* which ends what hangs by itself */
        end_with(r, ACCEPT_MISSING, "cut off after %lld s, %s", (long long)lane->room_s,
                 budget ? "which the budget left it" : "its limit");
    else if (end->late)
        end_with(r, ACCEPT_FAIL, "not done within the limit of %lld s",
                 (long long)lane->check->limit_s);
    else if (end->code > 128)
        end_with(r, ACCEPT_FAIL, "ended by a signal: %s", strsignal(end->code - 128));
    else if (*end->message)
        end_with(r, missing ? ACCEPT_MISSING : ACCEPT_FAIL, "%s", end->message);
    else
        end_with(r, missing ? ACCEPT_MISSING : ACCEPT_FAIL, "exit code %d without a word",
                 end->code);
}

static enum status drop_weights(const char *dir)
{
    char path[ACCEPT_PATH_SIZE];
    TRY(path_format(path, sizeof path, "%s/run", dir));
    return run_drop_weights(path);
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
    enum status st = check->kind->folder ? drop_weights(dir) : STATUS_OK;
    if (st == STATUS_OK)
        st = read_output(check, dir, &output);
    if (st == STATUS_OK)
        st = check->kind->read(w->spec, check, output, dir, r);
    json_decref(output);
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

/* Seconds that a repeat of the check may take: its own limit, or what the later checks that are
 * asked for, and not measured yet, leave of the budget. A budget that is too small for all is spent
 * on the first ones. */
static int64_t room_for(const struct work *w, const struct accept_check *check)
{
    const struct accept_check *end = w->spec->check + w->spec->n_checks;
    double left = (double)w->options->budget_s - (double)(clock_ns() - w->begun_ns) * 1e-9;
    double later = 0;
    if (w->options->budget_s == 0)
        return check->limit_s;
    for (const struct accept_check *c = check + check->together; c < end; c += c->together)
        if (accept_plan_has(c, w->options) && !accept_store_has(&w->store, c->name))
            later += c->seconds * c->repeats;
    double room = fmax(left - later, fmin(left, check->seconds));
    return room < (double)check->limit_s ? (int64_t)ceil(room) : check->limit_s;
}

static enum status start_repeat(const struct work *w, struct lane *lane, struct process *child)
{
    char log[ACCEPT_PATH_SIZE], out[ACCEPT_PATH_SIZE];
    const struct accept_check *check = lane->check;
    struct words command = {0};
    enum status st;
    lane->room_s = room_for(w, check);
    if (lane->room_s < 1) {
        end_with(lane->result, ACCEPT_MISSING, "not run: the budget of %lld s is used up",
                 (long long)w->options->budget_s);
        return STATUS_OK;
    }
    CHECK(accept_store_repeat(&w->store, check->name, lane->result->repeats + 1, lane->dir));
    CHECK(path_format(log, sizeof log, "%s/log", lane->dir));
    CHECK(path_format(out, sizeof out, "%s/output.json", lane->dir));
    CHECK(accept_command(w->spec, check, w->options->program, lane->dir, lane->room_s, &command));
    CHECK(keep_command(&command, lane->result));
    accept_progress_start(&w->progress, check, lane->result->repeats + 1);
    const struct process_config c = {.argv = command.v,
                                     .log = log,
                                     .out = check->kind->folder ? NULL : out,
                                     .signals = &w->signals,
                                     .limit_s = lane->room_s,
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
    /* What found wrong numbers says which; what could not measure all, lost a part or was cut off,
     * says what it has. */
    if (end->code != status_exit_code(STATUS_USAGE))
        st = read_repeat(w, lane->check, lane->dir, r);
    if (end->late || end->code != 0)
        judge_end(lane, end, r);
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

/* What could not be measured may be by now, and devices that were not there may be. */
static bool is_worth_another(const struct work *w, const struct accept_check *check,
                             const struct accept_result *r)
{
    return r->ended == ACCEPT_MISSING || (check == w->spec->check && r->verdict != ACCEPT_PASS);
}

/* What the folder holds of a check, or the beginning of it. */
static enum status open_lane(const struct work *w, const struct accept_check *check,
                             struct accept_result *r, struct lane *lane)
{
    *lane = (struct lane){.check = check, .result = r};
    TRY(accept_store_read(&w->store, check->name, r, &lane->whole));
    if (lane->whole && is_worth_another(w, check, r)) {
        accept_result_free(r);
        lane->whole = false;
    }
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

/* Starts the next repeat; behind the last one, or where no time is left for one, keeps what all of
 * them measured. */
static enum status go_on(const struct work *w, struct lane *lane, struct process *child)
{
    if (!is_over(w, lane->check, lane->result))
        TRY(start_repeat(w, lane, child));
    if (process_any(child, 1))
        return STATUS_OK;
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

/* What earlier calls measured of checks that are not asked for is part of the results. */
static enum status take_earlier(const struct work *w, const struct accept_check *check,
                                struct accept_report *report)
{
    for (int k = 0; k < check->together; k++) {
        struct accept_result *r = &report->check[report->n_checks];
        bool whole;
        TRY(accept_store_read(&w->store, check[k].name, r, &whole));
        if (whole)
            report->n_checks++;
        else
            accept_result_free(r);
    }
    return STATUS_OK;
}

static enum status run_all(struct work *w, struct accept_report *report)
{
    const struct accept_check *check = w->spec->check, *end = check + w->spec->n_checks;
    for (; check < end; check += check->together) {
        struct accept_result *r = &report->check[report->n_checks];
        if (check->level > w->options->level)
            continue;
        if (!check->asked) {
            TRY(take_earlier(w, check, report));
            continue;
        }
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
    struct work w = {.spec = spec,
                     .options = options,
                     .store = {.lock = -1},
                     .signals = {.fd = -1},
                     .begun_ns = clock_ns()};
    enum status st;
    *report = (struct accept_report){0};
    CHECK(accept_plan_burn(spec, options, &w.burn_s));
    w.progress = accept_progress_begin(options->progress, accept_plan_count(spec, options));
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
