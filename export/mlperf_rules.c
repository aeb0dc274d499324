/* Compares a run with MLPerf's rules. */
#include "export/mlperf_rules.h"

#include "base/json.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ImageNet-1k (ILSVRC 2012). */
enum { IMAGENET_TRAIN = 1281167, IMAGENET_VAL = 50000 };

static const double END_LR = 0.0001, LR_UNIT = 0.001, WEIGHT_DECAY_UNIT = 0.0001;
static const double LARS_POWER = 2;

static double number(const struct run *run, const char *key)
{
    return json_number_value(run_config(run, key));
}

static double highest_lr(const struct run *run)
{
    double lr = 0;
    for (int64_t i = 0; i < run->n_steps; i++)
        lr = fmax(lr, run->step[i].lr);
    return lr;
}

struct mlperf_optimizer mlperf_optimizer_of(const struct run *run)
{
    const struct epoch_record *last = &run->epoch[run->n_epochs - 1];
    struct mlperf_optimizer o = {.name = number(run, "lars") > 0 ? "lars" : "sgd",
                                 .base_lr = highest_lr(run),
                                 .end_lr = last->lr,
                                 .power = NAN,
                                 .decay_steps = last->steps,
                                 .momentum = number(run, "momentum"),
                                 .weight_decay = number(run, "weight_decay"),
                                 .warmup_epochs = number(run, "warmup_epochs")};
    if (strcmp(run_config_text(run, "lr_schedule", ""), "poly") == 0) {
        double power = number(run, "lr_power");
        o.power = power > 0 ? power : 2; /* the default of --lr-power */
        o.end_lr = number(run, "lr_end");
    }
    return o;
}

int64_t mlperf_val_images(const struct run *run)
{
    for (int64_t i = 0; i < run->n_epochs; i++)
        if (run->epoch[i].val_images > 0)
            return run->epoch[i].val_images;
    return 0;
}

static bool is_whole(double x)
{
    return isfinite(x) && fabs(x - nearbyint(x)) < 1e-6;
}

static void data_unmet(const struct run *run, FILE *out)
{
    int64_t train = run->epoch[0].train_images, val = mlperf_val_images(run);
    if (json_is_true(run_config(run, "dummy")))
        fputs("it trained on synthetic tensors, not on ImageNet\n", out);
    else if (train != IMAGENET_TRAIN || val != IMAGENET_VAL)
        fprintf(out,
                "its data set has %" PRId64 " training and %" PRId64
                " validation images, ImageNet has %d and %d\n",
                train, val, IMAGENET_TRAIN, IMAGENET_VAL);
    const char *arch = run_config_text(run, "arch", "unknown");
    if (strcmp(arch, "resnet50") != 0)
        fprintf(out, "its network is %.40s, not resnet50\n", arch);
}

static void quality_unmet(const struct run *run, FILE *out)
{
    double best = run->epoch[run->n_epochs - 1].best_top1;
    if (!(best >= MLPERF_TARGET_TOP1))
        fprintf(out, "its validation top-1 is %.2f %%, the target is %.2f %%\n", best,
                MLPERF_TARGET_TOP1);
    if (!run->summary)
        fputs("it is not complete\n", out);
}

static void optimizer_unmet(const struct run *run, FILE *out)
{
    struct mlperf_optimizer o = mlperf_optimizer_of(run);
    bool lars = strcmp(o.name, "lars") == 0;
    if (!lars && !is_whole(o.base_lr / LR_UNIT))
        fprintf(out, "its base learning rate, %g, is not a multiple of %g\n", o.base_lr, LR_UNIT);
    if (fabs(o.end_lr - END_LR) > 1e-12)
        fprintf(out, "its learning rate ends at %g, not at %g (--lr-schedule poly --lr-end %g)\n",
                o.end_lr, END_LR, END_LR);
    if (lars && !(fabs(o.power - LARS_POWER) < 1e-12))
        fprintf(out, "its learning rate does not decay by a polynomial of power %g\n", LARS_POWER);
    if (!is_whole(log2(o.weight_decay / WEIGHT_DECAY_UNIT)))
        fprintf(out, "its weight decay, %g, is not %g times a power of 2\n", o.weight_decay,
                WEIGHT_DECAY_UNIT);
}

void mlperf_unmet(const struct run *run, bool closed, FILE *out)
{
    data_unmet(run, out);
    quality_unmet(run, out);
    if (closed)
        optimizer_unmet(run, out);
}
