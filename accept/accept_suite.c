/* Runs the checks of a spec. */
#include "accept/accept_suite.h"

#include "accept/accept_judge.h"
#include "accept/accept_kind.h"
#include "accept/accept_spec.h"
#include "base/array.h"
#include "base/bar.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/json.h"
#include "base/process.h"
#include "base/stop.h"
#include "base/text.h"
#include "results/environment.h"
#include "results/run.h"
#include "study/study_progress.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- the folder of a node (accept_result.h); one process at a time works in it --- */

struct accept_store {
    const char *dir;
    int lock; /* inherited by child processes; the owner of the store closes it */
};

enum {
    FILE_MAX_BYTES = 64 << 20,
    LOCK_WAIT_SECONDS = 20, /* in which the commands of a killed call end */
};

static enum status read_object(const char *path, json_t **object)
{
    TRY(json_read(path, FILE_MAX_BYTES, object));
    if (json_is_object(*object))
        return STATUS_OK;
    json_decref(*object);
    *object = NULL;
    return status_fail(STATUS_DATA, "'%s' is no JSON object", path);
}

/* Sets *any to whether the folder holds results of checks. */
static enum status has_results(const char *checks, bool *any)
{
    struct words names = {0};
    enum status st = dir_list(checks, "", &names);
    *any = false;
    for (int i = 0; i < names.n; i++)
        *any = *any || text_ends_with(names.v[i], ".json") || text_ends_with(names.v[i], ".part");
    words_free(&names);
    return st == STATUS_DATA ? STATUS_OK : st; /* there is no folder */
}

/* Writes `is` to `<of>.json`, or compares it with that file. `name`: for the message. */
static enum status keep(const char *of, const char *name, json_t *is,
                        const struct accept_store *store, bool resume)
{
    char path[ACCEPT_PATH_SIZE], checks[ACCEPT_PATH_SIZE];
    const char *key, *other = NULL;
    json_t *was = NULL, *value;
    bool exists, begun;
    TRY(path_format(path, sizeof path, "%s/%s.json", store->dir, of));
    TRY(path_format(checks, sizeof checks, "%s/checks", store->dir));
    TRY(path_look(path, &exists));
    TRY(has_results(checks, &begun));
    if (!exists && !begun)
        return json_write(json_incref(is), ACCEPT_JSON, "%s", path);
    if (!resume)
        return status_fail(
            STATUS_USAGE,
            "'%s' already holds results; --resume continues them, or give another --out",
            store->dir);
    enum status st = exists ? json_read(path, FILE_MAX_BYTES, &was) : STATUS_OK;
    if (st != STATUS_OK && st != STATUS_DATA) /* the file cannot be read now, but may still contain
                                               * the same value */
        return st;
    json_object_foreach(is, key, value)
    {
        other = other || json_equal(value, json_object_get(was, key)) ? other : key;
    }
    if (!other && !json_equal(was, is))
        other = of;
    st = other ? status_fail(STATUS_USAGE,
                             "the results in '%s' are of a %s that differs from '%s' in '%s'; give "
                             "another --out",
                             store->dir, of, name, other)
               : STATUS_OK;
    json_decref(was);
    return st;
}

/* Describes who measures: the node, with its processor and GPUs, and this program. */
static json_t *describe_node(const char *name)
{
    char gpus[4096];
    environment_gpus("GPU UUID:", gpus, sizeof gpus);
    json_t *host = environment_describe(),
           *out = json_new("{s:s, s:s}", "node", name, "gpus", gpus);
    environment_program(out);
    json_put(out, "processor", text_json(json_text_at(json_object_get(host, "cpu"), "model")));
    json_decref(host);
    return out;
}

/* Opens the folder, which is made if it is missing. Writes the spec and who measures into it,
 * and removes the accept.json of an earlier test suite. STATUS_USAGE if the folder holds results of
 * another spec, node or program, or if it holds any results and `resume` is false; STATUS_IO if
 * another process works in the folder, after a wait of 20 seconds. The commands of checks count
 * too: if an earlier call was killed, they write into the folder until they have ended. */
static enum status accept_store_open(const struct accept_spec *spec, const char *node,
                                     const char *dir, bool resume, struct accept_store *store)
{
    json_t *name = NULL;
    enum status st;
    char checks[ACCEPT_PATH_SIZE], verdict[ACCEPT_PATH_SIZE];
    *store = (struct accept_store){.dir = dir, .lock = -1};
    TRY(path_format(checks, sizeof checks, "%s/checks", dir));
    TRY(path_format(verdict, sizeof verdict, "%s/" ACCEPT_FILE, dir));
    TRY(dir_make(checks));
    if (dir_lock(dir, "ampscale accept", 0, &store->lock) != STATUS_OK) {
        fprintf(stderr,
                "ampscale: warning: waiting up to %d s for another 'ampscale accept' in '%s'\n",
                LOCK_WAIT_SECONDS, dir);
        TRY(dir_lock(dir, "ampscale accept", LOCK_WAIT_SECONDS, &store->lock));
    }
    fcntl(store->lock, F_SETFD, 0); /* commands of checks inherit the lock */
    name = describe_node(node);
    CHECK(keep("spec", spec->name, spec->json, store, resume));
    CHECK(keep("node", node, name, store, resume));
    CHECK(file_remove(verdict)); /* this verdict is from an earlier test suite */
    json_decref(name);
    return STATUS_OK;
done:
    json_decref(name);
    fd_close(&store->lock);
    return st;
}

static enum status result_path(const struct accept_store *store, const char *check, bool whole,
                               char path[ACCEPT_PATH_SIZE])
{
    return path_format(path, ACCEPT_PATH_SIZE, "%s/checks/%s%s", store->dir, check,
                       whole ? ".json" : ".part");
}

/* Reads a check's measurements so far, and sets *whole to whether the check has ended. The result
 * is zeroed if the file is missing or, with a warning, damaged. */
static enum status accept_store_read(const struct accept_store *store, const char *check,
                                     struct accept_result *r, bool *whole)
{
    char path[ACCEPT_PATH_SIZE];
    *r = (struct accept_result){0};
    TRY(result_path(store, check, true, path));
    TRY(path_look(path, whole));
    TRY(result_path(store, check, *whole, path));
    bool exists;
    TRY(path_look(path, &exists));
    if (!exists)
        return STATUS_OK;
    json_t *object = NULL;
    enum status st = read_object(path, &object);
    st = st == STATUS_OK ? accept_result_parse(object, r) : st;
    json_decref(object);
    if (st != STATUS_OK && st != STATUS_DATA)
        return st;
    if (st == STATUS_DATA)
        text_print(stderr, "ampscale: warning: '%s' is damaged: its check runs again", path);
    else if (strcmp(r->name, check) != 0)
        accept_result_free(r);
    *whole = *whole && *r->name;
    return STATUS_OK;
}

/* Whether the check has ended, and could be measured. */
static bool accept_store_has(const struct accept_store *store, const char *check)
{
    struct accept_result r;
    bool whole;
    if (accept_store_read(store, check, &r, &whole) != STATUS_OK)
        return false;
    whole = whole && r.ended != VERDICT_MISSING &&
            !host_noise_judge(&r.noise, (char[NOISE_TEXT_MAX]){0});
    accept_result_free(&r);
    return whole;
}

/* Removes the file of partial measurements of a check that has ended. Such a file exists if
 * `ampscale accept` was killed between writing the check's result and removing the file. */
static enum status accept_store_drop_part(const struct accept_store *store, const char *check)
{
    char path[ACCEPT_PATH_SIZE];
    TRY(result_path(store, check, false, path));
    return file_remove(path);
}

/* Writes a check's measurements; `whole`: the check has ended. */
static enum status accept_store_write(const struct accept_store *store,
                                      const struct accept_result *r, bool whole)
{
    char path[ACCEPT_PATH_SIZE];
    TRY(result_path(store, r->name, whole, path));
    TRY(json_write(accept_result_json(r), ACCEPT_JSON, "%s", path));
    return whole ? accept_store_drop_part(store, r->name) : STATUS_OK;
}

/* Writes the path of the folder of repeat number `repeat` to `dir`. */
static enum status accept_store_repeat_path(const struct accept_store *store, const char *check,
                                            int repeat, char dir[ACCEPT_PATH_SIZE])
{
    return path_format(dir, ACCEPT_PATH_SIZE, "%s/checks/%s/r%d", store->dir, check, repeat);
}

/* Read an object from the folder of a repeat: the record that a command of this kind keeps in its
 * folder "work"; and what the command printed or, if it printed nothing, because it was killed,
 * that record: *partial is then true. */
static enum status accept_store_record(const struct accept_kind *kind, const char *dir,
                                       json_t **record)
{
    char path[ACCEPT_PATH_SIZE];
    TRY(path_format(path, sizeof path, "%s/work/%s", dir, kind->work));
    return read_object(path, record);
}

static enum status accept_store_output(const struct accept_kind *kind, const char *dir,
                                       json_t **output, bool *partial)
{
    char path[ACCEPT_PATH_SIZE];
    TRY(path_format(path, sizeof path, "%s/output.json", dir));
    enum status st = read_object(path, output);
    if (st != STATUS_DATA || !kind->work)
        return st;
    st = accept_store_record(kind, dir, output);
    *partial = st == STATUS_OK;
    return st;
}

/* --- the checks of a spec --- */

enum {
    GRACE_SECONDS = 10,
    AGAIN_MAX = 2,     /* further measurements of a disturbed repeat */
    REST_SECONDS = 30, /* a check that was cut off is continued if so many seconds are left */
};

struct work {
    const struct accept_spec *spec;
    const struct accept_options *options;
    struct accept_store store;
    struct process_signals signals;
    struct load_meter meter;
    bool terminal;   /* progress is shown on a terminal */
    int done, total; /* checks */
    double burn_s;   /* seconds of each burn-in check; 0: each check runs the number of repeats in
                      * the spec */
    uint64_t begun_ns;
};

/* One of the checks that run at the same time. */
struct lane {
    const struct accept_check *check;
    struct accept_result *result;
    bool whole;                 /* an earlier accept_run has completed the check */
    bool begun;                 /* an earlier accept_run has begun it, and its results were kept */
    int64_t room_s;             /* time limit of the running repeat, seconds */
    char dir[ACCEPT_PATH_SIZE]; /* folder of the running repeat */
    struct load load;           /* before the running repeat */
    json_t *before;             /* the result before the running repeat */
    int again;                  /* times that the running repeat was measured again */
};

/* --- progress --- */

/* `stays`: the next line of progress does not replace this one. */
static void PRINTF_LIKE(3, 4) say(const struct work *w, bool stays, const char *fmt, ...)
{
    char text[ACCEPT_REASON_SIZE + 256];
    int n = snprintf(text, sizeof text, "[%d/%d] ", w->done, w->total);
    va_list args;
    va_start(args, fmt);
    vsnprintf(text + n, sizeof text - (size_t)n, fmt, args);
    va_end(args);
    study_say(w->options->progress, w->terminal, stays, text);
}

/* --- one repeat --- */

static void PRINTF_LIKE(3, 4)
    end_with(struct accept_result *r, enum verdict v, const char *fmt, ...)
{
    va_list args;
    r->ended = v;
    va_start(args, fmt);
    vsnprintf(r->ended_why, sizeof r->ended_why, fmt, args);
    va_end(args);
}

/* Judges a command that did not complete: FAIL if it found wrong numbers, failed, crashed or hung;
 * MISSING if data or devices are missing, if the command could not be started, if it was too slow
 * for its time budget or while other work disturbed it, or if it was killed and a later call can
 * continue it. */
static void judge_end(const struct lane *lane, const struct process_end *end,
                      const struct host_noise *noise, struct accept_result *r)
{
    char text[NOISE_TEXT_MAX];
    bool missing = end->code == status_exit_code(STATUS_USAGE) ||
                   end->code == status_exit_code(STATUS_DATA) || end->code == PROCESS_NOT_STARTED ||
                   (end->code == 128 + SIGKILL && lane->check->kind->resumes);
    enum verdict v = missing ? VERDICT_MISSING : VERDICT_FAIL;
    bool budget = lane->room_s < lane->check->limit_s;
    /* A command with a budget ends itself if it hangs. If it had to be stopped, it was slow. */
    if (end->late && (budget || lane->check->kind->budget))
        end_with(r, VERDICT_MISSING, "stopped after %lld s, %s", (long long)lane->room_s,
                 budget ? "the rest of the budget" : "its time limit");
    else if (end->late && host_noise_judge(noise, text))
        end_with(r, VERDICT_MISSING,
                 "not done within the limit of %lld s, disturbed: %s; repeat on an idle node",
                 (long long)lane->check->limit_s, text);
    else if (end->late)
        end_with(r, VERDICT_FAIL, "not done within the limit of %lld s",
                 (long long)lane->check->limit_s);
    else if (end->code > 128)
        end_with(r, v, "ended by a signal: %s", strsignal(end->code - 128));
    else if (*end->message)
        end_with(r, v, "%s", end->message);
    else
        end_with(r, v, "exit code %d without a message", end->code);
}

/* Makes the folder of a repeat: an empty one, unless the command continues the record of a call
 * that was killed, or whose results are not complete. */
static enum status make_folder(const struct work *w, struct lane *lane)
{
    const struct accept_check *check = lane->check;
    json_t *record = NULL;
    TRY(accept_store_repeat_path(&w->store, check->name, lane->result->repeats + 1, lane->dir));
    bool kept = lane->begun && check->kind->resumes &&
                accept_store_record(check->kind, lane->dir, &record) == STATUS_OK;
    json_decref(record);
    if (kept)
        return STATUS_OK;
    TRY(dir_remove(lane->dir));
    return dir_make(lane->dir);
}

/* Reads a repeat's output; output that cannot be read makes the check MISSING. */
static enum status read_repeat(const struct work *w, const struct accept_check *check,
                               const char *dir, struct accept_result *r, bool *partial)
{
    char run[ACCEPT_PATH_SIZE];
    json_t *output = NULL;
    enum status st;
    *partial = false;
    CHECK(path_format(run, sizeof run, "%s/run", dir));
    if (check->kind->folder)
        CHECK(run_drop_weights(run));
    else
        CHECK(accept_store_output(check->kind, dir, &output, partial));
    CHECK(accept_read_repeat(w->spec, check, output, dir, r));
done:
    json_decref(output);
    if (st != STATUS_DATA && st != STATUS_IO)
        return st;
    end_with(r, VERDICT_MISSING, "%s", status_message());
    return STATUS_OK;
}

/* Says that the values of a check are not its final ones. */
static void note_partial(const struct accept_check *check, struct accept_result *r)
{
    if (r->ended == VERDICT_PASS)
        end_with(r, VERDICT_MISSING, "the command printed no output");
    text_append(r->ended_why, sizeof r->ended_why,
                "; the values are those of its partial record, %s", check->kind->work);
}

static double seconds_left(const struct work *w)
{
    return (double)w->options->budget_s - (double)(clock_ns() - w->begun_ns) * 1e-9;
}

/* Time limit of a repeat, seconds. Only checks that are selected and not measured yet count as
 * later ones. */
static int64_t room_for(const struct work *w, const struct accept_check *check)
{
    const struct accept_check *end = w->spec->check + w->spec->n_checks;
    double later = 0;
    if (w->options->budget_s == 0)
        return check->limit_s;
    for (const struct accept_check *c = check + check->together; c < end; c += c->together)
        if (accept_plan_has(c, w->options) && !accept_store_has(&w->store, c->name))
            later += c->seconds * c->repeats;
    return accept_plan_room(seconds_left(w), check->seconds, later, check->limit_s);
}

static enum status start_repeat(const struct work *w, struct lane *lane, struct process *child)
{
    char log[ACCEPT_PATH_SIZE], out[ACCEPT_PATH_SIZE], *line = NULL;
    const struct accept_check *check = lane->check;
    struct accept_result *r = lane->result;
    struct words command = {0};
    enum status st;
    lane->room_s = room_for(w, check);
    if (lane->room_s < 1) {
        end_with(r, VERDICT_MISSING, "not run: the budget of %lld s is used up",
                 (long long)w->options->budget_s);
        return STATUS_OK;
    }
    CHECK(make_folder(w, lane));
    CHECK(path_format(log, sizeof log, "%s/log", lane->dir));
    CHECK(path_format(out, sizeof out, "%s/output.json", lane->dir));
    CHECK(accept_command(w->spec, check, w->options->program, lane->dir, lane->room_s, &command));
    json_decref(lane->before);
    lane->before = accept_result_json(r);
    CHECK(words_shell(&command, &line));
    if (!*r->command)
        snprintf(r->command, sizeof r->command, "%s", line);
    say(w, false, "%s, repeat %d, about %.0f s", check->name, r->repeats + 1, check->seconds);
    const struct process_config c = {.argv = command.v,
                                     .log = log,
                                     .out = check->kind->folder ? NULL : out,
                                     .signals = &w->signals,
                                     .limit_s = lane->room_s,
                                     .grace_s = GRACE_SECONDS};
    lane->load = accept_noise_load(&w->meter);
    CHECK(process_start(&c, child));
done:
    free(line);
    words_free(&command);
    return st;
}

/* Drops the measurements of a repeat whose speeds are withheld, to measure it again. Keeps them if
 * the check found a wrong result, if the budget restricts the check, or if the repeat or an earlier
 * one stayed disturbed. */
static enum status keep_repeat(const struct work *w, struct lane *lane)
{
    struct accept_result *r = lane->result;
    char text[NOISE_TEXT_MAX];
    if (!host_noise_judge(&r->noise, text)) {
        lane->again = 0;
        return STATUS_OK;
    }
    TRY(accept_judge(lane->check, r));
    if (r->ended != VERDICT_PASS || !accept_withhold(r) || r->verdict != VERDICT_MISSING ||
        lane->again == AGAIN_MAX || room_for(w, lane->check) < lane->check->limit_s)
        return STATUS_OK;
    lane->again++;
    lane->begun = false; /* measures anew, and continues no record */
    say(w, true, "%s, repeat %d is measured again (%d of %d): %s", r->name, r->repeats, lane->again,
        AGAIN_MAX, r->reason);
    accept_result_free(r);
    return accept_result_parse(lane->before, r);
}

/* Reads the measurements of a repeat that has ended, and stores them. */
static enum status end_repeat(const struct work *w, struct lane *lane,
                              const struct process_end *end)
{
    struct accept_result *r = lane->result;
    struct load load = accept_noise_load(&w->meter);
    struct host_noise noise = load_between(&lane->load, &load);
    enum status st = STATUS_OK;
    bool partial = false;
    r->repeats++;
    accept_noise_keep(r, &noise);
    r->seconds += end->seconds;
    /* A command that found wrong numbers prints them; a command that lacks data or was cut off may
     * have printed its results so far. */
    if (end->code != status_exit_code(STATUS_USAGE))
        st = read_repeat(w, lane->check, lane->dir, r, &partial);
    if (end->late || end->code != 0)
        judge_end(lane, end, &noise, r);
    if (partial)
        note_partial(lane->check, r);
    TRY(st);
    TRY(keep_repeat(w, lane));
    return accept_store_write(&w->store, r, false);
}

/* --- a check, or several at the same time --- */

static bool is_over(const struct work *w, const struct accept_check *check,
                    const struct accept_result *r)
{
    if (r->ended != VERDICT_PASS || r->repeats >= ACCEPT_REPEATS_MAX)
        return true;
    return r->repeats >= check->repeats && (!check->burn || r->seconds >= w->burn_s);
}

static void begin_result(const struct accept_check *check, struct accept_result *r)
{
    strcpy(r->name, check->name);
    snprintf(r->kind, sizeof r->kind, "%s", check->kind->name);
    r->level = check->level;
    r->device = check->device;
    r->wanted = check->repeats;
    r->verdict = VERDICT_MISSING; /* until the check has ended */
}

/* Reads a check's result from the folder, or begins a new result. */
static enum status open_lane(const struct work *w, const struct accept_check *check,
                             struct accept_result *r, struct lane *lane)
{
    *lane = (struct lane){.check = check, .result = r};
    TRY(accept_store_read(&w->store, check->name, r, &lane->whole));
    lane->begun = *r->name;
    if (lane->whole &&
        (r->ended == VERDICT_MISSING || (accept_withhold(r) && r->verdict == VERDICT_MISSING) ||
         (check == w->spec->check && r->verdict != VERDICT_PASS))) {
        accept_result_free(r); /* devices or inputs that the check lacked may be available now */
        lane->whole = false;
    }
    if (lane->whole)
        return accept_store_drop_part(&w->store, check->name);
    begin_result(check, r);
    /* A later call continues the check only if it finds this file: who removes a check's results
     * wants new ones. */
    return check->kind->resumes ? accept_store_write(&w->store, r, false) : STATUS_OK;
}

/* Starts the next repeat. After the last repeat, or if no time is left, judges the check and stores
 * its result. */
static enum status next_repeat(const struct work *w, struct lane *lane, struct process *child)
{
    if (!is_over(w, lane->check, lane->result))
        TRY(start_repeat(w, lane, child));
    if (process_any(child, 1))
        return STATUS_OK;
    TRY(accept_judge(lane->check, lane->result));
    return accept_store_write(&w->store, lane->result, true);
}

/* Runs the repeats of n checks until no repeat is left. After a signal, starts no further repeat,
 * and ignores the results of repeats that are still running. */
static enum status run_lanes(const struct work *w, struct lane *lane, struct process *child, int n)
{
    int k;
    while (process_any(child, n)) {
        TRY(process_wait(&w->signals, child, n, &k));
        if (stop_requested())
            continue;
        TRY(end_repeat(w, &lane[k], &child[k].end));
        TRY(next_repeat(w, &lane[k], &child[k]));
    }
    if (!stop_requested())
        return STATUS_OK;
    return status_fail(STATUS_INTERRUPTED, "interrupted by %s; --resume runs the remaining checks",
                       stop_requested());
}

/* Runs n checks at the same time; if one fails, the others continue. */
static enum status run_together(const struct work *w, const struct accept_check *check, int n,
                                struct accept_result *r)
{
    struct lane *lane = NULL;
    struct process *child = NULL;
    enum status st;
    CHECK(array_new(&lane, n));
    CHECK(array_new(&child, n));
    for (int i = 0; i < n; i++)
        CHECK(open_lane(w, &check[i], &r[i], &lane[i]));
    for (int i = 0; i < n; i++)
        if (!lane[i].whole)
            CHECK(next_repeat(w, &lane[i], &child[i]));
    CHECK(run_lanes(w, lane, child, n));
done:
    if (child)
        process_kill(child, n);
    for (int i = 0; lane && i < n; i++)
        json_decref(lane[i].before);
    free(child);
    free(lane);
    return st;
}

/* --- all of them --- */

static enum status begin_report(const struct work *w, struct accept_report *report)
{
    const struct accept_spec *spec = w->spec;
    *report = (struct accept_report){.level = w->options->level};
    TRY(array_new(&report->check, spec->n_checks));
    snprintf(report->spec, sizeof report->spec, "%s", spec->name);
    snprintf(report->version, sizeof report->version, "%s", environment_version());
    if (w->options->name)
        snprintf(report->node, sizeof report->node, "%s", w->options->name);
    else if (gethostname(report->node, sizeof report->node - 1) != 0)
        strcpy(report->node, "unknown");
    environment_time(report->begun);
    return STATUS_OK;
}

/* Adds to `r`, which holds the finished repeats of a check, the values of a repeat during which an
 * earlier call was killed. */
static enum status take_interrupted(const struct work *w, const struct accept_check *check,
                                    struct accept_result *r)
{
    char dir[ACCEPT_PATH_SIZE];
    bool partial = false, exists;
    begin_result(check, r);
    TRY(accept_store_repeat_path(&w->store, check->name, r->repeats + 1, dir));
    TRY(path_look(dir, &exists));
    if (exists) {
        r->repeats++;
        TRY(read_repeat(w, check, dir, r, &partial));
    }
    if (r->ended != VERDICT_FAIL)
        end_with(r, VERDICT_MISSING, "interrupted; --resume runs it again");
    if (partial)
        note_partial(check, r);
    return STATUS_OK;
}

/* For a check that is not selected now, adds the result of an earlier call. */
static enum status take_earlier(const struct work *w, const struct accept_check *check,
                                struct accept_report *report)
{
    for (int k = 0; k < check->together; k++) {
        struct accept_result *r = &report->check[report->n_checks];
        bool whole;
        TRY(accept_store_read(&w->store, check[k].name, r, &whole));
        if (!whole)
            TRY(take_interrupted(w, &check[k], r));
        if (whole || r->repeats > 0)
            report->n_checks++;
        else
            accept_result_free(r);
    }
    return STATUS_OK;
}

/* Runs n checks at the same time, and judges them. */
static enum status run_checks(struct work *w, const struct accept_check *check, int n,
                              struct accept_result *r)
{
    TRY(run_together(w, check, n, r));
    for (int k = 0; k < n; k++) {
        TRY(accept_judge(&check[k], &r[k]));
        w->done++;
        say(w, true, "%-7s %s (%.1f s)%s%s", verdict_str(r[k].verdict), r[k].name, r[k].seconds,
            *r[k].reason ? ": " : "", r[k].reason);
    }
    return STATUS_OK;
}

/* Continues checks that were cut off, in the time that all others left. */
static enum status run_rest(struct work *w, struct accept_report *report)
{
    for (int i = 0; i < report->n_checks; i++) {
        struct accept_result *r = &report->check[i];
        const struct accept_check *check = w->spec->check;
        while (strcmp(check->name, r->name) != 0)
            check++;
        if (!check->asked || !check->kind->resumes || r->ended != VERDICT_MISSING ||
            seconds_left(w) < REST_SECONDS)
            continue;
        accept_result_free(r);
        w->done--;
        TRY(run_checks(w, check, 1, r));
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
        TRY(run_checks(w, check, check->together, r));
        if (check == w->spec->check && r->verdict != VERDICT_PASS)
            break; /* the spec is not for this hardware */
    }
    TRY(run_rest(w, report));
    environment_time(report->ended);
    return accept_judge_report(w->spec, report);
}

enum status accept_run(const struct accept_spec *spec, const struct accept_options *options,
                       struct accept_report *report)
{
    struct work w = {.spec = spec,
                     .options = options,
                     .store = {.lock = -1},
                     .signals = {.fd = -1},
                     .terminal = options->progress && bar_redraws(options->progress),
                     .total = accept_plan_count(spec, options),
                     .begun_ns = clock_ns()};
    enum status st;
    *report = (struct accept_report){0};
    CHECK(accept_plan_burn(spec, options, &w.burn_s));
    CHECK(begin_report(&w, report));
    CHECK(accept_store_open(spec, report->node, options->dir, options->resume, &w.store));
    CHECK(process_signals_open(&w.signals));
    load_open(&w.meter, options->proc, NULL);
    CHECK(run_all(&w, report));
    const struct accept_metric *device = accept_metric_find(&report->check[0], "device");
    if (device && device->text)
        snprintf(report->device, sizeof report->device, "%s", device->text[0]);
done:
    process_signals_close(&w.signals);
    fd_close(&w.store.lock);
    if (st != STATUS_OK)
        accept_report_free(report);
    return st;
}
