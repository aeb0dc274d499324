/* Checks a training configuration, and computes its learning rate. */
#include "runners/config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const float train_image_mean[3] = {0.485f, 0.456f, 0.406f};
const float train_image_std[3] = {0.229f, 0.224f, 0.225f};

int train_config_val_resize(const struct train_config *c)
{
    return c->val_crop_pct > 0 ? (int)floor(c->image_size / c->val_crop_pct) : c->val_resize;
}

int64_t train_config_images(const struct train_config *c, int ranks)
{
    return (int64_t)c->batch * c->accumulate * ranks;
}

double train_config_lr_factor(const struct train_config *c, int ranks)
{
    double factor = (double)train_config_images(c, ranks) / 256;
    switch (c->lr_scale) {
    case LR_SCALE_LINEAR:
        return factor;
    case LR_SCALE_SQRT:
        return sqrt(factor);
    default:
        return 1;
    }
}

enum status train_config_policy(const struct train_config *c, struct policy *p)
{
    return policy_find(c->precision, c->keep_batchnorm, p);
}

bool train_config_scaled(const struct train_config *c, const struct policy *p)
{
    return c->scaling < 0 ? p->scaled : c->scaling != 0;
}

/* Checks the milestones, and sets *passed to the number of milestones that are at most `epoch`. */
static enum status read_milestones(const char *text, int64_t epoch, int *passed)
{
    long before = 0;
    *passed = 0;
    for (const char *at = text; at;) {
        char *end;
        long v = *at >= '0' && *at <= '9' ? strtol(at, &end, 10) : 0;
        if (v <= before || v > 1000000 || (*end && *end != ','))
            return status_fail(STATUS_USAGE,
                               "--lr-milestones '%s': give epochs in ascending order, as in "
                               "30,60,80",
                               text);
        *passed += v <= epoch;
        before = v;
        at = *end ? end + 1 : NULL;
    }
    return STATUS_OK;
}

/* Fails if settings of validation contradict each other, or if settings of checkpoints do. */
static enum status check_outputs(const struct train_config *c)
{
    if (c->training_only && (c->evaluate || c->desired_acc > 0 || c->val_every > 0))
        return status_fail(STATUS_USAGE, "--training-only leaves out validation, which %s needs",
                           c->evaluate          ? "--evaluate"
                           : c->desired_acc > 0 ? "--desired-acc"
                                                : "--val-every");
    if (c->no_checkpoint && (c->checkpoint_every || c->checkpoint_steps || c->keep_checkpoints))
        return status_fail(STATUS_USAGE, "--no-checkpoint writes no checkpoints: leave out %s",
                           c->checkpoint_every   ? "--checkpoint-every"
                           : c->checkpoint_steps ? "--checkpoint-steps"
                                                 : "--keep-checkpoints");
    return STATUS_OK;
}

static enum status check_optimizer(const struct train_config *c)
{
    if (c->lars > 0 && c->clip_grad_norm > 0)
        return status_fail(STATUS_USAGE,
                           "--lars scales by the norms of layers, --clip-grad-norm by the norm "
                           "of the whole gradient: give only one of them");
    return STATUS_OK;
}

static enum status check_schedule(const struct train_config *c)
{
    int passed;
    if (c->lr_milestones && c->schedule != SCHEDULE_STEP)
        return status_fail(STATUS_USAGE, "--lr-milestones needs --lr-schedule step");
    if (c->lr_end > c->lr && c->schedule == SCHEDULE_POLY)
        return status_fail(STATUS_USAGE, "--lr-end %g is more than --lr %g", c->lr_end, c->lr);
    return c->lr_milestones ? read_milestones(c->lr_milestones, 0, &passed) : STATUS_OK;
}

static enum status check_view(const struct train_config *c)
{
    if (c->val_resize > 0 && c->val_crop_pct > 0)
        return status_fail(STATUS_USAGE, "--val-resize and --val-crop-pct both set the size that "
                                         "validation crops from: give only one of them");
    if (c->decode == DECODE_GPU && c->interpolation != RESIZE_BILINEAR)
        return status_fail(STATUS_USAGE, "--decode gpu resamples bilinearly: leave out "
                                         "--decode gpu or --interpolation bicubic");
    return STATUS_OK;
}

enum status train_config_check(const struct train_config *c)
{
    if (!c->data && !c->dummy)
        return status_fail(STATUS_USAGE,
                           "no data: give a folder with train/ and val/, or use --dummy");
    if (c->data && c->dummy)
        return status_fail(STATUS_USAGE, "--dummy needs no data: leave out '%s'", c->data);
    if (c->evaluate && !c->resume && !c->init)
        return status_fail(STATUS_USAGE,
                           "--evaluate needs weights: give --resume FILE or --init FILE");
    if (c->evaluate && c->expect)
        return status_fail(
            STATUS_USAGE,
            "--expect checks a training, but --evaluate trains nothing: leave out one of them");
    if (c->init && c->resume)
        return status_fail(STATUS_USAGE,
                           "--init starts a new run and --resume continues one: give one of them");
    bool automatic = c->resume && strcmp(c->resume, "auto") == 0;
    if (automatic && c->evaluate)
        return status_fail(STATUS_USAGE,
                           "--evaluate needs a file of weights, not 'auto': give --resume FILE");
    if (automatic && !c->out)
        return status_fail(STATUS_USAGE,
                           "--resume auto needs the folder of the run: name it with --out");
    if (c->warmup_epochs > c->epochs)
        return status_fail(STATUS_USAGE, "--warmup-epochs %g is more than --epochs %d",
                           c->warmup_epochs, c->epochs);
    if (c->start_epoch >= c->epochs && !c->evaluate)
        return status_fail(STATUS_USAGE, "--start-epoch %d: --epochs %d leave none to train",
                           c->start_epoch, c->epochs);
    if (c->dp_reduce == DP_ALL && (c->mode == MODE_ND || c->mode == MODE_DDP))
        return status_fail(
            STATUS_USAGE,
            "--dp-reduce needs several devices in a process, but --mode %s uses only one",
            train_mode_str(c->mode));
    TRY(check_outputs(c));
    TRY(check_schedule(c));
    TRY(check_optimizer(c));
    TRY(check_view(c));
    struct policy policy;
    TRY(train_config_policy(c, &policy));
    if (c->scaler.min > c->scaler.init || c->scaler.init > c->scaler.max)
        return status_fail(
            STATUS_USAGE,
            "the loss scale starts at %g, which is not between the minimum %g and the maximum %g",
            c->scaler.init, c->scaler.min, c->scaler.max);
    return STATUS_OK;
}

/* Returns how many times the learning rate has been reduced when `epoch` begins. */
static int steps_down(const struct train_config *c, int64_t epoch)
{
    int passed;
    if (!c->lr_milestones)
        return (int)(epoch / c->lr_step);
    return read_milestones(c->lr_milestones, epoch, &passed) == STATUS_OK ? passed : 0;
}

double train_config_lr(const struct train_config *c, int64_t step, int64_t steps_per_epoch)
{
    double warmup = c->warmup_epochs * (double)steps_per_epoch;
    double total = (double)c->epochs * (double)steps_per_epoch;
    if ((double)step + 1 < warmup)
        return c->lr * ((double)step + 1) / warmup;
    /* If warm-up lasts the whole run, the quotient is 0/0 = NaN, and fmax(NaN, 0) is 0. */
    double t = fmin(fmax(((double)step - warmup) / (total - warmup), 0), 1);
    switch (c->schedule) {
    case SCHEDULE_STEP:
        return c->lr * pow(c->lr_gamma, steps_down(c, step / steps_per_epoch));
    case SCHEDULE_COSINE:
        return c->lr * 0.5 * (1 + cos(3.14159265358979323846 * t));
    case SCHEDULE_POLY:
        return (c->lr - c->lr_end) * pow(1 - t, c->lr_power > 0 ? c->lr_power : 2) + c->lr_end;
    default:
        return c->lr;
    }
}
