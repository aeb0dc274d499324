/* Reads a run's folder for an AMP report. */
#include "verify/amp_parts.h"

#include "base/file.h"
#include "model/policy.h"
#include "results/outcome.h"

enum { BATCH_MAX = 65536 };

static enum status bad_setting(const struct run *run, const char *key)
{
    return status_fail(STATUS_DATA, "'%s/run.json': '%s' is missing or invalid", run->dir, key);
}

/* Sets *out to `given` or, if `given` is 0, to the run's setting. STATUS_DATA if out of range. */
static enum status choose_count(const struct run *run, const char *key, int given, int max,
                                int *out)
{
    int64_t v = given ? given : run_config_count(run, key, 0);
    if (v < 1 || v > max)
        return bad_setting(run, key);
    *out = (int)v;
    return STATUS_OK;
}

/* Finds the newest undamaged checkpoint. Prints a warning for a damaged checkpoint. */
static enum status find_checkpoint(struct amp_source *s)
{
    static const char *const names[] = {CHECKPOINT_NAME, CHECKPOINT_PREV_NAME};
    bool any = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        TRY(path_format(s->weights, sizeof s->weights, "%s/%s", s->run->dir, names[i]));
        if (!path_exists(s->weights))
            continue;
        enum status st = checkpoint_state(s->weights, &s->state);
        if (st != STATUS_DATA)
            return st;
        fprintf(stderr, "ampscale: warning: %s\n", status_message());
        any = true;
    }
    return status_fail(STATUS_DATA, "the run in '%s' has no %scheckpoint%s", s->run->dir,
                       any ? "undamaged " : "",
                       any               ? ""
                       : s->run->summary ? ": it is complete, and kept none"
                                         : " yet; wait for the end of its first epoch");
}

/* Reads the run's settings: network, data, sizes. */
static enum status read_settings(struct amp_source *s)
{
    const struct amp_report_config *c = s->config;
    const struct run *run = s->run;
    int64_t seed = run_config_count(run, "seed", 0);
    double smoothing = json_number_value(run_config(run, "label_smoothing"));
    s->arch = run_config_text(run, "arch", NULL);
    if (!s->arch)
        return bad_setting(run, "arch");
    TRY(choose_count(run, "image_size", c->image_size, IMAGE_SIZE_MAX, &s->image_size));
    TRY(choose_count(run, "batch_size", c->batch, BATCH_MAX, &s->batch));
    TRY(choose_count(run, "classes", c->classes, CLASSES_MAX, &s->classes));
    if (!(smoothing >= 0 && smoothing <= 1))
        return bad_setting(run, "label_smoothing");
    s->label_smoothing = smoothing;
    if (seed < 0)
        return bad_setting(run, "seed");
    s->seed = c->seed < 0 ? (uint64_t)seed : (uint64_t)c->seed;
    s->data = c->data ? c->data : run_config_text(run, "data", NULL);
    if (!s->data && !json_is_true(run_config(run, "dummy")))
        return bad_setting(run, "data");
    return STATUS_OK;
}

static enum status open_run(struct amp_source *s)
{
    TRY(run_load(s->config->run, &s->run));
    outcome_note(s->run, stderr);
    TRY(read_settings(s));
    TRY(find_checkpoint(s));
    struct policy policy;
    if (json_is_object(run_config(s->run, "loss_scaling"))) {
        s->scale = s->state.scaler.scale;
        s->scale_from = "checkpoint";
        return STATUS_OK;
    }
    if (policy_find(run_config_text(s->run, "precision", "fp32"), -1, &policy) != STATUS_OK)
        return bad_setting(s->run, "precision");
    if (policy.activation == DTYPE_F16) {
        s->scale = 1;
        s->scale_from = "unscaled run";
    }
    return STATUS_OK;
}

static enum status take_flags(struct amp_source *s)
{
    const struct amp_report_config *c = s->config;
    s->arch = c->arch;
    s->data = c->data;
    s->image_size = c->image_size ? c->image_size : 224;
    s->batch = c->batch ? c->batch : 32;
    s->classes = c->classes ? c->classes : 1000;
    s->seed = c->seed < 0 ? 0 : (uint64_t)c->seed;
    return c->init ? path_format(s->weights, sizeof s->weights, "%s", c->init) : STATUS_OK;
}

enum status amp_source_open(struct amp_source *s, const struct amp_report_config *c)
{
    enum status st = STATUS_OK;
    struct scaler_rule scaler = scaler_default();
    *s = (struct amp_source){.config = c, .scale = scaler.init, .scale_from = "default"};
    CHECK(c->run ? open_run(s) : take_flags(s));
    if (c->loss_scale > 0) {
        s->scale = c->loss_scale;
        s->scale_from = "flag";
    }
done:
    if (st != STATUS_OK)
        amp_source_close(s);
    return st;
}

void amp_source_close(struct amp_source *s)
{
    run_free(s->run);
    *s = (struct amp_source){0};
}
