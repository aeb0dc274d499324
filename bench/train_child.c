/* Runs trainings as child processes. After a failure, tries the lower rungs of the row's ladder:
 * slower ways to compute a step (engine/ladder.h). */
#include "bench/train_child.h"

#include "base/clock.h"
#include "base/folder.h"
#include "base/json.h"
#include "base/stop.h"
#include "base/text.h"

#include <ctype.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* A child that ignores signals is killed after the grace period. The reserve is the part of the
 * budget that is kept free for killing a child. */
enum { GRACE_SECONDS = 2, RESERVE_SECONDS = 2 * GRACE_SECONDS + 1 };
#define RESERVE_SHARE 0.25 /* the reserve is at most this fraction of the budget */
#define FIRST_SHARE   0.7  /* least fraction of the time left that a turn gets before any result */
#define LIMIT_SHARE   0.4  /* the same after a result */

/* --- time --- */

struct time_budget time_budget_begin(double seconds)
{
    return (struct time_budget){.seconds = seconds, .begun_ns = clock_ns()};
}

double time_budget_left(const struct time_budget *b)
{
    if (b->seconds == 0)
        return INFINITY;
    double reserve = fmin(RESERVE_SECONDS, RESERVE_SHARE * b->seconds);
    return b->seconds - reserve - (double)(clock_ns() - b->begun_ns) * 1e-9;
}

int64_t time_budget_share(const struct time_budget *b, double left, bool again, int64_t most)
{
    double share = (b->measured ? LIMIT_SHARE : FIRST_SHARE) * left;
    double limit = fmax(share, left - TURN_SECONDS * (b->after + again));
    return left < 1 ? 0 : (int64_t)fmin((double)most, fmax(1, limit));
}

int64_t time_budget_limit(const struct time_budget *b, bool again, int64_t most)
{
    return time_budget_share(b, time_budget_left(b), again, most);
}

/* --- the ladder of a row --- */

/* Returns the name of a rung (the bits are in engine/ladder.h): "auto", "fuse none", "no graph" or
 * "fuse none, no graph". */
static const char *train_rung_str(int rung)
{
    static char name[RUNG_COUNT][RUNG_NAME_MAX];
    const struct ladder none_named = {.fuse = FUSE_AUTO};
    ladder_rung_name(&none_named, rung, name[rung]);
    return name[rung];
}

json_t *train_falls_json(const struct train_ladder *l)
{
    json_t *falls = json_array();
    for (int i = 0; i < l->n_falls; i++)
        json_add(falls, json_new("{s:s, s:s}", "rung", train_rung_str(l->fall[i].rung), "why",
                                 l->fall[i].why));
    return falls;
}

void train_falls_print(const struct train_ladder *l, const char *printed, FILE *out)
{
    for (int i = 0; i < l->n_falls; i++)
        if (strcmp(l->fall[i].why, printed) != 0)
            fprintf(out, "    '%s' failed: %s\n", train_rung_str(l->fall[i].rung), l->fall[i].why);
}

static int find_rung(const char *name)
{
    for (int r = 0; r < RUNG_COUNT; r++)
        if (strcmp(name, train_rung_str(r)) == 0)
            return r;
    return -1;
}

static void add_fall(struct train_ladder *l, int rung, const char *why)
{
    for (int i = 0; i < l->n_falls; i++)
        if (l->fall[i].rung == rung)
            return;
    if (l->n_falls == RUNG_COUNT)
        return;
    struct train_fall *f = &l->fall[l->n_falls++];
    f->rung = rung;
    text_clean(f->why, sizeof f->why, why);
}

void train_ladder_close(struct train_ladder *l)
{
    json_decref(l->fusions);
    l->fusions = NULL;
}

/* Adds the falls of a record's list to the ladder. */
static void take_falls(struct train_ladder *l, const json_t *falls)
{
    const json_t *fall;
    size_t i;
    json_array_foreach(falls, i, fall)
    {
        int from = find_rung(json_text_at(fall, "rung"));
        if (from >= 0)
            add_fall(l, from, json_text_at(fall, "why"));
    }
}

/* Sets how the runs of the row compute, from a record that names it. */
static void take_way(struct train_ladder *l, const json_t *from)
{
    const char *fuse = json_text_at(from, "fuse");
    const json_t *graphs = json_object_get(from, "graphs");
    int rung = find_rung(json_text_at(from, "rung"));
    l->reported = *fuse && json_is_boolean(graphs);
    l->graphs = json_is_true(graphs);
    text_clean(l->fuse, sizeof l->fuse, fuse);
    if (!l->fixed && rung >= 0)
        l->rung = rung;
}

void train_ladder_resume(struct train_ladder *l, const json_t *row)
{
    take_way(l, row);
    take_falls(l, json_object_get(row, "falls"));
    l->proven = true;
    l->fusions = json_deep_copy(json_object_get(row, "fusions"));
}

/* Reads from the run's summary the rung on which `train` ran. All runs of a row use the same rung:
 * the requested rung, or the rung of the first successful run. A later run that continued on a
 * lower rung gives no result. */
static void take_ladder(const struct run *run, struct train_ladder *l)
{
    const json_t *said = json_object_get(run->summary, "ladder");
    const json_t *falls = json_object_get(said, "falls");
    if (!said)
        return;
    if (!l->fixed && !l->proven)
        take_falls(l, falls);
    else if (json_array_size(falls) > 0)
        snprintf(l->why, sizeof l->why, "fell to '%.32s': %.300s", json_text_at(said, "rung"),
                 json_text_at(json_array_get(falls, json_array_size(falls) - 1), "why"));
    if (!*l->why)
        take_way(l, said);
}

/* --- the state that runs share --- */

enum status train_work_open(struct train_work *w, const struct bench_options *o)
{
    enum { LOCK_WAIT_SECONDS = 5 };
    w->devices = o->devices;
    w->budget = time_budget_begin(o->budget_s);
    w->out = o->dir;
    w->signals.fd = w->lock = -1;
    if (!w->program)
        TRY(process_own_file(w->own, sizeof w->own));
    w->program = w->program ? w->program : w->own;
    TRY(process_signals_open(&w->signals));
    TRY(temporary_dir_make(&w->scratch, "/var/tmp", "ampscale-train"));
    w->dir = w->out ? w->out : w->scratch.path;
    TRY(dir_make(w->dir));
    if (!w->out)
        return STATUS_OK; /* the temporary folder has a lock */
    return dir_lock(w->dir, "ampscale bench", LOCK_WAIT_SECONDS, &w->lock);
}

enum status train_work_close(struct train_work *w, enum status st)
{
    struct first_failure first = {0};
    first_failure_keep(&first, st);
    first_failure_keep(&first, temporary_dir_remove(&w->scratch));
    process_signals_close(&w->signals);
    fd_close(&w->lock);
    return first_failure_return(&first);
}

/* Replaces characters that are no letters or digits by dashes, and several of them by one dash. */
static void make_name(char *text)
{
    char *to = text;
    for (const char *c = text; *c; c++)
        if (isalnum((unsigned char)*c))
            *to++ = *c;
        else if (to == text || to[-1] != '-')
            *to++ = '-';
    *to = '\0';
}

/* Sets `out` to the folder of a run: "<dir>/runs/NAME", with the name as make_name makes it. Makes
 * "<dir>/runs". */
static enum status train_work_path(const struct train_work *w, const char *name,
                                   char out[TRAIN_PATH_SIZE])
{
    TRY(path_format(out, TRAIN_PATH_SIZE, "%s/runs", w->dir));
    TRY(dir_make(out));
    TRY(path_format(out, TRAIN_PATH_SIZE, "%s/runs/%s", w->dir, name));
    make_name(out + strlen(out) - strlen(name));
    return STATUS_OK;
}

enum status train_work_keep(const struct train_work *w, const char *file, json_t *record)
{
    if (w->out)
        return json_write(record, JSON_RECORD, "%s/%s", w->out, file);
    json_decref(record);
    return STATUS_OK;
}

const char *train_work_device(const struct train_work *w)
{
    return *w->device ? w->device : w->devices;
}

static bool has_rungs(const struct train_work *w)
{
    return strncmp(w->devices, "cuda", 4) == 0;
}

const char *train_work_rung(const struct train_work *w, const struct train_ladder *l)
{
    return has_rungs(w) && !l->fixed ? train_rung_str(l->rung) : NULL;
}

/* Takes the device's description. A run on another device than the first one gives no result: the
 * results of an earlier call may be of another GPU or library. */
static void take_device(struct train_work *w, const struct run *run, struct train_ladder *l)
{
    char device[TRAIN_DEVICE_SIZE];
    text_clean(device, sizeof device, json_text_at(run->info, "device"));
    if (!*w->device)
        strcpy(w->device, device);
    if (*device && strcmp(device, w->device) != 0)
        snprintf(l->why, sizeof l->why,
                 "earlier results are of another device: '%.160s', not '%.160s'", w->device,
                 device);
}

/* --- runs --- */

static enum status run_child(const struct train_work *w, const struct words *command,
                             const char *log, int64_t limit_s, struct process_end *end)
{
    const struct process_config c = {.argv = command->v,
                                     .log = log,
                                     .signals = &w->signals,
                                     .limit_s = limit_s,
                                     .grace_s = GRACE_SECONDS};
    if (w->lock >= 0)
        fcntl(w->lock, F_SETFD, 0); /* the training of a killed call holds the folder to its end */
    enum status st = process_run(&c, end);
    if (w->lock >= 0)
        fcntl(w->lock, F_SETFD, FD_CLOEXEC); /* a peer, which may hang, does not */
    TRY(st);
    return stop_check();
}

/* Sets `log` to the name of the log of a run that starts now. */
static enum status name_log(const struct train_work *w, const struct train_ladder *l,
                            const char *dir, char log[TRAIN_PATH_SIZE])
{
    char rung[RUNG_NAME_MAX + 1] = "";
    if (has_rungs(w) && !l->fixed)
        snprintf(rung, sizeof rung, "-%s", train_rung_str(l->rung));
    make_name(rung);
    return path_format(log, TRAIN_PATH_SIZE, "%s%s.log", dir, rung);
}

/* Runs `train` once. --no-checkpoint keeps hundreds of megabytes of weights from being written for
 * nothing, also by a run that is killed. */
static enum status run_rung(const struct train_work *w, const struct words *args, const char *dir,
                            const struct train_ladder *l, int64_t limit_s, struct process_end *end)
{
    char log[TRAIN_PATH_SIZE];
    struct words command = {0};
    enum status st;
    CHECK(dir_remove(dir));
    CHECK(name_log(w, l, dir, log));
    CHECK(words_add_all(&command, w->program, "train", NULL));
    CHECK(words_add_list(&command, args->n, args->v));
    CHECK(words_add_all(&command, "--no-checkpoint", "--devices", w->devices, NULL));
    if (l->rung & RUNG_UNFUSED)
        CHECK(words_add_all(&command, "--plans", "1", "--fuse", "none", NULL));
    if (l->rung & RUNG_NO_GRAPH)
        CHECK(words_add(&command, "--no-graph"));
    CHECK(words_add_all(&command, "--out", dir, NULL));
    CHECK(run_child(w, &command, log, limit_s, end));
done:
    words_free(&command);
    return st;
}

/* Sets `why` to a text that says how a child failed. Leaves out the flags that may help: the lower
 * rungs are these flags, and a device that is broken has the same text on all of them. */
static void explain_end(const struct process_end *end, int64_t limit_s, char why[TRAIN_WHY_SIZE])
{
    const char *colon = *end->message ? ": " : "", *flags = strstr(end->message, "; try --");
    int n = (int)(flags ? (size_t)(flags - end->message) : strlen(end->message));
    if (end->late)
        snprintf(why, TRAIN_WHY_SIZE, "not done within %lld s", (long long)limit_s);
    else if (end->code > 128)
        snprintf(why, TRAIN_WHY_SIZE, "ended by a signal (%s)%s%.*s", strsignal(end->code - 128),
                 colon, n, end->message);
    else
        snprintf(why, TRAIN_WHY_SIZE, "exit code %d%s%.*s", end->code, colon, n, end->message);
}

/* Reads the record and the rung of a successful run. */
static enum status take_run(struct train_work *w, const char *dir, struct train_ladder *l,
                            struct run **run)
{
    TRY(run_load(dir, run));
    take_device(w, *run, l);
    take_ladder(*run, l);
    if (!(*run)->summary)
        snprintf(l->why, sizeof l->why, "the run has no summary.json");
    if (!*l->why) {
        l->proven = w->budget.measured = true;
        train_ladder_close(l);
        l->fusions = json_deep_copy(json_object_get((*run)->info, "fusions"));
        l->noise = host_noise_read((*run)->summary);
        return STATUS_OK;
    }
    run_free(*run);
    *run = NULL;
    return STATUS_OK;
}

/* Whether every rung of the row failed with the same message. */
static bool failed_alike(const struct train_ladder *l)
{
    for (int i = 1; i < l->n_falls; i++)
        if (strcmp(l->fall[i].why, l->fall[0].why) != 0)
            return false;
    return l->n_falls == RUNG_COUNT;
}

/* Decides whether a row has another run after one that failed for the reason l->why. Sets l->rung
 * to the rung of its next run. */
static bool tries_again(struct train_work *w, const struct process_end *end, struct train_ladder *l)
{
    if (l->proven || end->late)
        return false;
    /* Wrong arguments and missing data fail on every rung, and so does a device that has failed in
     * this way on all rungs of an earlier row. */
    if (l->fixed || !has_rungs(w) || end->code == status_exit_code(STATUS_USAGE) ||
        end->code == status_exit_code(STATUS_DATA) || strcmp(l->why, w->broken) == 0) {
        l->rung = RUNG_COUNT;
        return false;
    }
    add_fall(l, l->rung, l->why);
    l->rung++;
    if (failed_alike(l))
        snprintf(w->broken, sizeof w->broken, "%s", l->why);
    return l->rung < RUNG_COUNT;
}

enum status train_child_run(struct train_work *w, const struct words *args, const char *dir,
                            struct train_ladder *l, struct run **run)
{
    bool more = l->rung < RUNG_COUNT;
    *run = NULL;
    while (more) {
        struct process_end end;
        int64_t limit_s =
            time_budget_limit(&w->budget, has_rungs(w) && !l->proven && !l->cut, w->limit_s);
        if (limit_s == 0) {
            snprintf(l->why, sizeof l->why, "no time was left");
            return STATUS_OK;
        }
        TRY(run_rung(w, args, dir, l, limit_s, &end));
        *l->why = '\0';
        l->cut = end.late;
        if (end.code == 0) {
            *w->broken = '\0';
            return take_run(w, dir, l, run);
        }
        explain_end(&end, limit_s, l->why);
        more = tries_again(w, &end, l);
    }
    return STATUS_OK;
}

enum status train_work_photos(struct train_work *w, const struct train_photos *photos,
                              char why[TRAIN_WHY_SIZE])
{
    char dir[TRAIN_PATH_SIZE], log[TRAIN_PATH_SIZE];
    struct words command = {0};
    struct process_end end = {0};
    int64_t limit_s = time_budget_limit(&w->budget, false, w->limit_s);
    enum status st = STATUS_OK;
    if (w->photos_made)
        return STATUS_OK;
    snprintf(why, TRAIN_WHY_SIZE, "no time was left");
    if (limit_s == 0)
        return STATUS_OK;
    CHECK(path_format(dir, sizeof dir, "%s/photos", w->scratch.path));
    CHECK(path_format(log, sizeof log, "%s/photos.log", w->dir));
    CHECK(words_add_all(&command, w->program, "data", "synth", NULL));
    CHECK(words_add(&command, "--out=%s", dir));
    CHECK(words_add(&command, "--classes=%d", photos->classes));
    CHECK(words_add(&command, "--train=%d", photos->train));
    CHECK(words_add(&command, "--val=%d", photos->val));
    CHECK(words_add(&command, "--size=%d", photos->size));
    CHECK(run_child(w, &command, log, limit_s, &end));
    w->photos_made = end.code == 0;
    if (!w->photos_made)
        explain_end(&end, limit_s, why);
done:
    words_free(&command);
    return st;
}

enum status train_work_measure(struct train_work *w, const struct words *args, const char *name,
                               const char *group, const char *key, struct train_ladder *ladder,
                               double *value, char why[TRAIN_WHY_SIZE])
{
    char dir[TRAIN_PATH_SIZE];
    struct run *run;
    *value = NAN;
    TRY(train_work_path(w, name, dir));
    TRY(train_child_run(w, args, dir, ladder, &run));
    if (run)
        *value = json_number_at(json_object_get(run->summary, group), key);
    snprintf(why, TRAIN_WHY_SIZE, "%s", ladder->why);
    if (run && isnan(*value))
        snprintf(why, TRAIN_WHY_SIZE, "the run's summary has no %s.%s", group, key);
    run_free(run);
    return STATUS_OK;
}
