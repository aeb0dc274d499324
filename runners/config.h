/* Everything a training run can be told, and nothing else: filled in by the command line, checked
 * once, recorded in full, passed down. */
#ifndef RUNNERS_CONFIG_H
#define RUNNERS_CONFIG_H

#include "base/status.h"
#include "model/policy.h"
#include "runners/scaler.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum lr_schedule { SCHEDULE_STEP, SCHEDULE_COSINE, SCHEDULE_CONSTANT };

/* Strings belong to the caller and must outlive the run. Defaults are those of pytorch/examples'
 * imagenet where it has the setting. */
struct train_config {
    const char *data; /* folder with train/ and val/; NULL with dummy */
    const char *arch;
    const char *out;     /* the run's folder; NULL: the first free runs/<arch>-NNN */
    const char *resume;  /* NULL, "auto", or a checkpoint */
    const char *init;    /* safetensors with weights to start from, or NULL */
    const char *devices; /* "cpu" */
    int threads;         /* per device; 0: all cores */
    int workers;         /* loader threads */
    int classes;         /* with dummy; else what the data set has */
    int image_size;
    int batch;
    int val_batch; /* 0: as batch */
    int epochs;
    int start_epoch;    /* -1: as the checkpoint says, else 0 */
    int64_t steps;      /* end after this many optimizer steps; 0: no limit */
    double desired_acc; /* end once val top-1 reaches it, in percent; 0: no */
    double lr, momentum, weight_decay;
    bool nesterov;
    double label_smoothing;
    enum lr_schedule schedule;
    int lr_step; /* epochs */
    double lr_gamma;
    double warmup_epochs; /* linear from 0 */
    int print_freq;
    uint64_t seed;
    const char *precision; /* fp32, tf32, amp or bf16; or O0 to O3 */
    int keep_batchnorm;    /* batch norm in fp32: 0, 1, or -1: as the precision says */
    int scaling;           /* loss scaling: 0, 1, or -1: as the precision says */
    struct scaler_config scaler;
    int64_t inject_overflow; /* for tests: the step whose gradients overflow; -1: none */
    bool evaluate;
    bool dummy;
    int64_t dummy_train, dummy_val; /* images */
    bool drop_last;
    int64_t max_bad_images;
    int64_t checkpoint_steps; /* also every so many steps; 0: at epoch ends only */
};

struct train_config train_config_default(void);

/* How every run normalises its images: torchvision's values for ImageNet, of pixel/255. */
extern const float train_image_mean[3], train_image_std[3];

/* What `precision` and `keep_batchnorm` come to. */
MUST_CHECK enum status train_config_policy(const struct train_config *c, struct policy *p);

/* Is the loss scaled, by `scaling` or by the policy? */
bool train_config_scaled(const struct train_config *c, const struct policy *p);

/* STATUS_USAGE with the flag's name for what cannot be. */
MUST_CHECK enum status train_config_check(const struct train_config *c);

/* A new object with every setting, for run.json; `classes` as resolved; `emulated` when the device
 * rounds to narrow types instead of computing in them. NULL without memory. */
json_t *train_config_json(const struct train_config *c, int classes, bool emulated);

const char *lr_schedule_str(enum lr_schedule s);

/* The learning rate of optimizer step `step` when an epoch has `steps_per_epoch`:
 *   warm-up  lr * (step + 1) / (warmup_epochs * steps_per_epoch)   while that is below lr
 *   step     lr * gamma ^ floor(epoch / lr_step)                   (torch's StepLR)
 *   cosine   lr * (1 + cos(pi * t)) / 2, t the share of the steps after warm-up that are over */
double train_config_lr(const struct train_config *c, int64_t step, int64_t steps_per_epoch);

#ifdef __cplusplus
}
#endif
#endif
