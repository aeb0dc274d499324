/* Reads and writes the folder of a study. */
#include "study/study_store.h"

#include "base/file.h"
#include "base/folder.h"
#include "base/json.h"
#include "base/text.h"
#include "results/environment.h"
#include "results/noise.h"
#include "results/run.h"

#include <fcntl.h>
#include <libgen.h>
#include <unistd.h>

enum {
    PLAN_MAX_BYTES = 64 << 20,
    WHY_MAX_BYTES = 1 << 16,
    SUMMARY_MAX_BYTES = 1 << 24,
    LOCK_WAIT_SECONDS = 5,
};

/* Compares the plan with the one in `path`. STATUS_USAGE if they are of different studies. */
static enum status compare_plan(const struct study_store *store, const char *path)
{
    json_t *was;
    enum status st = json_read(path, PLAN_MAX_BYTES, &was);
    if (st != STATUS_OK && st != STATUS_DATA)
        return st;
    bool same = json_equal(json_object_get(was, "study"), store->plan->spec->json);
    json_decref(was);
    if (same)
        return STATUS_OK;
    return status_fail(
        STATUS_USAGE,
        "'%s' holds the results of a study that differs from '%s'; give another --out", store->dir,
        store->plan->spec->name);
}

/* Writes the plan anew, because another version may have divided the study into other cells. */
static enum status keep_plan(const struct study_store *store)
{
    char path[STUDY_PATH_SIZE];
    json_t *plan;
    bool exists;
    TRY(path_format(path, sizeof path, "%s/plan.json", store->dir));
    TRY(path_look(path, &exists));
    if (exists)
        TRY(compare_plan(store, path));
    TRY(study_plan_json(store->plan, store->dir, &plan));
    return json_write(plan, JSON_INDENT(1), "%s", path);
}

enum status study_store_open(const struct study_plan *plan, const char *dir,
                             struct study_store *store)
{
    enum status st;
    *store = (struct study_store){.plan = plan, .dir = dir, .lock = -1};
    store->first = json_object();
    CHECK(dir_make(dir));
    CHECK(dir_lock(dir, "ampscale study", LOCK_WAIT_SECONDS, &store->lock));
    fcntl(store->lock, F_SETFD, 0); /* runs inherit the lock: those of a killed study end soon */
    CHECK(keep_plan(store));
    return STATUS_OK;
done:
    study_store_close(store);
    return st;
}

void study_store_close(struct study_store *store)
{
    json_decref(store->first);
    fd_close(&store->lock);
}

/* Compares all attempts of a run with the first run of the study and, exactly, of its cell. */
static enum status check_machine(const struct study_store *store, const char *cell,
                                 const struct run *run)
{
    const char *const key[] = {"", cell};
    const json_t *attempt;
    size_t i;
    for (int exact = 0; exact < 2; exact++) {
        const json_t *first = json_object_get(store->first, key[exact]);
        json_array_foreach(run->infos, i, attempt)
        {
            TRY(environment_joins(first ? first : run->info, attempt, exact));
        }
    }
    for (i = 0; i < 2; i++)
        if (!json_object_get(store->first, key[i]))
            json_object_set(store->first, key[i], run->info);
    return STATUS_OK;
}

enum status study_store_state(const struct study_store *store, const struct study_run *run,
                              enum study_state *state, char why[PROCESS_MESSAGE_SIZE])
{
    char path[STUDY_PATH_SIZE];
    bool exists;
    *why = '\0';
    *state = STUDY_COMPLETE;
    TRY(study_run_path(store->plan, run, store->dir, "/summary.json", path));
    TRY(path_look(path, &exists));
    if (exists) {
        struct run *record = NULL;
        enum status loaded = run_load_whole(dirname(path), &record);
        loaded = loaded == STATUS_OK ? study_check_run(store->plan, run, record) : loaded;
        *state = loaded == STATUS_OK ? STUDY_FOREIGN : STUDY_FAILED;
        if (loaded == STATUS_OK)
            loaded = check_machine(store, store->plan->cell[run->cell].name, record);
        run_free(record);
        if (loaded == STATUS_OK)
            *state = STUDY_COMPLETE;
        if (loaded != STATUS_DATA)
            return loaded;
        text_clean(why, PROCESS_MESSAGE_SIZE, status_message());
        return STATUS_OK;
    }
    *state = STUDY_PENDING;
    TRY(study_run_path(store->plan, run, store->dir, ".failed", path));
    TRY(path_look(path, &exists));
    if (!exists)
        return STATUS_OK;
    *state = STUDY_FAILED;
    json_t *object;
    enum status st = json_read(path, WHY_MAX_BYTES, &object);
    if (st != STATUS_OK && st != STATUS_DATA)
        return st;
    const char *reason = json_string_value(json_object_get(object, "reason"));
    text_clean(why, PROCESS_MESSAGE_SIZE, reason ? reason : "for a reason that cannot be read");
    json_decref(object);
    return STATUS_OK;
}

bool study_store_disturbed(const struct study_store *store, const struct study_run *run)
{
    char path[STUDY_PATH_SIZE], reason[NOISE_TEXT_MAX];
    json_t *summary = NULL;
    bool disturbed =
        study_run_path(store->plan, run, store->dir, "/summary.json", path) == STATUS_OK &&
        json_read(path, SUMMARY_MAX_BYTES, &summary) == STATUS_OK &&
        (noise_recorded(summary, reason) || json_is_true(json_object_get(summary, "paused")));
    json_decref(summary);
    return disturbed;
}

/* Fails if another program or machine has begun the run. */
static enum status check_begun(const struct study_store *store, const struct study_run *run,
                               bool here)
{
    /* The launcher of several ranks may divide the cores among them. */
    bool alone = here && store->plan->cell[run->cell].ranks == 1;
    char path[STUDY_PATH_SIZE];
    json_t *info;
    TRY(study_run_path(store->plan, run, store->dir, "/run.json", path));
    TRY(json_read(path, SUMMARY_MAX_BYTES, &info));
    enum status st = environment_joins_own(info, here, alone);
    json_decref(info);
    return st != STATUS_DATA
               ? st
               : status_fail(STATUS_USAGE,
                             "'%s' was begun by another version, build or machine; remove it "
                             "to begin it anew, or give another --out",
                             dirname(path));
}

enum status study_store_prepare(const struct study_store *store, const struct study_run *run,
                                bool here, bool *resume)
{
    char path[STUDY_PATH_SIZE];
    TRY(path_format(path, sizeof path, "%s/cells/%s", store->dir,
                    store->plan->cell[run->cell].name));
    TRY(dir_make(path));
    TRY(study_run_path(store->plan, run, store->dir, "/checkpoint.safetensors", path));
    /* A run of a given number of steps is timed, so it must not be interrupted and resumed. Only a
     * run of a given number of epochs may be resumed. */
    TRY(path_look(path, resume));
    *resume = *resume && store->plan->spec->epochs;
    if (*resume) {
        TRY(check_begun(store, run, here));
    } else {
        TRY(study_run_path(store->plan, run, store->dir, "-logs", path));
        TRY(dir_remove(path));
        TRY(study_run_path(store->plan, run, store->dir, "", path));
        TRY(dir_remove(path));
    }
    TRY(study_run_path(store->plan, run, store->dir, ".failed", path));
    return file_remove(path); /* its reason is not that of the attempt which begins */
}

enum status study_store_complete(const struct study_store *store, const struct study_run *run)
{
    char path[STUDY_PATH_SIZE];
    TRY(study_run_path(store->plan, run, store->dir, "", path));
    return run_drop_weights(path);
}

enum status study_store_failed(const struct study_store *store, const struct study_run *run,
                               const struct process_end *end)
{
    char path[STUDY_PATH_SIZE];
    TRY(study_run_path(store->plan, run, store->dir, ".failed", path));
    json_t *why = json_new("{s:s, s:i, s:f}", "reason", end->message, "exit_code", end->code,
                           "seconds", end->seconds);
    return json_write(why, JSON_INDENT(1) | JSON_REAL_PRECISION(4), "%s", path);
}
