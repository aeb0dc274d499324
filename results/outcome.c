/* Writes and reads outcome.json, and looks for a run's process. */
#include "results/outcome.h"

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "results/environment.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

enum { PROCESS_TEXT_MAX = 128 };

const char *run_state_str(enum run_state state)
{
    static const char *const names[RUN_STATE_MAX] = {
        [RUN_UNKNOWN] = "incomplete",
        [RUN_ALIVE] = "running",
        [RUN_GONE] = "killed",
        [RUN_DONE] = "done",
        [RUN_ACCURATE] = "desired accuracy",
        [RUN_SIGNAL] = "signal",
        [RUN_DIVERGED] = "diverged",
        [RUN_LOST_RANK] = "lost rank",
        [RUN_ERROR] = "error",
    };
    return names[state];
}

/* ---- writing ---- */

static enum run_state state_of(enum status st, const char *message)
{
    switch (st) {
    case STATUS_OK:
        return strcmp(message, run_state_str(RUN_ACCURATE)) == 0 ? RUN_ACCURATE : RUN_DONE;
    case STATUS_INTERRUPTED:
        return RUN_SIGNAL;
    case STATUS_DIVERGED:
        return RUN_DIVERGED;
    case STATUS_LOST_RANK:
        return RUN_LOST_RANK;
    default:
        return RUN_ERROR;
    }
}

enum status outcome_write(const char *dir, int64_t attempt, enum status st, const char *message)
{
    char now[ENVIRONMENT_TIME_MAX];
    double now_s = environment_time(now);
    json_t *out = json_new("{s:i, s:I, s:s, s:i, s:s, s:f, s:o}", "schema", RUN_SCHEMA, "attempt",
                           (json_int_t)attempt, "outcome", run_state_str(state_of(st, message)),
                           "exit_code", status_exit_code(st), "ended", now, "ended_s", now_s,
                           "message", text_json(message));
    return json_write(out, JSON_INDENT(2), "%s/outcome.json", dir);
}

/* ---- processes ---- */

/* Sets *ticks to the time at which process `pid` started, in clock ticks since the system started.
 * This is field 22 of /proc/PID/stat. Fields are counted from the end of the process's name,
 * because the name may contain spaces. Returns false if there is no such process. */
static bool process_start_ticks(int64_t pid, int64_t *ticks)
{
    char path[64], line[1024];
    snprintf(path, sizeof path, "/proc/%" PRId64 "/stat", pid);
    FILE *f = fopen(path, "re");
    if (!f)
        return false;
    size_t size = fread(line, 1, sizeof line - 1, f);
    fclose(f);
    line[size] = '\0';
    char state;
    const char *after = strrchr(line, ')');
    return after &&
           sscanf(after,
                  ") %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d "
                  "%" SCNd64,
                  &state, ticks) == 2 &&
           state != 'Z' && state != 'X';
}

/* Writes the scope in which process numbers are unique: the system's boot id and the PID namespace;
 * "": not known. */
static void process_system(char out[PROCESS_TEXT_MAX])
{
    char boot[64], space[48];
    if (!file_first_line("/proc/sys/kernel/random/boot_id", boot, sizeof boot))
        boot[0] = '\0';
    ssize_t n = readlink("/proc/self/ns/pid", space, sizeof space - 1);
    space[n > 0 ? n : 0] = '\0';
    snprintf(out, PROCESS_TEXT_MAX, "%s%s%s", boot, *boot && *space ? "/" : "", *boot ? space : "");
}

json_t *outcome_process(void)
{
    char system[PROCESS_TEXT_MAX];
    int64_t ticks = 0;
    process_system(system);
    if (!process_start_ticks(getpid(), &ticks))
        system[0] = '\0';
    return json_new("{s:i, s:I, s:s}", "pid", (int)getpid(), "start_ticks", (json_int_t)ticks,
                    "system", system);
}

/* Returns RUN_ALIVE if the process of the last attempt still runs, else RUN_GONE; RUN_UNKNOWN if
 * the attempt ran on another system. */
static enum run_state look_for_process(const struct run *run)
{
    char system[PROCESS_TEXT_MAX];
    const char *theirs = json_text_at(run->process, "system");
    int64_t ticks;
    process_system(system);
    if (!*theirs || strcmp(theirs, system) != 0)
        return RUN_UNKNOWN;
    int64_t pid = json_integer_value(json_object_get(run->process, "pid"));
    bool runs = process_start_ticks(pid, &ticks) &&
                ticks == json_integer_value(json_object_get(run->process, "start_ticks"));
    return runs ? RUN_ALIVE : RUN_GONE;
}

/* ---- reading ---- */

/* Returns outcome.json if the last attempt wrote it, else NULL. */
static const json_t *last_outcome(const struct run *run)
{
    const json_t *attempt = json_object_get(run->outcome, "attempt");
    bool last = json_is_integer(attempt) && json_integer_value(attempt) == run->resumes;
    return last ? run->outcome : NULL;
}

enum run_state outcome_recorded(const struct run *run)
{
    const char *name = json_text_at(last_outcome(run), "outcome");
    for (int i = RUN_DONE; i < RUN_STATE_MAX; i++)
        if (strcmp(name, run_state_str((enum run_state)i)) == 0)
            return (enum run_state)i;
    return run->summary ? RUN_DONE : RUN_UNKNOWN;
}

enum run_state outcome_state(const struct run *run)
{
    enum run_state state = outcome_recorded(run);
    return state == RUN_UNKNOWN ? look_for_process(run) : state;
}

void outcome_sentence(const struct run *run, enum run_state state, char *out, size_t size)
{
    char host[64], message[STATUS_MESSAGE_MAX];
    const json_t *outcome = last_outcome(run);
    long long pid = json_integer_value(json_object_get(run->process, "pid"));
    text_clean(message, sizeof message, json_text_at(outcome, "message"));
    text_clean(host, sizeof host, json_text_at(json_object_get(run->info, "host"), "hostname"));
    if (state == RUN_GONE)
        snprintf(out, size, "killed: process %lld of host %s ended and wrote no outcome", pid,
                 host);
    else if (state == RUN_ALIVE)
        snprintf(out, size, "running: process %lld of host %s", pid, host);
    else if (state == RUN_UNKNOWN)
        snprintf(out, size, "incomplete: no outcome was recorded on host %s", host);
    else if (outcome)
        snprintf(out, size, "%s, exit code %lld: %s", run_state_str(state),
                 (long long)json_integer_value(json_object_get(outcome, "exit_code")), message);
    else
        snprintf(out, size, "%s", run_state_str(state));
}

void outcome_note(const struct run *run, FILE *out)
{
    char text[STATUS_MESSAGE_MAX + 256];
    if (run->summary || !out)
        return;
    outcome_sentence(run, outcome_state(run), text, sizeof text);
    fprintf(out, "note: run '%s' is not complete: %s\n", run->name, text);
}
