/* Defaults, checks, record form and learning rate of a training configuration. */
#include "runners/config.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

const float train_image_mean[3] = {0.485f, 0.456f, 0.406f};
const float train_image_std[3] = {0.229f, 0.224f, 0.225f};

struct train_config train_config_default(void)
{
    return (struct train_config){
        .arch = "resnet18",
        .devices = "cpu",
        .bucket_mb = 25,
        .grad_compress = DTYPE_F32,
        .accumulate = 1,
        .comm_timeout = 300,
        .join_timeout = 300,
        .workers = 4,
        .classes = 1000,
        .image_size = 224,
        .batch = 256,
        .epochs = 90,
        .start_epoch = -1,
        .lr = 0.1,
        .momentum = 0.9,
        .weight_decay = 1e-4,
        .schedule = SCHEDULE_STEP,
        .lr_step = 30,
        .lr_gamma = 0.1,
        .print_freq = 10,
        .precision = "fp32",
        .keep_batchnorm = -1,
        .scaling = -1,
        .scaler = scaler_config_default(),
        .telemetry = 1,
        .inject_overflow = -1,
        .dummy_train = 1281167,
        .dummy_val = 50000,
        .max_bad_images = 100,
    };
}

const char *lr_schedule_str(enum lr_schedule s)
{
    static const char *const name[] = {"step", "cosine", "constant"};
    return name[s];
}

const char *train_mode_str(enum train_mode m)
{
    static const char *const name[MODE_COUNT] = {"auto", "nd", "dp", "ddp", "ddp2"};
    return name[m];
}

const char *lr_scale_str(enum lr_scale s)
{
    static const char *const name[LR_SCALE_COUNT] = {"none", "linear", "sqrt"};
    return name[s];
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

enum status train_config_check(const struct train_config *c)
{
    if (!c->data && !c->dummy)
        return status_fail(STATUS_USAGE,
                           "no data: name a folder with train/ and val/, or use --dummy");
    if (c->data && c->dummy)
        return status_fail(STATUS_USAGE, "--dummy needs no data: leave out '%s'", c->data);
    if (c->evaluate && !c->resume && !c->init)
        return status_fail(STATUS_USAGE,
                           "--evaluate needs weights: give --resume FILE or --init FILE");
    if (c->evaluate && c->expect)
        return status_fail(STATUS_USAGE, "--expect is for training, which --evaluate leaves out");
    if (c->init && c->resume)
        return status_fail(STATUS_USAGE, "--init starts afresh and --resume goes on: give one");
    bool automatic = c->resume && strcmp(c->resume, "auto") == 0;
    if (automatic && c->evaluate)
        return status_fail(STATUS_USAGE,
                           "--evaluate needs to know which weights: give --resume FILE");
    if (automatic && !c->out)
        return status_fail(STATUS_USAGE,
                           "--resume auto needs the folder of the run: name it with --out");
    if (c->warmup_epochs > c->epochs)
        return status_fail(STATUS_USAGE, "--warmup-epochs %g is more than --epochs %d",
                           c->warmup_epochs, c->epochs);
    if (c->dp_reduce == DP_ALL && (c->mode == MODE_ND || c->mode == MODE_DDP))
        return status_fail(STATUS_USAGE,
                           "--dp-reduce is for several devices in a process, which "
                           "--mode %s has not",
                           train_mode_str(c->mode));
    struct policy policy;
    TRY(train_config_policy(c, &policy));
    if (c->scaler.min > c->scaler.init || c->scaler.init > c->scaler.max)
        return status_fail(STATUS_USAGE,
                           "the loss scale starts at %g, which is not between its floor %g and its "
                           "maximum %g",
                           c->scaler.init, c->scaler.min, c->scaler.max);
    return STATUS_OK;
}

static json_t *scaler_json(const struct scaler_config *s)
{
    return json_pack("{s:b, s:f, s:f, s:f, s:I, s:f, s:f}", "dynamic", s->dynamic, "init", s->init,
                     "growth", s->growth, "backoff", s->backoff, "interval",
                     (json_int_t)s->interval, "max", s->max, "min", s->min);
}

/* The precision and what follows from it. */
static enum status add_precision(const struct train_config *c, const struct train_setting *t,
                                 json_t *o)
{
    struct policy p;
    TRY(train_config_policy(c, &p));
    json_object_set_new(o, "precision", json_string(c->precision));
    json_object_set_new(o, "emulated", json_boolean(t->emulated && p.operand != DTYPE_F32));
    json_object_set_new(o, "fuse", json_string(fuse_str(t->fuse)));
    json_object_set_new(o, "batchnorm", json_string(dtype_str(p.batchnorm)));
    if (train_config_scaled(c, &p))
        json_object_set_new(o, "loss_scaling", scaler_json(&c->scaler));
    return STATUS_OK;
}

/* How devices and processes work together. */
static enum status add_setting(const struct train_config *c, const struct train_setting *t,
                               json_t *o)
{
    json_t *more =
        json_pack("{s:s, s:i, s:i, s:i, s:I, s:s, s:i, s:b, s:b, s:b, s:s, s:f, s:f, s:f, s:s?}",
                  "mode", train_mode_str(t->mode), "world_size", t->ranks, "devices_per_rank",
                  t->devices, "classes", t->classes, "epoch_steps", (json_int_t)t->epoch_steps,
                  "dp_reduce", c->dp_reduce == DP_ALL ? "all" : "central", "accumulate",
                  c->accumulate, "graphs", t->graphs, "deterministic", c->deterministic, "sync_bn",
                  c->sync_bn, "lr_scale", lr_scale_str(c->lr_scale), "lars", c->lars, "bucket_mb",
                  c->bucket_mb, "telemetry", c->telemetry, "comm", t->comm);
    if (!more ||
        json_object_set_new(more, "grad_compress", json_string(dtype_str(c->grad_compress))) != 0) {
        json_decref(more);
        return status_fail(STATUS_OOM, "no memory for the record");
    }
    json_object_update(o, more);
    json_decref(more);
    if (c->check_replicas &&
        json_object_set_new(o, "check_replicas", json_integer((json_int_t)c->check_replicas)) != 0)
        return status_fail(STATUS_OOM, "no memory for the record");
    if (t->inject && json_object_set_new(o, "inject", inject_json(t->inject)) != 0)
        return status_fail(STATUS_OOM, "no memory for the record");
    return STATUS_OK;
}

json_t *train_config_json(const struct train_config *c, const struct train_setting *setting)
{
    json_t *o = json_pack(
        "{s:s?, s:s, s:s?, s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:I, s:f, s:f, "
        "s:f, s:f, s:b, s:f, s:s, s:i, s:f, s:f, s:I, s:b, s:I, s:I, s:b, s:I, s:I}",
        "data", c->data, "arch", c->arch, "init", c->init, "resume", c->resume ? c->resume : "",
        "devices", c->devices, "threads", c->threads, "workers", c->workers, "image_size",
        c->image_size, "batch_size", c->batch, "val_batch_size",
        c->val_batch ? c->val_batch : c->batch, "epochs", c->epochs, "steps", (json_int_t)c->steps,
        "desired_acc", c->desired_acc, "lr", c->lr, "momentum", c->momentum, "weight_decay",
        c->weight_decay, "nesterov", c->nesterov, "label_smoothing", c->label_smoothing,
        "lr_schedule", lr_schedule_str(c->schedule), "lr_step", c->lr_step, "lr_gamma", c->lr_gamma,
        "warmup_epochs", c->warmup_epochs, "seed", (json_int_t)c->seed, "dummy", c->dummy,
        "dummy_train", (json_int_t)c->dummy_train, "dummy_val", (json_int_t)c->dummy_val,
        "drop_last", c->drop_last, "max_bad_images", (json_int_t)c->max_bad_images,
        "checkpoint_steps", (json_int_t)c->checkpoint_steps);
    if (o &&
        (add_precision(c, setting, o) != STATUS_OK || add_setting(c, setting, o) != STATUS_OK)) {
        json_decref(o);
        return NULL;
    }
    return o;
}

double train_config_lr(const struct train_config *c, int64_t step, int64_t steps_per_epoch)
{
    double warmup = c->warmup_epochs * (double)steps_per_epoch;
    double total = (double)c->epochs * (double)steps_per_epoch;
    if ((double)step + 1 < warmup)
        return c->lr * ((double)step + 1) / warmup;
    switch (c->schedule) {
    case SCHEDULE_STEP:
        return c->lr * pow(c->lr_gamma, (double)(step / steps_per_epoch / c->lr_step));
    case SCHEDULE_COSINE: {
        /* Warm-up to the very end leaves 0/0, which fmax turns into 0. */
        double t = fmin(fmax(((double)step - warmup) / (total - warmup), 0), 1);
        return c->lr * 0.5 * (1 + cos(3.14159265358979323846 * t));
    }
    default:
        return c->lr;
    }
}
