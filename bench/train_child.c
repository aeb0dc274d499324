/* Training runs as child processes, down the ladder of a row. */
#include "bench/train_child.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "bench/micro.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A child that does not react is killed after twice the grace. */
enum { GRACE_SECONDS = 2, RESERVE_SECONDS = 2 * GRACE_SECONDS + 1 };
#define RESERVE_SHARE 0.25 /* of a small budget */
#define LIMIT_SHARE   0.4

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

int64_t time_budget_limit(const struct time_budget *b, int64_t most)
{
    double left = time_budget_left(b);
    if (left < 1)
        return 0;
    return (int64_t)fmin((double)most, fmax(1, LIMIT_SHARE * left));
}

/* --- the ladder of a row --- */

const char *train_rung_str(int rung)
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
        json_array_append_new(falls,
                              json_pack("{s:s, s:s}", "rung", train_rung_str(l->fall[i].rung),
                                        "why", l->fall[i].why));
    return falls;
}

static int find_rung(const char *name)
{
    for (int r = 0; name && r < RUNG_COUNT; r++)
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

/* Takes over what `train` itself says of the way that it computed. All runs of a row are of one
 * rung, and of the one that was named where one was: a run that fell from there is none of the
 * row's. */
static void take_ladder(const struct run *run, struct train_ladder *l)
{
    const json_t *said = json_object_get(run->summary, "ladder"), *fall;
    const char *fuse = json_string_value(json_object_get(said, "fuse"));
    const char *name = json_string_value(json_object_get(said, "rung"));
    int rung = find_rung(name);
    size_t i;
    if (!said)
        return;
    json_array_foreach(json_object_get(said, "falls"), i, fall)
    {
        int from = find_rung(json_string_value(json_object_get(fall, "rung")));
        const char *why = json_string_value(json_object_get(fall, "why"));
        if (l->fixed || l->proven)
            snprintf(l->why, sizeof l->why, "fell to '%.32s': %.300s", name ? name : "",
                     why ? why : "");
        else if (from >= 0)
            add_fall(l, from, why ? why : "");
    }
    if (*l->why)
        return;
    l->reported = fuse && json_is_boolean(json_object_get(said, "graphs"));
    l->graphs = json_is_true(json_object_get(said, "graphs"));
    text_clean(l->fuse, sizeof l->fuse, fuse ? fuse : "");
    if (!l->fixed && rung >= 0)
        l->rung = rung;
}

/* --- what runs have in common --- */

enum status train_work_open(struct train_work *w, const char *out)
{
    const char *where = getenv("TMPDIR");
    char dir[TRAIN_PATH_SIZE];
    w->out = out;
    w->held = w->signals.fd = -1;
    TRY(process_signals_open(&w->signals));
    TRY(path_format(dir, sizeof dir, "%s/ampscale-train-XXXXXX", where ? where : "/var/tmp"));
    TRY(dir_make_temporary(dir, &w->held));
    strcpy(w->scratch, dir);
    w->dir = out ? out : w->scratch;
    return dir_make(w->dir);
}

enum status train_work_close(struct train_work *w, enum status st)
{
    struct first_failure first = {0};
    first_failure_keep(&first, st);
    if (*w->scratch)
        first_failure_keep(&first, dir_remove(w->scratch));
    if (w->held >= 0)
        close(w->held);
    process_signals_close(&w->signals);
    return first_failure_tell(&first);
}

enum status train_work_path(const struct train_work *w, const char *name, char out[TRAIN_PATH_SIZE])
{
    TRY(path_format(out, TRAIN_PATH_SIZE, "%s/runs", w->dir));
    TRY(dir_make(out));
    TRY(path_format(out, TRAIN_PATH_SIZE, "%s/runs/%s", w->dir, name));
    for (char *c = out + strlen(out) - strlen(name); *c; c++)
        *c = isalnum((unsigned char)*c) ? *c : '-';
    return STATUS_OK;
}

enum status train_work_keep(const struct train_work *w, const char *file, json_t *record)
{
    char path[TRAIN_PATH_SIZE];
    if (!w->out) {
        json_decref(record);
        return STATUS_OK;
    }
    TRY(path_format(path, sizeof path, "%s/%s", w->out, file));
    return bench_record_write(record, path);
}

const char *train_work_device(const struct train_work *w)
{
    return *w->device ? w->device : w->devices;
}

static void take_device(struct train_work *w, const struct run *run)
{
    const char *device = json_string_value(json_object_get(run->info, "device"));
    if (device && !*w->device)
        text_clean(w->device, sizeof w->device, device);
}

/* --- runs --- */

enum status train_child_interrupted(int signal)
{
    return signal ? status_fail(STATUS_INTERRUPTED, "interrupted by %s", strsignal(signal))
                  : STATUS_OK;
}

static enum status run_child(const struct train_work *w, const struct words *command,
                             const char *dir, int64_t limit_s, struct process_end *end)
{
    char log[TRAIN_PATH_SIZE];
    TRY(path_format(log, sizeof log, "%s.log", dir));
    const struct process_config c = {.argv = command->v,
                                     .log = log,
                                     .signals = &w->signals,
                                     .limit_s = limit_s,
                                     .grace_s = GRACE_SECONDS};
    TRY(process_run(&c, end));
    return train_child_interrupted(end->received);
}

static enum status run_rung(const struct train_work *w, const struct words *args, const char *dir,
                            int rung, int64_t limit_s, struct process_end *end)
{
    struct words command = {0};
    enum status st;
    CHECK(dir_remove(dir));
    CHECK(words_add(&command, "%s", w->program));
    CHECK(words_add(&command, "train"));
    CHECK(words_add_list(&command, args->n, args->v));
    CHECK(words_add(&command, "--devices"));
    CHECK(words_add(&command, "%s", w->devices));
    if (rung & RUNG_UNFUSED) {
        CHECK(words_add(&command, "--fuse"));
        CHECK(words_add(&command, "none"));
    }
    if (rung & RUNG_NO_GRAPH)
        CHECK(words_add(&command, "--no-graph"));
    CHECK(words_add(&command, "--out"));
    CHECK(words_add(&command, "%s", dir));
    CHECK(run_child(w, &command, dir, limit_s, end));
done:
    words_free(&command);
    return st;
}

/* How a child failed, for a person. */
static void explain_end(const struct process_end *end, int64_t limit_s, char why[TRAIN_WHY_SIZE])
{
    const char *colon = *end->message ? ": " : "";
    if (end->late)
        snprintf(why, TRAIN_WHY_SIZE, "not done within %lld s", (long long)limit_s);
    else if (end->code > 128)
        snprintf(why, TRAIN_WHY_SIZE, "ended by a signal (%s)%s%s", strsignal(end->code - 128),
                 colon, end->message);
    else
        snprintf(why, TRAIN_WHY_SIZE, "exit code %d%s%s", end->code, colon, end->message);
}

/* Whether a failure may be one of what the rung computes with. Wrong arguments and missing data are
 * the same on all. */
static bool can_fall(const struct train_work *w, const struct train_ladder *l,
                     const struct process_end *end)
{
    return !l->fixed && !l->proven && strncmp(w->devices, "cuda", 4) == 0 &&
           end->code != status_exit_code(STATUS_USAGE) &&
           end->code != status_exit_code(STATUS_DATA);
}

/* Reads what a run that ended well recorded, and on which rung. */
static enum status take_run(struct train_work *w, const char *dir, struct train_ladder *l,
                            struct run **run)
{
    TRY(run_drop_weights(dir));
    TRY(run_load(dir, run));
    take_device(w, *run);
    take_ladder(*run, l);
    if (!(*run)->summary)
        snprintf(l->why, sizeof l->why, "the run has no summary.json");
    if (!*l->why) {
        l->proven = true;
        return STATUS_OK;
    }
    run_free(*run);
    *run = NULL;
    return STATUS_OK;
}

enum status train_child_run(struct train_work *w, const struct words *args, const char *dir,
                            struct train_ladder *l, struct run **run)
{
    *run = NULL;
    while (l->rung < RUNG_COUNT) {
        struct process_end end;
        int64_t limit_s = time_budget_limit(&w->budget, w->limit_s);
        if (limit_s == 0) {
            snprintf(l->why, sizeof l->why, "no time was left");
            return STATUS_OK;
        }
        TRY(run_rung(w, args, dir, l->rung, limit_s, &end));
        *l->why = '\0';
        if (end.code == 0)
            return take_run(w, dir, l, run);
        explain_end(&end, limit_s, l->why);
        if (l->proven)
            return STATUS_OK;
        if (!can_fall(w, l, &end)) {
            l->rung = RUNG_COUNT;
            return STATUS_OK;
        }
        add_fall(l, l->rung, l->why);
        l->rung++;
    }
    return STATUS_OK;
}

enum status train_child_photos(const struct train_work *w, const struct train_photos *photos,
                               const char *dir, bool *made, char why[TRAIN_WHY_SIZE])
{
    struct words command = {0};
    struct process_end end = {0};
    int64_t limit_s = time_budget_limit(&w->budget, w->limit_s);
    enum status st = STATUS_OK;
    *made = false;
    snprintf(why, TRAIN_WHY_SIZE, "no time was left");
    if (limit_s == 0)
        return STATUS_OK;
    CHECK(words_add(&command, "%s", w->program));
    CHECK(words_add(&command, "data"));
    CHECK(words_add(&command, "synth"));
    CHECK(words_add(&command, "--out=%s", dir));
    CHECK(words_add(&command, "--classes=%d", photos->classes));
    CHECK(words_add(&command, "--train=%d", photos->train));
    CHECK(words_add(&command, "--val=%d", photos->val));
    CHECK(words_add(&command, "--size=%d", photos->size));
    CHECK(run_child(w, &command, dir, limit_s, &end));
    *made = end.code == 0;
    if (!*made)
        explain_end(&end, limit_s, why);
done:
    words_free(&command);
    return st;
}
