/* Everything a training run can be told, and nothing else: filled in by the command line, checked
 * once, recorded in full, passed down. */
#ifndef RUNNERS_CONFIG_H
#define RUNNERS_CONFIG_H

#include "base/status.h"
#include "model/network.h"
#include "results/record.h"
#include "runners/inject.h"
#include "runners/scaler.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum lr_schedule { SCHEDULE_STEP, SCHEDULE_COSINE, SCHEDULE_CONSTANT };

/* Which devices and processes train together; engine.h says how. AUTO: what the number of devices
 * and the launcher say. */
enum train_mode { MODE_AUTO, MODE_ND, MODE_DP, MODE_DDP, MODE_DDP2, MODE_COUNT };

/* Where the gradients of a process's devices are summed: onto the first, which alone keeps the
 * weights, or onto all. */
enum dp_reduce { DP_CENTRAL, DP_ALL };

/* What gradients of GPUs travel by: the GPUs' own library, or the host. AUTO: the library, where it
 * is there and no two ranks share a GPU. */
enum comm_via { VIA_AUTO, VIA_NCCL, VIA_HOST };

/* How the learning rate grows with the images of a step, over all devices and ranks: by
 * (images / 256), by its root, or not. */
enum lr_scale { LR_SCALE_NONE, LR_SCALE_LINEAR, LR_SCALE_SQRT, LR_SCALE_COUNT };

/* Strings belong to the caller and must outlive the run. Defaults are those of pytorch/examples'
 * imagenet where it has the setting. */
struct train_config {
    const char *data; /* folder with train/ and val/; NULL with dummy */
    const char *arch;
    const char *out;     /* the run's folder; NULL: the first free runs/<arch>-NNN */
    const char *resume;  /* NULL, "auto", or a checkpoint */
    const char *init;    /* safetensors with weights to start from, or NULL */
    const char *devices; /* "cpu", "cpu:2"; see device_list.h */
    int threads;         /* per device; 0: all cores, shared among the devices */
    enum train_mode mode;
    enum dp_reduce dp_reduce;
    enum comm_via comm;
    const char *rendezvous;   /* HOST:PORT where ranks meet without MPI; NULL: with it */
    double bucket_mb;         /* MiB of a gradient bucket */
    enum dtype grad_compress; /* gradients are sent as: F32, F16 or BF16 */
    bool no_graph;            /* launch every operation by itself, where graphs could be */
    bool deterministic;       /* devices plan nothing that may give other bits in another run */
    int accumulate;           /* batches to an optimizer step */
    bool sync_bn;             /* batch norm's statistics over all devices and ranks */
    double comm_timeout;      /* seconds to wait for another rank; 0: for ever */
    double join_timeout;      /* seconds for all processes of an MPI job to come; 0, here or above:
                               * for ever */
    int workers;              /* loader threads */
    int classes;              /* with dummy; else what the data set has */
    int image_size;
    int batch;     /* images of one process's batch, over all its devices */
    int val_batch; /* 0: as batch */
    int epochs;
    int start_epoch;    /* -1: as the checkpoint says, else 0 */
    int64_t steps;      /* end after this many optimizer steps; 0: no limit */
    double desired_acc; /* end once val top-1 reaches it, in percent; 0: no */
    double lr, momentum, weight_decay;
    enum lr_scale lr_scale;
    double lars; /* trust coefficient; 0: plain SGD */
    bool nesterov;
    double label_smoothing;
    enum lr_schedule schedule;
    int lr_step; /* epochs */
    double lr_gamma;
    double warmup_epochs; /* linear from 0 */
    int print_freq;
    uint64_t seed;
    const char *precision; /* fp32, tf32, amp or bf16; or O0 to O3 */
    bool emulate;          /* round in fp32 although the device has the precision's types */
    enum fuse fuse;        /* of convolution and batch norm */
    bool fuse_named;       /* by the user, whom the run must not overrule */
    int keep_batchnorm;    /* batch norm in fp32: 0, 1, or -1: as the precision says */
    int scaling;           /* loss scaling: 0, 1, or -1: as the precision says */
    struct scaler_config scaler;
    int64_t inject_overflow; /* for tests: the step whose gradients overflow; -1: none */
    struct inject inject;    /* for tests: other faults */
    const char *expect;      /* the folder of a run that has the same bits; NULL: none is known */
    bool evaluate;
    bool dummy;
    int64_t dummy_train, dummy_val; /* images */
    bool drop_last;
    int64_t max_bad_images;
    double telemetry;         /* seconds between samples of the devices' sensors; 0: none */
    int64_t check_replicas;   /* every so many steps; 0: at epoch ends and checkpoints only */
    int64_t checkpoint_steps; /* also every so many steps; 0: at epoch ends only */
    const struct record_observer *observer; /* of the run's record; NULL: none */
    /* Falls of an earlier process of this run; where `restart` is set when training has failed, the
     * run can begin again in another process that has these. NULL: there is none to begin in. */
    struct ladder *ladder;
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

/* What the flags came to once data, devices and processes were known. */
struct train_setting {
    enum train_mode mode;
    int ranks;
    int devices; /* of each rank */
    int classes;
    int64_t epoch_steps; /* optimizer steps of an epoch */
    enum fuse fuse;      /* of convolution and batch norm, as the run began */
    bool graphs;         /* the device replays recorded graphs of operations */
    bool emulated;       /* the device rounds to narrow types instead of computing in them */
    const char *comm;    /* what gradients travel by; NULL: nowhere */
    const struct inject *inject; /* settled; NULL: no fault is injected */
};

/* A new object with every setting, for run.json. NULL without memory. */
json_t *train_config_json(const struct train_config *c, const struct train_setting *setting);

/* Images of an optimizer step. */
int64_t train_config_images(const struct train_config *c, int ranks);

/* What --lr-scale multiplies the learning rate by. */
double train_config_lr_factor(const struct train_config *c, int ranks);

const char *train_mode_str(enum train_mode m); /* "auto", "nd", ... */
const char *lr_scale_str(enum lr_scale s);
const char *lr_schedule_str(enum lr_schedule s);

/* The learning rate of optimizer step `step` when an epoch has `steps_per_epoch`, before
 * --lr-scale:
 *   warm-up  lr * (step + 1) / (warmup_epochs * steps_per_epoch)   while that is below lr
 *   step     lr * gamma ^ floor(epoch / lr_step)                   (torch's StepLR)
 *   cosine   lr * (1 + cos(pi * t)) / 2, t the share of the steps after warm-up that are over */
double train_config_lr(const struct train_config *c, int64_t step, int64_t steps_per_epoch);
#endif
