/* Defines the table of training's settings. */
#include "runners/settings.h"

#include "base/json.h"
#include "input/loader_config.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>

#define SETTINGS_OF struct train_record
#define IN(name)    .group = TRAIN_GROUP_##name

_Static_assert(offsetof(struct train_record, config) == 0, "rows fill in a struct train_config");
/* The values of --grad-compress are in the order of enum dtype. */
_Static_assert(DTYPE_F32 == 0 && DTYPE_F16 == 1 && DTYPE_BF16 == 2, "--grad-compress");

static enum status take_truth(const struct setting *s, const char *text, void *config)
{
    bool yes = strcasecmp(text, "true") == 0 || strcmp(text, "1") == 0;
    if (!yes && strcasecmp(text, "false") != 0 && strcmp(text, "0") != 0)
        return status_fail(STATUS_USAGE, "--%s '%s': give True or False", s->flag, text);
    *(int *)setting_member(s, config) = yes;
    return STATUS_OK;
}

/* --loss-scale enables loss scaling for every precision; a number is a static scale. */
static enum status take_loss_scale(const struct setting *s, const char *text, void *config)
{
    struct train_config *c = config;
    struct scaler_rule *scaler = &c->scaler;
    c->scaling = 1;
    scaler->dynamic = strcmp(text, "dynamic") == 0;
    if (scaler->dynamic)
        return STATUS_OK;
    TRY(setting_real(s->flag, text, 1e-30, 1e30, &scaler->init));
    scaler->min = scaler->min < scaler->init ? scaler->min : scaler->init;
    scaler->max = scaler->max > scaler->init ? scaler->max : scaler->init;
    return STATUS_OK;
}

static enum status take_inject(const struct setting *s, const char *text, void *config)
{
    (void)s;
    return inject_parse(text, &((struct train_config *)config)->inject);
}

/* "cpu" is the former name of "exact". */
static enum status take_decode(const struct setting *s, const char *text, void *config)
{
    struct setting words = *s;
    words.type = SETTING_CHOICE;
    return setting_take(&words, strcmp(text, "cpu") == 0 ? "exact" : text, config);
}

const struct setting train_settings[] = {
    {IN(DATA), .help = "Network and data"},
    {IN(OPTIMIZER), .help = "Optimizer"},
    {IN(PRECISION), .help = "Precision"},
    {IN(DEVICES), .help = "Devices and processes"},
    {IN(RUN), .help = "Run"},

    {NULL, 0, "DATA", NULL, NULL, AS_TEXT(config.data), .key = "data",
     .traits = TRAIN_PRIVATE | TRAIN_NEUTRAL},
    {"arch", 'a', "ARCH", "resnet18", "Network; 'ampscale info --list' lists the networks",
     AS_TEXT(config.arch), IN(DATA)},
    {"init", 0, "FILE", NULL, "Start from the weights of a safetensors file", AS_TEXT(config.init),
     IN(RUN), .traits = TRAIN_PRIVATE | TRAIN_NEUTRAL},
    {"resume", 0, "auto|FILE", NULL,
     "Resume from a checkpoint; 'auto': from the newest checkpoint in --out, or start anew if "
     "--out has no checkpoint",
     AS_TEXT(config.resume), IN(RUN), .traits = TRAIN_PRIVATE | TRAIN_NEUTRAL},
    {"devices", 0, "cpu|cpu:N|ref|cuda:N,...", "cpu",
     "Devices to train on; cpu:2: two devices that share the cores; cuda:0,1: GPUs 0 and 1",
     AS_TEXT(config.devices), GIVEN(config.devices_named), IN(DEVICES), .traits = TRAIN_PRIVATE},
    {"threads", 0, "N", NULL,
     "Host threads per device (default: the cores, shared among the devices)",
     AS_INTEGER(config.threads, 1, TRAIN_THREADS_MAX), IN(DEVICES), .traits = TRAIN_PRIVATE},
    {"workers", 'j', "N", "4", "Threads that read and decode images",
     AS_INTEGER(config.workers, 1, 1024), IN(DATA), .traits = TRAIN_PRIVATE | TRAIN_NEUTRAL},
    {.key = "decode", AS_TEXT(resolved.decode), .traits = SETTING_RECORD_SET},
    {"image-size", 0, "PX", "224", "Side of the input images in pixels",
     AS_INTEGER(config.image_size, 1, TRAIN_IMAGE_SIZE_MAX), IN(DATA)},
    {"val-resize", 0, "PX", NULL,
     "Shorter side of a validation image before the central crop (default: --image-size * 256/224)",
     AS_INTEGER(config.val_resize, 1, 100 * TRAIN_IMAGE_SIZE_MAX), IN(DATA),
     .traits = SETTING_RECORD_SET},
    {"interpolation", 0, "bilinear|bicubic", "bilinear",
     "Resampling of images in training and validation, with antialiasing",
     AS_CHOICE(config.interpolation), IN(DATA), .traits = SETTING_RECORD_SET},
    {"batch-size", 'b', "N", "256", "Images per batch of each process, over all its devices",
     AS_INTEGER(config.batch, 1, TRAIN_BATCH_MAX), IN(DATA), .aliases = {"b"}},
    {"val-batch-size", 0, "N", NULL, "Images per validation batch (default: as -b)",
     AS_INTEGER(config.val_batch, 1, TRAIN_BATCH_MAX), IN(DATA)},
    {"epochs", 0, "N", "90", "Passes over the training images",
     AS_INTEGER(config.epochs, 1, 1000000), IN(OPTIMIZER)},
    {"steps", 0, "N", NULL, "Stop after N optimizer steps in total",
     AS_INTEGER(config.steps, 1, 1e15), IN(OPTIMIZER)},
    {"desired-acc", 0, "A", NULL,
     "Stop once validation top-1 reaches A, a fraction (0.75) or percent (75)",
     AS_REAL(config.desired_acc, 0, 100), IN(OPTIMIZER)},
    {"lr", 0, "LR", "0.1", "Initial learning rate", AS_REAL(config.lr, 0, 1e6), IN(OPTIMIZER),
     .aliases = {"learning-rate"}},
    {"momentum", 0, "M", "0.9", "Momentum", AS_REAL(config.momentum, 0, 1), IN(OPTIMIZER)},
    {"wd", 0, "W", "1e-4", "Weight decay", AS_REAL(config.weight_decay, 0, 1e6), IN(OPTIMIZER),
     .aliases = {"weight-decay"}, .key = "weight_decay"},
    {.key = "norm_weight_decay", AS_JSON(norm_weight_decay)},
    {"clip-grad-norm", 0, "M", NULL,
     "Largest norm of a step's gradient; a gradient with a larger norm is scaled to norm M",
     AS_REAL(config.clip_grad_norm, 1e-30, 1e30), IN(OPTIMIZER), .traits = SETTING_RECORD_SET},
    {"nesterov", 0, NULL, NULL, "Nesterov momentum", AS_SWITCH(config.nesterov), IN(OPTIMIZER)},
    {"label-smoothing", 0, "E", "0", "Label smoothing", AS_REAL(config.label_smoothing, 0, 1),
     IN(OPTIMIZER)},
    {"mixup", 0, "ALPHA", NULL,
     "Mix each image and its label with another image of the batch and its label; for each step, "
     "the weight is a random number from Beta(ALPHA, ALPHA); 0.2 is usual (default: 0, no mixing)",
     AS_REAL(config.mixup, 0, 1e3), IN(OPTIMIZER), .traits = SETTING_RECORD_SET},
    {"lr-schedule", 0, "step|cosine|constant|poly", "step", "Schedule of the learning rate",
     AS_CHOICE(config.schedule), IN(OPTIMIZER)},
    {"lr-step", 0, "N", "30",
     "Epochs between reductions of the learning rate, for the schedule 'step'",
     AS_INTEGER(config.lr_step, 1, 1000000), IN(OPTIMIZER)},
    {"lr-milestones", 0, "E,...", NULL,
     "Epochs at which the learning rate is reduced, as in 30,60,80; instead of --lr-step",
     AS_TEXT(config.lr_milestones), IN(OPTIMIZER), .traits = SETTING_RECORD_SET},
    {"lr-power", 0, "P", NULL, "Power of the schedule 'poly' (default 2)",
     AS_REAL(config.lr_power, 0.01, 100), IN(OPTIMIZER), .traits = SETTING_RECORD_SET},
    {"lr-end", 0, "LR", NULL, "Last learning rate of the schedule 'poly' (default 0)",
     AS_REAL(config.lr_end, 0, 1e6), IN(OPTIMIZER), .traits = SETTING_RECORD_SET},
    {"lr-gamma", 0, "G", "0.1", "Factor of each reduction, for the schedule 'step'",
     AS_REAL(config.lr_gamma, 0, 1), IN(OPTIMIZER)},
    {"warmup-epochs", 0, "E", "0", "Length of the linear warm-up in epochs",
     AS_REAL(config.warmup_epochs, 0, 1e6), IN(OPTIMIZER)},
    {"seed", 0, "N", "0", "Random seed of weights, sampling order and augmentation",
     AS_INTEGER(config.seed, 0, TRAIN_SEED_MAX), IN(RUN)},
    {"dummy", 0, NULL, NULL, "Train on synthetic tensors instead of a data folder",
     AS_SWITCH(config.dummy), IN(DATA)},
    {"dummy-train", 0, "N", "1281167", "Synthetic training images",
     AS_INTEGER(config.dummy_train, 1, 1e12), IN(DATA)},
    {"dummy-val", 0, "N", "50000", "Synthetic validation images",
     AS_INTEGER(config.dummy_val, 1, 1e12), IN(DATA)},
    {"drop-last", 0, NULL, NULL, "Drop the last batch of an epoch if it is not full",
     AS_SWITCH(config.drop_last), IN(DATA)},
    {"max-bad-images", 0, "N", "100",
     "Stop if a rank cannot decode more than N training or validation images",
     AS_INTEGER(config.max_bad_images, 0, 1e12), IN(DATA), .traits = TRAIN_NEUTRAL},
    {"val-every", 0, "N", NULL, "Validate every N epochs and after the last epoch (default 1)",
     AS_INTEGER(config.val_every, 1, 1000000), IN(RUN),
     .traits = TRAIN_NEUTRAL | SETTING_RECORD_SET},
    {"training-only", 0, NULL, NULL, "Leave out validation; DATA needs no val/",
     AS_SWITCH(config.training_only), IN(RUN), .traits = SETTING_RECORD_SET},
    {"evaluate", 'e', NULL, NULL,
     "Validate the weights of --resume or --init, record the result, and exit",
     AS_SWITCH(config.evaluate), IN(RUN), .traits = SETTING_RECORD_SET},
    {"warmup-steps", 0, "N", NULL,
     "Number of steps at the start of the run that throughput does not count (default 10)",
     AS_INTEGER(config.warmup_steps, 1, 1e12), IN(RUN),
     .traits = TRAIN_NEUTRAL | SETTING_RECORD_SET},
    {"checkpoint-every", 0, "N", NULL,
     "Write a checkpoint every N epochs and after the last epoch (default 1)",
     AS_INTEGER(config.checkpoint_every, 1, 1000000), IN(RUN),
     .traits = TRAIN_NEUTRAL | SETTING_RECORD_SET, .aliases = {"save-every"}},
    {"keep-checkpoints", 0, "N", NULL,
     "Also keep the checkpoints of the last N epoch ends, as checkpoint-epoch-NNNN.safetensors",
     AS_INTEGER(config.keep_checkpoints, 1, 1000000), IN(RUN),
     .traits = TRAIN_NEUTRAL | SETTING_RECORD_SET},
    {"no-checkpoint", 0, NULL, NULL, "Write no checkpoints and no best weights",
     AS_SWITCH(config.no_checkpoint), IN(RUN), .traits = TRAIN_NEUTRAL | SETTING_RECORD_SET},
    {"checkpoint-steps", 0, "N", NULL,
     "Also write a checkpoint every N steps (default: only at the ends of epochs)",
     AS_INTEGER(config.checkpoint_steps, 1, 1e12), IN(RUN), .traits = TRAIN_NEUTRAL},
    {"precision", 0, TRAIN_PRECISION_WORDS, "fp32",
     "Types of weights, activations and matrix products; 'ampscale info --policy P' lists them",
     AS_TEXT(config.precision), IN(PRECISION)},
    {.key = "emulated", AS_SWITCH(resolved.emulated)},
    {.key = "oversubscribed",
     AS_SWITCH(resolved.oversubscribed),
     .traits = TRAIN_PRIVATE | TRAIN_NEUTRAL | SETTING_RECORD_SET},
    {.key = "fuse", .value = TRAIN_FUSE_WORDS, AS_CHOICE(resolved.fuse)},
    {.key = "conv_algorithm", AS_TEXT(resolved.conv), .traits = SETTING_RECORD_SET},
    {.key = "batchnorm", AS_TEXT(batchnorm)},
    {.key = "loss_scaling", AS_JSON(loss_scaling)},
    {.key = "mode", .value = "auto|nd|dp|ddp|ddp2", AS_CHOICE(resolved.mode)},
    {.key = "world_size", AS_INTEGER(resolved.ranks, 0, 0)},
    {.key = "devices_per_rank", AS_INTEGER(resolved.devices, 0, 0)},
    {.key = "classes", AS_INTEGER(resolved.classes, 0, 0)},
    {.key = "epoch_steps", AS_INTEGER(resolved.epoch_steps, 0, 0)},
    {"dp-reduce", 0, "central|all", "central",
     "For --mode dp. central: reduce gradients only to the first device, which keeps the weights; "
     "all: to all devices",
     AS_CHOICE(config.dp_reduce), IN(DEVICES)},
    {"accumulate", 0, "N", "1", "Batches per optimizer step",
     AS_INTEGER(config.accumulate, 1, 65536), IN(DEVICES)},
    {.key = "graphs", AS_SWITCH(resolved.graphs)},
    {.key = "wgrad_stream",
     AS_SWITCH(resolved.wgrad_stream),
     .traits = TRAIN_PRIVATE | TRAIN_NEUTRAL},
    {.key = "pdl", AS_SWITCH(resolved.pdl), .traits = TRAIN_PRIVATE | TRAIN_NEUTRAL},
    {"deterministic", 0, NULL, NULL,
     "Use only operations that give the same bits in every run, even where they are slower",
     AS_SWITCH(config.deterministic), IN(DEVICES)},
    {"sync-bn", 0, NULL, NULL, "Compute batch norm's statistics over all devices and processes",
     AS_SWITCH(config.sync_bn), IN(DEVICES)},
    {"lr-scale", 0, "none|linear|sqrt", "none",
     "linear: learning rate times (images per step) / 256; sqrt: times the square root of this",
     AS_CHOICE(config.lr_scale), IN(OPTIMIZER)},
    {"lars", 0, "T", NULL,
     "Layer-wise adaptive rates with trust coefficient T (0.001 is usual; default: plain SGD)",
     AS_REAL(config.lars, 0, 1e3), IN(OPTIMIZER)},
    {"bucket-mb", 0, "MIB", "25", "Size of a gradient bucket in MiB",
     AS_REAL(config.bucket_mb, 0.001, 65536), IN(DEVICES)},
    {"telemetry", 0, "SECONDS", "1",
     "Seconds between samples of the devices' sensors; 0: no samples",
     AS_REAL(config.telemetry, 0, 86400), IN(RUN), .traits = TRAIN_NEUTRAL},
    {.key = "comm", AS_TEXT(resolved.comm)},
    {.key = "grad_compress", AS_TEXT(grad_compress)},
    {"check-replicas", 0, "N", NULL,
     "Every N steps, check that weights, momentum and reduced gradients are bitwise equal on all "
     "devices (default: before each checkpoint)",
     AS_INTEGER(config.check_replicas, 1, 1e12), IN(RUN),
     .traits = TRAIN_NEUTRAL | SETTING_RECORD_SET},
    {.key = "inject", AS_JSON(inject), .traits = TRAIN_NEUTRAL},
    {.key = "data_changed", AS_JSON(data_changed)},
    {0},
};

const struct setting train_unrecorded[] = {
    {"data-changed", 0, NULL, NULL,
     "Resume although images were repaired, added or removed, at the same batch of the epoch's new "
     "order, whose rest may miss or repeat images; the classes must be the same",
     AS_SWITCH(config.data_changed), IN(RUN)},
    {"norm-weight-decay", 0, "W", NULL,
     "Weight decay of batch norm's parameters and of biases; 0 is usual (default: as --wd)",
     AS_REAL(config.norm_weight_decay, 0, 1e6), IN(OPTIMIZER)},
    {"decode", 0, TRAIN_DECODE_WORDS, "exact",
     "How JPEG images are decoded. exact: to the pixels of PIL; fast: at a reduced size where "
     "enough pixels remain, up to 109 levels off in fine patterns; gpu: by nvJPEG on a GPU with "
     "JPEG engines, and exactly for files that these cannot decode",
     SETTING_AT(config.decode), TAKEN_BY(take_decode), IN(DATA)},
    {"val-crop-pct", 0, "F", NULL,
     "timm's crop fraction, instead of --val-resize, which becomes floor(--image-size / F)",
     AS_REAL(config.val_crop_pct, 0.01, 1), IN(DATA)},
    {"classes", 0, "N", "1000", "Classes of synthetic images",
     AS_INTEGER(config.classes, 1, TRAIN_CLASSES_MAX), IN(DATA)},
    {"start-epoch", 0, "N", NULL,
     "Number of the first epoch (default, and with --resume auto at least: the checkpoint's, or 0)",
     AS_INTEGER(config.start_epoch, 0, 1000000), IN(OPTIMIZER)},
    {"opt-level", 0, "O0|O1|O2|O3", NULL, "Apex's optimization level, instead of --precision",
     AS_TEXT(config.precision), IN(PRECISION)},
    {"emulate", 0, NULL, NULL, "Emulate the precision in fp32, even if the processor has the type",
     AS_SWITCH(config.emulate), IN(PRECISION)},
    {"fuse", 0, TRAIN_FUSE_WORDS, NULL,
     "Fusion of convolution and batch norm on devices that support it. none: no fusion; stats: "
     "batch norm's statistics; apply: also the operations between two convolutions; all: every "
     "fusion (default auto: every fusion that timing shows not to be slower)",
     AS_CHOICE(config.fuse), GIVEN(config.fuse_named), IN(PRECISION)},
    {"conv-algorithm", 0, CONV_ALGORITHM_WORDS, "auto",
     "Algorithm of fp32 3x3 convolutions of stride 1 on a CPU: direct, or Winograd's F(4x4, 3x3), "
     "with larger errors; auto: the one expected to be faster, or that of the checkpoint",
     AS_CHOICE(config.conv_algorithm), IN(PRECISION)},
    {"keep-batchnorm-fp32", 0, "True|False", NULL,
     "Keep batch norm's parameters in fp32 (default: depends on the precision)",
     SETTING_AT(config.keep_batchnorm), TAKEN_BY(take_truth), IN(PRECISION)},
    {"loss-scale", 0, "dynamic|S", NULL,
     "Loss scale: dynamic, or a fixed number (default: dynamic for amp, O1 and O2; else none)",
     TAKEN_BY(take_loss_scale), IN(PRECISION)},
    {"loss-scale-init", 0, "S", "65536", "Initial dynamic loss scale",
     AS_REAL(config.scaler.init, 1e-30, 1e30), IN(PRECISION)},
    {"loss-scale-growth", 0, "F", "2", "Factor by which the loss scale grows",
     AS_REAL(config.scaler.growth, 1, 1e6), IN(PRECISION)},
    {"loss-scale-backoff", 0, "F", "0.5",
     "Factor by which the loss scale shrinks after an overflow",
     AS_REAL(config.scaler.backoff, 1e-6, 1), IN(PRECISION)},
    {"loss-scale-interval", 0, "N", "2000", "Steps without overflow before the loss scale grows",
     AS_INTEGER(config.scaler.interval, 1, 1e12), IN(PRECISION)},
    {"loss-scale-max", 0, "S", "16777216", "Largest loss scale",
     AS_REAL(config.scaler.max, 1e-30, 1e30), IN(PRECISION)},
    {"loss-scale-min", 0, "S", "1", "Stop if the loss scale would fall below this",
     AS_REAL(config.scaler.min, 0, 1e30), IN(PRECISION)},
    {"inject-overflow", 0, "STEP", NULL,
     "Make the gradients of one step infinite, to test the loss scaler",
     AS_INTEGER(config.inject_overflow, 0, 1e12), IN(PRECISION), .traits = SETTING_HIDDEN},
    {"inject", 0, "FAULT", NULL, "Inject a fault, to test the detection", TAKEN_BY(take_inject),
     IN(PRECISION), .traits = SETTING_HIDDEN},
    {"mode", 0, "auto|nd|dp|ddp|ddp2", NULL,
     "nd: one device; dp: several devices of one process; ddp: a process per device; ddp2: several "
     "processes with several devices each (default auto: chosen from devices and launcher)",
     AS_CHOICE(config.mode), IN(DEVICES)},
    {"no-graph", 0, NULL, NULL,
     "Launch every operation separately, on devices that could replay a recorded graph",
     AS_SWITCH(config.no_graph), IN(DEVICES)},
    {"wgrad-stream", 0, "auto|off|on", "auto",
     "Compute weight gradients on a second stream of each GPU, with the same bits in the results; "
     "auto: only if this makes steps faster",
     AS_CHOICE(config.wgrad_stream), IN(DEVICES)},
    {"plans", 0, "N", NULL,
     "Plans of cuDNN to time for each convolution; 1: none, the first that runs is taken (default: "
     "20)",
     AS_INTEGER(config.plans, 1, PLANS_MAX), IN(DEVICES)},
    {"pdl", 0, "auto|off|on", "auto",
     "Launch own kernels before the previous kernel of the stream is complete (programmatic "
     "dependent launch; GPUs from compute capability 9.0 on), with the same bits in the results; "
     "auto: only if this makes steps faster",
     AS_CHOICE(config.pdl), IN(DEVICES)},
    {"grad-compress", 0, TRAIN_COMPRESS_WORDS, NULL,
     "Type in which gradients are sent (default none: their own type)",
     AS_CHOICE(config.grad_compress), IN(DEVICES)},
    {"comm", 0, COMM_VIA_WORDS, NULL,
     "Transport of data between ranks. nccl: NCCL, between GPUs; mpi, gloo: MPI or Gloo, through "
     "host memory; local: only the devices of one process; host: what auto uses without NCCL "
     "(default auto: NCCL if every rank has it and no two ranks share a GPU; else MPI if its "
     "launcher started the processes; else Gloo)",
     AS_CHOICE(config.comm), IN(DEVICES)},
    {"rendezvous", 0, "HOST:PORT", NULL,
     "Address of rank 0, to which processes connect without MPI; the launcher (torchrun, srun, or "
     "RANK and WORLD_SIZE) gives each process its rank (default outside of MPI: MASTER_ADDR and "
     "MASTER_PORT)",
     AS_TEXT(config.rendezvous), IN(DEVICES)},
    {"secret-file", 0, "FILE", NULL,
     "File of mode 600 with the secret that the ranks of a rendezvous share (default: "
     "AMPSCALE_SECRET, which launch sets); required except on loopback",
     AS_TEXT(config.secret_file), IN(DEVICES)},
    {"insecure", 0, NULL, NULL,
     "Allow a rendezvous beyond loopback without a secret: any process that reaches the port can "
     "join",
     AS_SWITCH(config.insecure), IN(DEVICES)},
    {"comm-timeout", 0, "S", "300",
     "End the job if a process makes the others wait for S seconds; 0: never",
     AS_REAL(config.comm_timeout, 0, 1e9), IN(DEVICES)},
    {"out", 0, "DIR", NULL, "Folder of the run (default: the first free runs/ARCH-NNN)",
     AS_TEXT(config.out), IN(RUN)},
    {"expect", 0, "RUN", NULL,
     "Stop with exit status 4 if a loss or the final state differs in any bit from those of RUN, a "
     "run of the same configuration and hardware",
     AS_TEXT(config.expect), IN(RUN)},
    {"on-nan", 0, "stop|continue", "stop",
     "After a training loss that is not finite: end the run, or continue as PyTorch does; a "
     "validation loss that is not finite gives a warning",
     AS_CHOICE(config.on_nan), IN(RUN)},
    {"on-save", 0, "CMD", NULL,
     "Run CMD with a shell, in the background, after checkpoints and records are written; {} is "
     "the run's folder",
     AS_TEXT(config.on_save), IN(RUN)},
    {"on-save-timeout", 0, "S", "60",
     "Time limit of the --on-save command, in seconds, also when training waits for it at the end",
     AS_REAL(config.on_save_timeout, 1, 1e6), IN(RUN)},
    {"on-save-helper", 0, "DIR", NULL, "Run --on-save for the process at standard input",
     AS_TEXT(config.on_save_helper), IN(RUN), .traits = SETTING_HIDDEN},
    {"print-freq", 'p', "N", "10", "Batches between progress lines",
     AS_INTEGER(config.print_freq, 1, 1000000000), IN(RUN)},
    {"quiet", 'q', NULL, NULL, "Print no progress", AS_SWITCH(config.quiet), IN(RUN),
     .traits = TRAIN_PRIVATE | TRAIN_NEUTRAL},
    {0},
};

bool train_key_is_neutral(const char *key)
{
    char name[64];
    for (const struct setting *s = train_settings; !setting_is_end(s); s++)
        if ((s->traits & TRAIN_NEUTRAL) && strcmp(setting_key(s, name), key) == 0)
            return true;
    return false;
}

struct train_config train_config_default(void)
{
    struct train_config c = {
        .join_timeout = 300,
        .start_epoch = -1,
        .norm_weight_decay = -1,
        .keep_batchnorm = -1,
        .scaling = -1,
        .scaler = scaler_default(),
        .inject_overflow = -1,
    };
    if (settings_default(train_settings, &c) != STATUS_OK ||
        settings_default(train_unrecorded, &c) != STATUS_OK)
        return (struct train_config){0}; /* only if a default in the table is invalid */
    return c;
}

enum status train_config_json(const struct train_config *c, const struct train_setting *resolved,
                              unsigned without, json_t **out)
{
    struct policy p;
    TRY(train_config_policy(c, &p));
    struct train_record r = {.config = *c,
                             .resolved = *resolved,
                             .batchnorm = dtype_str(p.batchnorm),
                             .grad_compress = dtype_str(c->grad_compress)};
    if (!c->resume)
        r.config.resume = "";
    const struct loader_config usual = {.image_size = c->image_size};
    int resize = train_config_val_resize(c);
    r.config.val_resize = resize == loader_config_fill(usual).resize ? 0 : resize;
    if (!c->val_batch)
        r.config.val_batch = c->batch;
    r.resolved.emulated = resolved->emulated && p.operand != DTYPE_F32;
    const struct scaler_rule *s = &c->scaler;
    if (train_config_scaled(c, &p))
        r.loss_scaling =
            json_new("{s:b, s:f, s:f, s:f, s:I, s:f, s:f}", "dynamic", s->dynamic, "init", s->init,
                     "growth", s->growth, "backoff", s->backoff, "interval",
                     (json_int_t)s->interval, "max", s->max, "min", s->min);
    r.norm_weight_decay = c->norm_weight_decay >= 0 ? json_finite(c->norm_weight_decay) : NULL;
    r.inject = resolved->inject ? inject_json(resolved->inject) : NULL;
    uint64_t before = resolved->data_before;
    if (before)
        r.data_changed = json_new("{s:o, s:o}", "from", json_sprintf("%016" PRIx64, before), "to",
                                  json_sprintf("%016" PRIx64, resolved->data));
    *out = json_object();
    settings_record(train_settings, &r, without, *out);
    json_decref(r.loss_scaling);
    json_decref(r.inject);
    json_decref(r.norm_weight_decay);
    json_decref(r.data_changed);
    return STATUS_OK;
}
