/* The complete configuration of a training run. The command line sets it. It is checked once,
 * recorded in full, and passed to the functions of the run. The table in settings.h describes each
 * setting. */
#pragma once

#include "base/launcher.h"
#include "base/status.h"
#include "engine/gpu_group.h"
#include "engine/inject.h"
#include "engine/mode.h"
#include "engine/scaler.h"
#include "input/resize.h"
#include "model/network.h"
#include "results/record.h"

#include <stdbool.h>
#include <stdint.h>

enum train_decode { DECODE_EXACT, DECODE_FAST, DECODE_GPU };
enum lr_schedule { SCHEDULE_STEP, SCHEDULE_COSINE, SCHEDULE_CONSTANT, SCHEDULE_POLY };

/* The action after a training loss that is not finite, unless loss scaling skips the step. The run
 * stops, or it continues and writes no checkpoint while the weights are not finite. */
enum on_nan { ON_NAN_STOP, ON_NAN_CONTINUE };

/* The factor by which the learning rate is multiplied: 1, images / 256, or sqrt(images / 256),
 * where `images` is the number of images of a step, over all devices and ranks. */
enum lr_scale { LR_SCALE_NONE, LR_SCALE_LINEAR, LR_SCALE_SQRT };

/* Strings belong to the caller and must outlive the run. If pytorch/examples' imagenet has the same
 * setting, its default is used here too. */
struct train_config {
    const char *data; /* folder with train/ and val/; NULL if `dummy` is set */
    const char *arch;
    /* Folder of the run. NULL: the first free runs/<arch>-NNN. If `evaluate` is set and `out`
     * already has a run, the folder is the first free <out>/evaluation-NNN. */
    const char *out;
    const char *resume;  /* NULL, "auto", or a checkpoint */
    const char *init;    /* safetensors with weights to start from, or NULL */
    const char *devices; /* "cpu", "cpu:2"; see device_list.h */
    bool devices_named;  /* the user chose `devices` */
    int threads;         /* threads per device; 0: all cores, divided among the devices */
    enum train_mode mode;
    enum dp_reduce dp_reduce;
    enum comm_via comm;
    const char *rendezvous;      /* the same as in struct world_config */
    struct launcher_place place; /* the same as in struct world_config */
    const char *secret_file;     /* file with the secret of a rendezvous; NULL: AMPSCALE_SECRET */
    bool insecure;               /* allow a rendezvous beyond loopback without a secret */
    double bucket_mb;            /* size of a gradient bucket in MiB */
    enum dtype grad_compress;    /* type in which gradients are sent: F32, F16 or BF16 */
    bool no_graph;               /* launch operations one by one instead of as graphs */
    enum option wgrad_stream;    /* weight gradients on a second stream of a GPU */
    enum option pdl;             /* programmatic dependent launch of a GPU's kernels */
    bool deterministic;          /* plan only operations that give the same bits in every run */
    int plans;                   /* plans that are timed for a convolution; 0: PLANS_MAX */
    int accumulate;              /* micro-batches per optimizer step */
    bool sync_bn;                /* batch norm computes its statistics over all devices and ranks */
    double comm_timeout;         /* seconds to wait for another rank; 0: no limit */
    double join_timeout;         /* time limit for all processes of an MPI job to start, seconds; no
                                  * limit if this or comm_timeout is 0 */
    int workers;                 /* number of loader threads */
    enum train_decode decode;
    int classes; /* number of classes if `dummy` is set; else the data set
                  * determines it */
    int image_size;
    int val_resize; /* validation: the shorter side before the crop; 0: image_size * 256 / 224 */
    double val_crop_pct; /* image_size / val_resize, instead of val_resize; 0: not given */
    enum resize_filter interpolation; /* resampling in training and validation */
    int batch;     /* number of images in one process's batch, over all its devices */
    int val_batch; /* 0: same as batch */
    int epochs;
    int start_epoch;    /* number of the first epoch; -1: the checkpoint's epoch, or 0 without a
                         * checkpoint */
    int64_t steps;      /* stop after this many optimizer steps; 0: no limit */
    double desired_acc; /* the run stops when validation top-1 reaches this percentage; 0: no
                         * limit */
    double lr, momentum, weight_decay;
    double norm_weight_decay; /* weight decay of batch norm's parameters and of biases; -1: the same
                               * as weight_decay */
    double clip_grad_norm;    /* maximum norm of the gradients; 0: no clipping */
    enum lr_scale lr_scale;
    double lars; /* trust coefficient of LARS; 0: plain SGD */
    bool nesterov;
    double label_smoothing;
    double mixup; /* alpha of mixup, whose weights are drawn from Beta(alpha, alpha); 0: no mixup */
    enum lr_schedule schedule;
    int lr_step;               /* epochs between reductions */
    const char *lr_milestones; /* "30,60,80": epochs at which the learning rate is reduced; NULL:
                                * every lr_step epochs */
    double lr_gamma;
    double lr_power, lr_end; /* parameters of SCHEDULE_POLY; lr_power 0 means 2 */
    double warmup_epochs;    /* length of the linear warm-up from 0, in epochs */
    int print_freq;
    bool quiet; /* no progress is printed */
    uint64_t seed;
    const char *precision; /* fp32, tf32, amp or bf16; or O0 to O3 */
    bool emulate;          /* round in fp32 although the device has the precision's types */
    enum fuse fuse;        /* fusion of convolution and batch norm */
    bool fuse_named;       /* the user chose `fuse`, so the run must not change it */
    enum conv_algorithm conv_algorithm;
    int keep_batchnorm; /* keep batch norm in fp32: 0 no, 1 yes, -1 as the precision requires */
    int scaling;        /* loss scaling: 0 no, 1 yes, -1 as the precision requires */
    struct scaler_rule scaler;
    int64_t inject_overflow; /* for tests: the step whose gradients overflow; -1: none */
    struct inject inject;    /* for tests: other faults */
    const char *expect;      /* folder of a run that must have the same bits; NULL: no comparison */
    enum on_nan on_nan;
    bool evaluate;
    bool dummy;
    int64_t dummy_train, dummy_val; /* number of synthetic images */
    bool drop_last;
    int64_t max_bad_images;
    bool data_changed; /* resume although the data have another fingerprint */
    double telemetry;  /* seconds between samples of the devices' sensors; 0: none */
    /* Number of steps at the start of the run that throughput statistics do not count; 0: the
     * default (run_warmup). */
    int64_t warmup_steps;
    int val_every;        /* interval of validations in epochs, 0 means 1; the last epoch is always
                           * validated */
    bool training_only;   /* no validation, and no validation images are needed */
    int checkpoint_every; /* interval of checkpoints in epochs, 0 means 1; the last epoch always has
                           * a checkpoint */
    int keep_checkpoints; /* number of checkpoints of epoch ends that are kept in addition to the
                           * newest two; 0: none */
    bool no_checkpoint;   /* write no weights at all */
    const char *on_save;  /* shell command that is run after saves (runners/on_save.h); NULL:
                           * none */
    double on_save_timeout;     /* time limit of one run of `on_save`, seconds */
    const char *on_save_helper; /* folder of a run: this process does not train, but runs `on_save`
                                 * for rank 0 of that run; NULL: this process trains */
    int64_t check_replicas;     /* interval, in steps, of the check that all replicas are equal; 0:
                                 * only at epoch ends and checkpoints */
    int64_t checkpoint_steps;   /* interval of checkpoints in steps, in addition to those at epoch
                                 * ends; 0: only at epoch ends */
    const struct record_observer *observer; /* observer of the run's record; NULL: none */
};

/* The normalisation of images: torchvision's values for ImageNet, in units of pixel/255. */
extern const float train_image_mean[3], train_image_std[3];

/* Sets *p to the precision policy that `precision` and `keep_batchnorm` select. */
MUST_CHECK enum status train_config_policy(const struct train_config *c, struct policy *p);

/* Returns whether the loss is scaled: as `scaling` requires or, if `scaling` is -1, as the policy
 * requires. */
bool train_config_scaled(const struct train_config *c, const struct policy *p);

/* Checks a configuration. STATUS_USAGE for an impossible setting; the message names the flag. */
MUST_CHECK enum status train_config_check(const struct train_config *c);

/* The settings that result from the flags, the data, the devices and the processes. */
struct train_setting {
    enum train_mode mode;
    const char *decode; /* "exact", "fast" or "gpu"; NULL: no images */
    int ranks;
    int devices; /* devices of each rank */
    int classes;
    int64_t epoch_steps; /* optimizer steps of an epoch */
    enum fuse fuse;      /* fusion of convolution and batch norm at the start of the run */
    const char *conv;    /* algorithm of convolutions on a CPU; else NULL */
    bool graphs;         /* the device replays recorded graphs of operations */
    bool wgrad_stream;   /* weight gradients are computed on a second stream */
    bool pdl;            /* GPUs launch kernels early */
    bool emulated;       /* the device rounds to 16-bit types instead of computing in them */
    bool oversubscribed; /* more compute threads than cores on a host */
    const char *comm;    /* transport of gradients; NULL: none */
    const struct inject *inject; /* faults to inject, after inject_settle; NULL: none */
    uint64_t data, data_before;  /* fingerprints of the data: of this attempt, and of the checkpoint
                                  * if that differs, else 0 */
};

/* Returns `val_resize`, or what timm computes from `val_crop_pct`. */
int train_config_val_resize(const struct train_config *c);

/* Returns the number of images of an optimizer step, over all ranks. */
int64_t train_config_images(const struct train_config *c, int ranks);

/* Returns the factor by which --lr-scale multiplies the learning rate. */
double train_config_lr_factor(const struct train_config *c, int ranks);

/* Returns the learning rate of optimizer step `step`, before --lr-scale, if an epoch has
 * `steps_per_epoch` steps:
 *   warm-up  lr * (step + 1) / (warmup_epochs * steps_per_epoch)   while that is below lr
 *   step     lr * gamma ^ floor(epoch / lr_step)                   (torch's StepLR), or with
 *            lr_milestones lr * gamma ^ (number of milestones <= epoch)   (MultiStepLR)
 *   cosine   lr * (1 + cos(pi * t)) / 2; t: the completed fraction of the steps after warm-up
 *   poly     (lr - lr_end) * (1 - t) ^ power + lr_end              (MLPerf's; PolynomialLR) */
double train_config_lr(const struct train_config *c, int64_t step, int64_t steps_per_epoch);
