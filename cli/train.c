/* ampscale train: the flags of pytorch/examples' imagenet, and ours. */
#include "cli/cli.h"
#include "cli/restart.h"
#include "export/live.h"
#include "runners/trainer.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum {
    KEY_LR = 256,
    KEY_MOMENTUM,
    KEY_WEIGHT_DECAY,
    KEY_NESTEROV,
    KEY_EPOCHS,
    KEY_START_EPOCH,
    KEY_STEPS,
    KEY_DESIRED_ACC,
    KEY_RESUME,
    KEY_INIT,
    KEY_SEED,
    KEY_DUMMY,
    KEY_DUMMY_TRAIN,
    KEY_DUMMY_VAL,
    KEY_CLASSES,
    KEY_IMAGE_SIZE,
    KEY_OUT,
    KEY_DEVICES,
    KEY_THREADS,
    KEY_SCHEDULE,
    KEY_LR_STEP,
    KEY_LR_GAMMA,
    KEY_WARMUP,
    KEY_SMOOTHING,
    KEY_VAL_BATCH,
    KEY_DROP_LAST,
    KEY_BAD_IMAGES,
    KEY_CHECKPOINT_STEPS,
    KEY_CHECK_REPLICAS,
    KEY_TELEMETRY,
    KEY_PRECISION,
    KEY_OPT_LEVEL,
    KEY_EMULATE,
    KEY_FUSE,
    KEY_KEEP_BATCHNORM,
    KEY_LOSS_SCALE,
    KEY_SCALE_INIT,
    KEY_SCALE_GROWTH,
    KEY_SCALE_BACKOFF,
    KEY_SCALE_INTERVAL,
    KEY_SCALE_MAX,
    KEY_SCALE_MIN,
    KEY_INJECT_OVERFLOW,
    KEY_INJECT,
    KEY_EXPECT,
    KEY_MODE,
    KEY_DP_REDUCE,
    KEY_BUCKET_MB,
    KEY_GRAD_COMPRESS,
    KEY_ACCUMULATE,
    KEY_SYNC_BN,
    KEY_NO_GRAPH,
    KEY_DETERMINISTIC,
    KEY_LR_SCALE,
    KEY_LARS,
    KEY_COMM_TIMEOUT,
    KEY_COMM,
    KEY_RENDEZVOUS,
    KEY_TENSORBOARD,
    KEY_PROMETHEUS,
};

static const struct argp_option options[] = {
    {0, 0, 0, 0, "Network and data", 1},
    {"arch", 'a', "ARCH", 0, "Network (default resnet18); 'ampscale info --list' names them", 0},
    {"image-size", KEY_IMAGE_SIZE, "PX", 0, "Side of the input images (default 224)", 0},
    {"batch-size", 'b', "N", 0,
     "Images of a batch of each process, over all its devices (default 256)", 0},
    {"val-batch-size", KEY_VAL_BATCH, "N", 0, "Images per validation step (default: as -b)", 0},
    {"workers", 'j', "N", 0, "Threads that read and decode images (default 4)", 0},
    {"drop-last", KEY_DROP_LAST, 0, 0, "Leave out the last batch when it is not full", 0},
    {"max-bad-images", KEY_BAD_IMAGES, "N", 0,
     "Stop when more images than this cannot be decoded (default 100)", 0},
    {"dummy", KEY_DUMMY, 0, 0, "Train on synthetic tensors; no data folder", 0},
    {"dummy-train", KEY_DUMMY_TRAIN, "N", 0, "Synthetic training images (default 1281167)", 0},
    {"dummy-val", KEY_DUMMY_VAL, "N", 0, "Synthetic validation images (default 50000)", 0},
    {"classes", KEY_CLASSES, "N", 0, "Classes of synthetic images (default 1000)", 0},

    {0, 0, 0, 0, "Optimizer", 2},
    {"epochs", KEY_EPOCHS, "N", 0, "Passes over the training images (default 90)", 0},
    {"start-epoch", KEY_START_EPOCH, "N", 0, "Number of the first epoch (default: as resumed)", 0},
    {"steps", KEY_STEPS, "N", 0, "End after N optimizer steps in all", 0},
    {"desired-acc", KEY_DESIRED_ACC, "A", 0,
     "End once validation top-1 reaches A, a share (0.75) or percent (75)", 0},
    {"lr", KEY_LR, "LR", 0, "Initial learning rate (default 0.1)", 0},
    {"learning-rate", KEY_LR, 0, OPTION_ALIAS, 0, 0},
    {"lr-scale", KEY_LR_SCALE, "none|linear|sqrt", 0,
     "Multiply the learning rate by the images of a step / 256, or by the root of that (default "
     "none)",
     0},
    {"momentum", KEY_MOMENTUM, "M", 0, "Momentum (default 0.9)", 0},
    {"nesterov", KEY_NESTEROV, 0, 0, "Nesterov momentum", 0},
    {"wd", KEY_WEIGHT_DECAY, "W", 0, "Weight decay (default 1e-4)", 0},
    {"weight-decay", KEY_WEIGHT_DECAY, 0, OPTION_ALIAS, 0, 0},
    {"lr-schedule", KEY_SCHEDULE, "step|cosine|constant", 0,
     "Course of the learning rate (default step)", 0},
    {"lr-step", KEY_LR_STEP, "N", 0, "Epochs between steps down (default 30)", 0},
    {"lr-gamma", KEY_LR_GAMMA, "G", 0, "Factor of a step down (default 0.1)", 0},
    {"warmup-epochs", KEY_WARMUP, "E", 0, "Linear warm-up, in epochs (default 0)", 0},
    {"lars", KEY_LARS, "T", 0,
     "Layer-wise adaptive rates with trust coefficient T (0.001 is usual; default: plain SGD)", 0},
    {"label-smoothing", KEY_SMOOTHING, "E", 0, "Label smoothing (default 0)", 0},

    {0, 0, 0, 0, "Precision", 3},
    {"precision", KEY_PRECISION, "fp32|tf32|amp|bf16", 0,
     "fp32 (default), tf32, amp or bf16; 'ampscale info --policy P' shows its types", 0},
    {"opt-level", KEY_OPT_LEVEL, "O0|O1|O2|O3", 0, "Apex's levels, in place of --precision", 0},
    {"emulate", KEY_EMULATE, 0, 0, "Round in fp32 although the processor has the type", 0},
    {"fuse", KEY_FUSE, "auto|none|stats|apply|all", 0,
     "How far convolution and batch norm are fused where the device can: not at all, their "
     "statistics, what lies between two convolutions, or all (default auto: where timing says it "
     "is not slower)",
     0},
    {"keep-batchnorm-fp32", KEY_KEEP_BATCHNORM, "True|False", 0,
     "Batch norm's parameters in fp32: True or False (default: as the precision says)", 0},
    {"loss-scale", KEY_LOSS_SCALE, "dynamic|S", 0,
     "dynamic, or a number (default: dynamic for amp, O1 and O2; none otherwise)", 0},
    {"loss-scale-init", KEY_SCALE_INIT, "S", 0, "First dynamic scale (default 65536)", 0},
    {"loss-scale-growth", KEY_SCALE_GROWTH, "F", 0, "Factor of growth (default 2)", 0},
    {"loss-scale-backoff", KEY_SCALE_BACKOFF, "F", 0, "Factor after overflow (default 0.5)", 0},
    {"loss-scale-interval", KEY_SCALE_INTERVAL, "N", 0,
     "Clean steps before the scale grows (default 2000)", 0},
    {"loss-scale-max", KEY_SCALE_MAX, "S", 0, "Largest scale (default 16777216)", 0},
    {"loss-scale-min", KEY_SCALE_MIN, "S", 0,
     "Stop when the scale would fall below this (default 1)", 0},
    {"inject-overflow", KEY_INJECT_OVERFLOW, "STEP", OPTION_HIDDEN,
     "Make the gradients of one step infinite, to see what follows", 0},
    {"inject", KEY_INJECT, "FAULT", OPTION_HIDDEN, "Commit a fault, to see what catches it", 0},

    {0, 0, 0, 0, "Devices and processes", 4},
    {"mode", KEY_MODE, "auto|nd|dp|ddp|ddp2", 0,
     "nd: one device; dp: several devices of one process; ddp: a process per device; ddp2: dp in "
     "each of several processes (default auto: as devices and launcher say)",
     0},
    {"devices", KEY_DEVICES, "cpu|cpu:N|ref|cuda:N,...", 0,
     "Devices that compute; cpu:2 is two, which share the cores, cuda:0,1 these two GPUs (default "
     "cpu)",
     0},
    {"threads", KEY_THREADS, "N", 0,
     "Host threads that compute, of each device (default: all cores, shared among the devices)", 0},
    {"accumulate", KEY_ACCUMULATE, "N", 0, "Batches to an optimizer step (default 1)", 0},
    {"sync-bn", KEY_SYNC_BN, 0, 0, "Batch norm's statistics over all devices and processes", 0},
    {"no-graph", KEY_NO_GRAPH, 0, 0,
     "Launch every operation by itself, on devices that can replay recorded graphs of them", 0},
    {"deterministic", KEY_DETERMINISTIC, 0, 0,
     "Use only what gives the same bits in every run, on GPUs too, where it may cost speed", 0},
    {"dp-reduce", KEY_DP_REDUCE, "central|all", 0,
     "dp: sum gradients onto the first device, which alone keeps the weights (default central), "
     "or onto all of them",
     0},
    {"bucket-mb", KEY_BUCKET_MB, "MIB", 0, "Size of a gradient bucket (default 25)", 0},
    {"grad-compress", KEY_GRAD_COMPRESS, "none|fp16|bf16", 0,
     "Send gradients in this type (default none: as they are)", 0},
    {"comm", KEY_COMM, "auto|nccl|host", 0,
     "What gradients of GPUs travel by: NCCL, or the memory of the host (default auto: NCCL, where "
     "it is there and no two processes share a GPU)",
     0},
    {"rendezvous", KEY_RENDEZVOUS, "HOST:PORT", 0,
     "Meet the other processes there, where rank 0 runs, in place of MPI; the launcher (torchrun, "
     "srun, or RANK and WORLD_SIZE) says which rank this is",
     0},
    {"comm-timeout", KEY_COMM_TIMEOUT, "S", 0,
     "End the job when a process lets the others wait for S seconds (default 300; 0: never)", 0},

    {0, 0, 0, 0, "Run", 5},
    {"out", KEY_OUT, "DIR", 0, "Folder of the run (default: the first free runs/ARCH-NNN)", 0},
    {"resume", KEY_RESUME, "auto|FILE", 0,
     "Go on from a checkpoint; 'auto': from the newest one in --out, afresh without one", 0},
    {"expect", KEY_EXPECT, "RUN", 0,
     "Stop, with exit status 4, where losses or the final state are not, bit for bit, those of "
     "RUN, "
     "which had the same configuration and hardware",
     0},
    {"init", KEY_INIT, "FILE", 0, "Start from the weights of a safetensors file", 0},
    {"evaluate", 'e', 0, 0, "Validate the weights of --resume or --init, and end", 0},
    {"checkpoint-steps", KEY_CHECKPOINT_STEPS, "N", 0,
     "Also write a checkpoint every N steps (default: after each epoch)", 0},
    {"check-replicas", KEY_CHECK_REPLICAS, "N", 0,
     "Compare the bits of all devices' weights, momentum and summed gradients every N steps "
     "(default: before each checkpoint)",
     0},
    {"telemetry", KEY_TELEMETRY, "SECONDS", 0,
     "Time between samples of the devices' sensors; 0: none (default 1)", 0},
    {"tensorboard", KEY_TENSORBOARD, "DIR", 0,
     "Also write TensorBoard's event files, in a folder of the run's name in DIR", 0},
    {"prometheus", KEY_PROMETHEUS, "FILE", 0,
     "Also keep a textfile for Prometheus' node_exporter up to date", 0},
    {"print-freq", 'p', "N", 0, "Batches between log lines (default 10)", 0},
    {"seed", KEY_SEED, "N", 0, "Seed of weights, order and augmentation (default 0)", 0},
    {0},
};

/* What the command line says. */
struct train_command {
    struct train_config config;
    struct live_config live;
};

/* How a flag's value is read and where it goes. */
struct number {
    int key;
    const char *flag;
    bool real;
    double min, max;
    size_t offset; /* in struct train_config */
    size_t size;
};

#define INT(key, flag, min, max, member)                                                           \
    {                                                                                              \
        key, flag, false, min, max, offsetof(struct train_config, member),                         \
            sizeof(((struct train_config *)0)->member)                                             \
    }
#define REAL(key, flag, min, max, member)                                                          \
    {                                                                                              \
        key, flag, true, min, max, offsetof(struct train_config, member), sizeof(double)           \
    }

static const struct number numbers[] = {
    INT(KEY_IMAGE_SIZE, "--image-size", 1, 4096, image_size),
    INT('b', "-b", 1, 65536, batch),
    INT(KEY_VAL_BATCH, "--val-batch-size", 1, 65536, val_batch),
    INT('j', "-j", 1, 1024, workers),
    INT(KEY_BAD_IMAGES, "--max-bad-images", 0, 1e12, max_bad_images),
    INT(KEY_DUMMY_TRAIN, "--dummy-train", 1, 1e12, dummy_train),
    INT(KEY_DUMMY_VAL, "--dummy-val", 1, 1e12, dummy_val),
    INT(KEY_CLASSES, "--classes", 1, 1000000, classes),
    INT(KEY_EPOCHS, "--epochs", 1, 1000000, epochs),
    INT(KEY_START_EPOCH, "--start-epoch", 0, 1000000, start_epoch),
    INT(KEY_STEPS, "--steps", 1, 1e15, steps),
    INT(KEY_LR_STEP, "--lr-step", 1, 1000000, lr_step),
    INT(KEY_CHECKPOINT_STEPS, "--checkpoint-steps", 1, 1e12, checkpoint_steps),
    INT(KEY_CHECK_REPLICAS, "--check-replicas", 1, 1e12, check_replicas),
    INT('p', "-p", 1, 1000000000, print_freq),
    INT(KEY_SEED, "--seed", 0, 9007199254740992.0, seed),
    INT(KEY_THREADS, "--threads", 1, 1024, threads),
    INT(KEY_ACCUMULATE, "--accumulate", 1, 65536, accumulate),
    INT(KEY_SCALE_INTERVAL, "--loss-scale-interval", 1, 1e12, scaler.interval),
    INT(KEY_INJECT_OVERFLOW, "--inject-overflow", 0, 1e12, inject_overflow),
    REAL(KEY_SCALE_INIT, "--loss-scale-init", 1e-30, 1e30, scaler.init),
    REAL(KEY_SCALE_GROWTH, "--loss-scale-growth", 1, 1e6, scaler.growth),
    REAL(KEY_SCALE_BACKOFF, "--loss-scale-backoff", 1e-6, 1, scaler.backoff),
    REAL(KEY_SCALE_MAX, "--loss-scale-max", 1e-30, 1e30, scaler.max),
    REAL(KEY_SCALE_MIN, "--loss-scale-min", 0, 1e30, scaler.min),
    REAL(KEY_LR, "--lr", 0, 1e6, lr),
    REAL(KEY_LARS, "--lars", 0, 1e3, lars),
    REAL(KEY_BUCKET_MB, "--bucket-mb", 0.001, 65536, bucket_mb),
    REAL(KEY_TELEMETRY, "--telemetry", 0, 86400, telemetry),
    REAL(KEY_COMM_TIMEOUT, "--comm-timeout", 0, 1e9, comm_timeout),
    REAL(KEY_MOMENTUM, "--momentum", 0, 1, momentum),
    REAL(KEY_WEIGHT_DECAY, "--wd", 0, 1e6, weight_decay),
    REAL(KEY_LR_GAMMA, "--lr-gamma", 0, 1, lr_gamma),
    REAL(KEY_WARMUP, "--warmup-epochs", 0, 1e6, warmup_epochs),
    REAL(KEY_SMOOTHING, "--label-smoothing", 0, 1, label_smoothing),
    REAL(KEY_DESIRED_ACC, "--desired-acc", 0, 100, desired_acc),
};

/* True when `key` is a number's; *st says whether its value was good. */
static bool parse_number(int key, const char *arg, struct train_config *c, enum status *st)
{
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        const struct number *n = &numbers[i];
        char *member = (char *)c + n->offset;
        int64_t v;
        if (n->key != key)
            continue;
        if (n->real) {
            *st = cli_double(n->flag, arg, n->min, n->max, (double *)(void *)member);
            return true;
        }
        *st = cli_int(n->flag, arg, (int64_t)n->min, (int64_t)n->max, &v);
        if (*st == STATUS_OK && n->size == sizeof v)
            memcpy(member, &v, sizeof v);
        else if (*st == STATUS_OK)
            memcpy(member, &(int){(int)v}, sizeof(int));
        return true;
    }
    return false;
}

/* A flag whose value is one of a few words; the first stands for 0. */
struct choice {
    int key;
    const char *flag;
    const char *words[6];
    size_t offset; /* in struct train_config, of an enum or an int */
};

#define CHOICE(key, flag, member, ...)                                                             \
    {                                                                                              \
        key, flag, {__VA_ARGS__}, offsetof(struct train_config, member)                            \
    }

static const struct choice choices[] = {
    CHOICE(KEY_SCHEDULE, "--lr-schedule", schedule, "step", "cosine", "constant"),
    CHOICE(KEY_LR_SCALE, "--lr-scale", lr_scale, "none", "linear", "sqrt"),
    CHOICE(KEY_MODE, "--mode", mode, "auto", "nd", "dp", "ddp", "ddp2"),
    CHOICE(KEY_COMM, "--comm", comm, "auto", "nccl", "host"),
    CHOICE(KEY_DP_REDUCE, "--dp-reduce", dp_reduce, "central", "all"),
    CHOICE(KEY_FUSE, "--fuse", fuse, "auto", "none", "stats", "apply", "all"),
    /* In the order of enum dtype. */
    CHOICE(KEY_GRAD_COMPRESS, "--grad-compress", grad_compress, "none", "fp16", "bf16"),
};

/* True when `key` is a choice's; *st says whether its value was good. */
static bool parse_choice(int key, const char *arg, struct train_config *c, enum status *st)
{
    char known[64] = "";
    const struct choice *choice = choices;
    const struct choice *end = choices + sizeof choices / sizeof *choices;
    while (choice < end && choice->key != key)
        choice++;
    if (choice == end)
        return false;
    for (int i = 0; choice->words[i]; i++) {
        if (strcmp(arg, choice->words[i]) == 0) {
            memcpy((char *)c + choice->offset, &i, sizeof i);
            *st = STATUS_OK;
            return true;
        }
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", choice->words[i]);
    }
    *st = status_fail(STATUS_USAGE, "%s '%s': give one of %s", choice->flag, arg, known);
    return true;
}

_Static_assert(DTYPE_F32 == 0 && DTYPE_F16 == 1 && DTYPE_BF16 == 2, "--grad-compress");

static enum status parse_bool(const char *flag, const char *arg, int *out)
{
    bool yes = strcasecmp(arg, "true") == 0 || strcmp(arg, "1") == 0;
    if (!yes && strcasecmp(arg, "false") != 0 && strcmp(arg, "0") != 0)
        return status_fail(STATUS_USAGE, "%s '%s': give True or False", flag, arg);
    *out = yes;
    return STATUS_OK;
}

/* A number is a static scale, and so turns scaling on whatever the precision. */
static enum status parse_loss_scale(const char *arg, struct train_config *c)
{
    struct scaler_config *s = &c->scaler;
    c->scaling = 1;
    s->dynamic = strcmp(arg, "dynamic") == 0;
    if (s->dynamic)
        return STATUS_OK;
    TRY(cli_double("--loss-scale", arg, 1e-30, 1e30, &s->init));
    s->min = s->min < s->init ? s->min : s->init;
    s->max = s->max > s->init ? s->max : s->init;
    return STATUS_OK;
}

static error_t parse_word(int key, char *arg, struct train_config *c)
{
    switch (key) {
    case 'a':
        c->arch = arg;
        return 0;
    case 'e':
        c->evaluate = true;
        return 0;
    case KEY_DROP_LAST:
        c->drop_last = true;
        return 0;
    case KEY_DUMMY:
        c->dummy = true;
        return 0;
    case KEY_NO_GRAPH:
        c->no_graph = true;
        return 0;
    case KEY_DETERMINISTIC:
        c->deterministic = true;
        return 0;
    case KEY_SYNC_BN:
        c->sync_bn = true;
        return 0;
    case KEY_NESTEROV:
        c->nesterov = true;
        return 0;
    case KEY_OUT:
        c->out = arg;
        return 0;
    case KEY_RESUME:
        c->resume = arg;
        return 0;
    case KEY_EXPECT:
        c->expect = arg;
        return 0;
    case KEY_INIT:
        c->init = arg;
        return 0;
    case KEY_RENDEZVOUS:
        c->rendezvous = arg;
        return 0;
    case KEY_DEVICES:
        c->devices = arg;
        return 0;
    case KEY_PRECISION:
    case KEY_OPT_LEVEL:
        c->precision = arg;
        return 0;
    case KEY_EMULATE:
        c->emulate = true;
        return 0;
    case KEY_KEEP_BATCHNORM:
        return parse_bool("--keep-batchnorm-fp32", arg, &c->keep_batchnorm) == STATUS_OK ? 0
                                                                                         : EINVAL;
    case KEY_LOSS_SCALE:
        return parse_loss_scale(arg, c) == STATUS_OK ? 0 : EINVAL;
    case ARGP_KEY_ARG:
        if (c->data)
            return ARGP_ERR_UNKNOWN;
        c->data = arg;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct train_command *t = state->input;
    enum status st;
    if (key == KEY_FUSE)
        t->config.fuse_named = true;
    if (parse_number(key, arg, &t->config, &st) || parse_choice(key, arg, &t->config, &st))
        return st == STATUS_OK ? 0 : EINVAL;
    if (key == KEY_TENSORBOARD)
        t->live.tensorboard = arg;
    else if (key == KEY_PROMETHEUS)
        t->live.prometheus = arg;
    else if (key == KEY_INJECT)
        return inject_parse(arg, &t->config.inject) == STATUS_OK ? 0 : EINVAL;
    else
        return parse_word(key, arg, &t->config);
    return 0;
}

static enum status train(struct train_command *t, int argc, char **argv)
{
    struct live *live;
    TRY(live_create(&t->live, &live));
    t->config.observer = live_observer(live);
    enum status st = trainer_run(&t->config, argc, argv, stdout);
    live_free(live);
    return st;
}

int cmd_train(int argc, char **argv)
{
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .args_doc = "[DATA]",
        .doc = "Trains a network on DATA, a folder with train/CLASS/*.JPEG and val/CLASS/*.JPEG.\v"
               "Exit status: 0 done, 1 failed, diverged or stopped by a signal, 2 wrong usage, 4 "
               "wrong "
               "numbers, 5 data missing or damaged."};
    struct train_command t = {.config = train_config_default(), .live = {.warnings = stderr}};
    struct ladder ladder;
    int exit_code;
    if (!cli_parse(&argp, argc, argv, &t, &exit_code))
        return exit_code;
    restart_load(&ladder);
    t.config.ladder = &ladder;
    if (t.config.desired_acc > 0 && t.config.desired_acc <= 1)
        t.config.desired_acc *= 100;
    enum status st = train(&t, argc, argv);
    if (st != STATUS_OK && ladder.restart) {
        ladder_warn(&ladder);
        restart_process(&ladder);
    }
    return st == STATUS_OK ? 0 : cli_fail(st);
}
