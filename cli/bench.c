/* ampscale bench: micro-benchmarks, one word each. */
#include "bench/conv.h"
#include "bench/memory.h"
#include "bench/overlap.h"
#include "bench/peak.h"
#include "bench/step.h"
#include "cli/bench_micro.h"
#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
    KEY_NET = 256,
    KEY_IMAGE_SIZE,
    KEY_ROUNDS,
    KEY_NO_STEP,
    KEY_PRECISION,
    KEY_EMULATE,
    KEY_PEAK,
    KEY_MAX_MIB,
    KEY_BUCKET_MB,
    KEY_GRAD_COMPRESS,
    KEY_DEVICES,
    KEY_THREADS,
    KEY_JSON,
};

enum { ROUNDS_MAX = 64 };

struct bench_args {
    const char *what;
    const char *b;                 /* the value of -b; NULL: not given */
    int64_t max_mib;               /* memory, peak */
    struct bench_micro micro;      /* collective, memory */
    struct overlap_config overlap; /* with what all need, in `net` */
};

static const struct argp_option options[] = {
    {"net", KEY_NET, "ARCH", 0, "Network to time (default resnet50)", 0},
    {"batch-size", 'b', "N", 0,
     "Images per step (default 16); collective: -b is the smallest size, as --minbytes", 0},
    {"image-size", KEY_IMAGE_SIZE, "PX", 0, "Side of the input images (default 224)", 0},
    {"rounds", KEY_ROUNDS, "N", 0, "Timed rounds (default 5, at most 64)", 0},
    {"no-step", KEY_NO_STEP, 0, 0, "conv: leave the training step out", 0},
    {"precision", KEY_PRECISION, "fp32|tf32|amp|bf16", 0,
     "Types of the training step (default fp32), as train has them", 0},
    {"emulate", KEY_EMULATE, 0, 0, "Round in fp32 although the processor has the type", 0},
    {"peak", KEY_PEAK, "FILE", 0,
     "step: the device's peaks, as 'bench peak --json' printed them (default: measure them first)",
     0},
    {"max-mib", KEY_MAX_MIB, "N", 0,
     "peak: the largest set of bytes to move, in MiB; memory: an array (default: one that no cache "
     "holds)",
     0},
    {"bucket-mb", KEY_BUCKET_MB, "MIB,...", 0,
     "overlap: bucket sizes; 0 is one bucket of everything (default 0.25,1,4,25,100,0)", 0},
    {"grad-compress", KEY_GRAD_COMPRESS, "none|fp16|bf16", 0,
     "overlap: type in which gradients are sent (default none)", 0},
    {"devices", KEY_DEVICES, "cpu|ref|cuda:N", 0, "Device that computes (default: cpu)", 0},
    {"threads", KEY_THREADS, "N", 0, "Host threads that compute (default: all cores)", 0},
    {"json", KEY_JSON, 0, 0, "Print one JSON object", 0},
    {0},
};

static enum status parse_int(const char *flag, const char *arg, int max, int *out)
{
    int64_t v;
    TRY(cli_int(flag, arg, 1, max, &v));
    *out = (int)v;
    return STATUS_OK;
}

/* Numbers with commas between them. */
static enum status parse_sizes(const char *list, struct overlap_config *c)
{
    c->n_sizes = 0;
    for (const char *word = list;; word++) {
        char number[32];
        size_t len = strcspn(word, ",");
        if (c->n_sizes == OVERLAP_SIZES_MAX)
            return status_fail(STATUS_USAGE, "--bucket-mb has more than %d sizes",
                               OVERLAP_SIZES_MAX);
        if (len >= sizeof number)
            return status_fail(STATUS_USAGE, "--bucket-mb '%s': a number is too long", list);
        snprintf(number, sizeof number, "%.*s", (int)len, word);
        double *size = &c->bucket_mb[c->n_sizes++];
        TRY(cli_double("--bucket-mb", number, 0, 65536, size));
        if (*size > 0 && *size < 0.001)
            return status_fail(STATUS_USAGE, "--bucket-mb '%s': give 0, or 0.001 and more", number);
        word += len;
        if (*word == '\0')
            return STATUS_OK;
    }
}

static enum status parse_compress(const char *word, enum dtype *out)
{
    static const char *const words[] = {"none", "fp16", "bf16"};
    static const enum dtype types[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(word, words[i]) == 0) {
            *out = types[i];
            return STATUS_OK;
        }
    }
    return status_fail(STATUS_USAGE, "--grad-compress '%s': give none, fp16 or bf16", word);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct bench_args *a = state->input;
    struct bench_net_config *c = &a->overlap.net;
    enum status st = STATUS_OK;
    switch (key) {
    case KEY_NET:
        c->net = arg;
        break;
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->micro;
        break;
    case 'b':
        a->b = arg;
        break;
    case KEY_IMAGE_SIZE:
        st = parse_int("--image-size", arg, 4096, &c->image_size);
        break;
    case KEY_ROUNDS:
        st = parse_int("--rounds", arg, ROUNDS_MAX, &c->rounds);
        break;
    case KEY_NO_STEP:
        c->no_step = true;
        break;
    case KEY_PRECISION:
        c->precision = arg;
        break;
    case KEY_EMULATE:
        c->emulate = true;
        break;
    case KEY_PEAK:
        c->peak = arg;
        break;
    case KEY_MAX_MIB:
        st = cli_int("--max-mib", arg, 4, 65536, &a->max_mib);
        break;
    case KEY_BUCKET_MB:
        st = parse_sizes(arg, &a->overlap);
        break;
    case KEY_GRAD_COMPRESS:
        st = parse_compress(arg, &a->overlap.compress);
        break;
    case KEY_DEVICES:
        c->devices = arg;
        break;
    case KEY_THREADS:
        st = parse_int("--threads", arg, 1024, &c->threads);
        break;
    case KEY_JSON:
        c->json = true;
        break;
    case ARGP_KEY_ARG:
        if (!a->what)
            a->what = arg;
        else if (strcmp(a->what, "collective") == 0 && !a->micro.kind)
            a->micro.kind = arg;
        else
            return ARGP_ERR_UNKNOWN;
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return st == STATUS_OK ? 0 : EINVAL;
}

static enum status run_peak(const struct bench_args *a)
{
    const struct bench_net_config *c = &a->overlap.net;
    struct peak_config p = {.devices = c->devices,
                            .threads = c->threads,
                            .rounds = c->rounds,
                            .max_mib = (int)a->max_mib,
                            .json = c->json,
                            .out = c->out};
    return bench_peak(&p);
}

static enum status run_memory(const struct bench_args *a)
{
    const struct bench_net_config *c = &a->overlap.net;
    struct memory_config m = {.devices = c->devices,
                              .threads = c->threads,
                              .max_mib = (int)a->max_mib,
                              .json = c->json,
                              .out = c->out};
    return bench_micro_memory(&a->micro, &m);
}

static enum status run_bench(struct bench_args *a)
{
    struct bench_net_config *c = &a->overlap.net;
    if (!a->what)
        return status_fail(STATUS_USAGE, "bench needs to know what to time: collective, conv, "
                                         "memory, overlap, peak or step");
    if (strcmp(a->what, "collective") == 0)
        return bench_micro_collective(&a->micro, a->b, c->json);
    if (a->b)
        TRY(parse_int("-b", a->b, 65536, &c->batch));
    if (strcmp(a->what, "conv") == 0)
        return bench_conv(c);
    if (strcmp(a->what, "memory") == 0)
        return run_memory(a);
    if (strcmp(a->what, "overlap") == 0)
        return bench_overlap(&a->overlap);
    if (strcmp(a->what, "peak") == 0)
        return run_peak(a);
    if (strcmp(a->what, "step") == 0)
        return bench_step(c);
    return status_fail(
        STATUS_USAGE,
        "there is no benchmark '%s'; use collective, conv, memory, overlap, peak or step", a->what);
}

int cmd_bench(int argc, char **argv)
{
    static const struct argp_child children[] = {{&bench_micro_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .children = children,
        .args_doc = "collective|conv|memory|overlap|peak|step",
        .doc =
            "Times the parts that training is made of.\v"
            "collective allreduce|broadcast|reduce|allgather|reduce-scatter  the bandwidth between "
            "ranks by size, in nccl-tests' table, with every element checked: of the ranks of a "
            "job, or of threads.\n"
            "conv  each convolution of a network, forward and backward, and how near a whole "
            "training step comes to their sum.\n"
            "memory  STREAM's copy, scale, add and triad in the host's memory, or copies to, from "
            "and within a device.\n"
            "overlap  how much of the communication between ranks hides behind the backward "
            "pass, bucket size by bucket size; to be run as the ranks of a job: 'ampscale "
            "launch --nproc 2 -- bench overlap'.\n"
            "peak  the device's memory bandwidth, and its rates of products in the types that it "
            "has.\n"
            "step  a training step, operation by operation, in its place, and how near each comes "
            "to the least time that the peaks allow."};
    struct bench_args a = {.micro = bench_micro_default(),
                           .overlap = {.net = {.net = "resnet50",
                                               .batch = 16,
                                               .image_size = 224,
                                               .rounds = 5,
                                               .devices = "cpu",
                                               .out = stdout},
                                       .n_sizes = 6,
                                       .bucket_mb = {0.25, 1, 4, 25, 100, 0}}};
    int exit_code;
    if (!cli_parse(&argp, argc, argv, &a, &exit_code))
        return exit_code;
    enum status st = run_bench(&a);
    return st == STATUS_OK ? 0 : cli_fail(st);
}
