/* Analyses a study's folder. */
#include "study/study_analyse.h"
#include "study/study_store.h"

#include "base/array.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static enum status check_text(const struct run *record, const char *key, const char *want)
{
    const char *have = run_config_text(record, key, want);
    if (strcmp(have, want) == 0)
        return STATUS_OK;
    return status_fail(STATUS_DATA, "'%s' was run with %s '%s', but its cell has '%s'", record->dir,
                       key, have, want);
}

static enum status check_count(const struct run *record, const char *key, int64_t want)
{
    int64_t have = run_config_count(record, key, want);
    if (have == want)
        return STATUS_OK;
    return status_fail(STATUS_DATA, "'%s' was run with %s %" PRId64 ", but its cell has %" PRId64,
                       record->dir, key, have, want);
}

static enum status check_data(const struct run *record, const struct study_data *d)
{
    const json_t *dummy = json_object_get(json_object_get(record->info, "config"), "dummy");
    bool tensors = !d->generated && !*d->folder;
    if (json_is_boolean(dummy) && json_is_true(dummy) != tensors)
        return status_fail(STATUS_DATA, "'%s' was run on %s, but its cell has data '%s'",
                           record->dir, tensors ? "images" : "synthetic tensors", d->name);
    if (*d->folder)
        return check_text(record, "data", d->folder);
    if (!tensors)
        return STATUS_OK; /* not compared: the path depends on the location of the study's folder */
    TRY(check_count(record, "classes", d->classes));
    TRY(check_count(record, "dummy_train", d->train));
    return check_count(record, "dummy_val", d->val);
}

static enum status check_device(const struct run *record, const char *want)
{
    const char *have = run_config_text(record, "devices", want);
    size_t n = strlen(want);
    if (strncmp(have, want, n) == 0 && (have[n] == '\0' || have[n] == ':'))
        return STATUS_OK;
    return status_fail(STATUS_DATA, "'%s' was run on '%s', but its study has device '%s'",
                       record->dir, have, want);
}

/* Compares the settings in the record with those of the study's plan. STATUS_DATA names the first
 * difference; settings that the record lacks are not compared. */
static enum status check_attempt(const struct study_plan *plan, const struct study_run *r,
                                 const struct run *record)
{
    const struct study_spec *s = plan->spec;
    const struct study_cell *c = &plan->cell[r->cell];
    TRY(check_text(record, "arch", c->arch));
    TRY(check_text(record, "mode", study_mode_str(c->mode)));
    TRY(check_text(record, "precision", c->precision));
    TRY(check_device(record, s->device));
    TRY(check_count(record, "world_size", c->ranks));
    TRY(check_count(record, "devices_per_rank", c->devices / c->ranks));
    TRY(check_count(record, "batch_size", c->batch / c->ranks));
    TRY(check_count(record, "image_size", s->image_size));
    TRY(check_count(record, "workers", s->workers));
    if (s->threads)
        TRY(check_count(record, "threads", s->threads));
    TRY(check_count(record, "seed", s->seed + r->repeat - 1));
    TRY(s->epochs ? check_count(record, "epochs", s->epochs)
                  : check_count(record, "steps", s->warmup_steps + s->measured_steps));
    return check_data(record, c->data);
}

/* The spec's "launcher" or "train", or who resumed the run, may have changed a setting; the run
 * would then be shown under the name of the wrong cell. */
enum status study_check_run(const struct study_plan *plan, const struct study_run *r,
                            const struct run *record)
{
    for (size_t i = 0; i < json_array_size(record->infos); i++) {
        const struct run attempt = run_attempt(record, i);
        TRY(check_attempt(plan, r, &attempt));
    }
    return STATUS_OK;
}

static void fail(struct study_result *r, const char *why)
{
    r->failed++;
    snprintf(r->reason, sizeof r->reason, "%s", why);
}

static enum status collect_run(const struct study_store *store, const struct study_run *run,
                               struct study_result *r)
{
    char path[STUDY_PATH_SIZE], why[PROCESS_MESSAGE_SIZE];
    enum study_state state;
    struct run *record;
    TRY(study_store_state(store, run, &state, why));
    if (state >= STUDY_FAILED)
        fail(r, why);
    if (state != STUDY_COMPLETE)
        return STATUS_OK;
    TRY(study_run_path(store->plan, run, store->dir, "", path));
    enum status st = run_load(path, &record);
    if (st == STATUS_OK) {
        st = study_sample_of(record, store->plan->spec->warmup_steps, &r->sample[r->n]);
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
    static const char *const keys[] = {"device", "host", "libraries", "version", "build", "commit"};
    enum status st = STATUS_OK;
    const struct study_plan *plan = store->plan;
    struct study_result *result;
    TRY(array_new(&result, plan->n_cells));
    *a = (struct analysis){0};
    json_object_clear(store->first); /* runs of this call may have replaced it */
    /* The runs of a cell are in ascending order of repeats. */
    for (int64_t i = 0; i < plan->n_runs; i++)
        CHECK(collect_run(store, &plan->run[i], &result[plan->run[i].cell]));
    CHECK(study_analyse(plan, result, a));
    const json_t *first = json_object_get(store->first, "");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        json_object_set(a->machine, keys[i], json_object_get(first, keys[i]));
    snprintf(a->command, sizeof a->command, "%s", command);
done:
    for (int64_t i = 0; i < plan->n_cells; i++)
        for (int64_t k = 0; k < result[i].n; k++)
            free(result[i].sample[k].epoch);
    free(result);
    return st;
}
