/* Compares a run's record with its cell. */
#include "study/study_check.h"

#include <inttypes.h>
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

enum status study_check_run(const struct study_plan *plan, const struct study_run *r,
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
