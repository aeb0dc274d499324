/* Analyses a study's folder. */
#include "study/study_collect.h"

#include "study/study_check.h"

#include <stdlib.h>

/* Copies the description of the machine, which all runs of a study share. */
static void take_machine(const struct run *run, json_t *machine)
{
    static const char *const keys[] = {"device", "host", "libraries", "version", "build", "commit"};
    if (json_object_size(machine) > 0)
        return;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        json_t *value = json_object_get(run->info, keys[i]);
        if (value)
            json_object_set(machine, keys[i], value);
    }
}

static void fail(struct study_result *r, const char *why)
{
    r->failed++;
    snprintf(r->reason, sizeof r->reason, "%s", why);
}

static enum status collect_run(const struct study_store *store, const struct study_run *run,
                               struct study_result *r, json_t *machine)
{
    char path[STUDY_PATH_SIZE], why[PROCESS_MESSAGE_SIZE];
    enum study_state state;
    struct run *record;
    TRY(study_store_state(store, run, &state, why));
    if (state == STUDY_FAILED)
        fail(r, why);
    if (state != STUDY_COMPLETE)
        return STATUS_OK;
    TRY(study_run_path(store->plan, run, store->dir, "", path));
    enum status st = run_load(path, &record);
    if (st == STATUS_OK) {
        take_machine(record, machine);
        st = study_check_run(store->plan, run, record);
        if (st == STATUS_OK)
            st = study_sample_of(record, store->plan->spec->warmup_steps, &r->sample[r->n]);
        if (st == STATUS_OK)
            st = study_curves_of(record, &r->curves[r->n]);
        run_free(record);
    }
    if (st == STATUS_OK)
        r->n++;
    else if (st == STATUS_DATA)
        fail(r, status_message());
    return st == STATUS_DATA ? STATUS_OK : st;
}

enum status study_collect(const struct study_store *store, const char *command, struct analysis *a)
{
    enum status st = STATUS_OK;
    const struct study_plan *plan = store->plan;
    struct study_result *result = calloc((size_t)plan->n_cells, sizeof *result);
    json_t *machine = json_object();
    *a = (struct analysis){0};
    if (!result || !machine) {
        st = status_fail(STATUS_OOM, "no memory for the results of a study");
        goto done;
    }
    /* The runs of a cell are in ascending order of repeats. */
    for (int64_t i = 0; i < plan->n_runs; i++)
        CHECK(collect_run(store, &plan->run[i], &result[plan->run[i].cell], machine));
    CHECK(study_analyse(plan, result, a));
    json_object_update(a->machine, machine);
    snprintf(a->command, sizeof a->command, "%s", command);
done:
    json_decref(machine);
    for (int64_t i = 0; result && i < plan->n_cells; i++)
        for (int64_t k = 0; k < result[i].n; k++)
            free(result[i].curves[k].epoch);
    free(result);
    return st;
}
