/* ampscale bench gemm: matrix products of given sizes. */
#include "bench/gemm.h"

#include "cli/bench_commands.h"
#include "cli/cli.h"

#include <errno.h>
#include <string.h>

enum {
    KEY_NET = 256,
    KEY_IMAGE_SIZE,
    KEY_DEEPBENCH,
    KEY_A_T,
    KEY_B_T,
    KEY_PRECISION,
    KEY_MAX_GFLOP,
    KEY_PEAK,
    KEY_ITERS,
    KEY_WARMUP,
    KEY_CSV,
};

struct gemm_args {
    struct bench_common common;
    struct bench_timing timing; /* without -n and -w: n is a size here */
    struct gemm_config config;
};

static const struct argp_option options[] = {
    {"net", KEY_NET, "ARCH", 0,
     "The products of a network's training step: its linear layers, and its convolutions as "
     "products (default resnet50)",
     0},
    {"batch-size", 'b', "N", 0, "Images of the step (default 16)", 0},
    {"image-size", KEY_IMAGE_SIZE, "PX", 0, "Side of its images (default 224)", 0},
    {"deepbench", KEY_DEEPBENCH, 0, 0, "DeepBench's sizes of products in training", 0},
    {"m", 'm', "N", 0, "One size, with -n and -k: rows of C and of op(A)", 0},
    {"n", 'n', "N", 0, "Columns of C and of op(B)", 0},
    {"k", 'k', "N", 0, "Columns of op(A), rows of op(B)", 0},
    {"a-t", KEY_A_T, 0, 0, "A lies transposed", 0},
    {"b-t", KEY_B_T, 0, 0, "B lies transposed", 0},
    {"precision", KEY_PRECISION, "fp32|tf32|fp16|bf16|all", 0,
     "Type of the matrices (default fp32); what the device lacks is emulated in fp32", 0},
    {"max-gflop", KEY_MAX_GFLOP, "X", 0, "Leave larger products out", 0},
    {"peak", KEY_PEAK, "FILE", 0,
     "The device's peaks, as 'bench peak --json' printed them (default: measure them first)", 0},
    {"iters", KEY_ITERS, "N", 0, "Measurements of a row, at most (default 50)", 0},
    {"warmup", KEY_WARMUP, "N", 0, "Warm-up runs, which do not count (default 2)", 0},
    {"csv", KEY_CSV, 0, 0, "Print CSV", 0},
    {0},
};

static enum status parse_precision(const char *word, bool types[DTYPE_COUNT])
{
    static const enum dtype all[] = {DTYPE_F32, DTYPE_TF32, DTYPE_F16, DTYPE_BF16};
    bool found = false;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        types[all[i]] = strcmp(word, "all") == 0 || strcmp(word, dtype_str(all[i])) == 0;
        found |= types[all[i]];
    }
    return found ? STATUS_OK
                 : status_fail(STATUS_USAGE, "--precision '%s': give fp32, tf32, fp16, bf16 or all",
                               word);
}

static enum status parse_value(int key, const char *arg, struct gemm_args *a)
{
    struct gemm_config *c = &a->config;
    switch (key) {
    case 'b':
        return bench_int("-b", arg, 1, 65536, &c->batch);
    case KEY_IMAGE_SIZE:
        return bench_int("--image-size", arg, 1, 4096, &c->image_size);
    case 'm':
        return bench_int("-m", arg, 1, GEMM_SIZE_MAX, &c->size.m);
    case 'n':
        return bench_int("-n", arg, 1, GEMM_SIZE_MAX, &c->size.n);
    case 'k':
        return bench_int("-k", arg, 1, GEMM_SIZE_MAX, &c->size.k);
    case KEY_PRECISION:
        return parse_precision(arg, c->types);
    case KEY_MAX_GFLOP:
        return cli_double("--max-gflop", arg, 1e-6, 1e9, &c->max_gflop);
    case KEY_ITERS:
        return bench_int("--iters", arg, 1, BENCH_ITERS_MAX, &a->timing.iters);
    default:
        return bench_int("--warmup", arg, 0, BENCH_ITERS_MAX, &a->timing.warmup);
    }
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct gemm_args *a = state->input;
    struct gemm_config *c = &a->config;
    enum status st = STATUS_OK;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->common;
        break;
    case KEY_NET:
        c->net = arg;
        break;
    case KEY_DEEPBENCH:
        c->deepbench = true;
        break;
    case KEY_A_T:
        c->size.a_t = true;
        break;
    case KEY_B_T:
        c->size.b_t = true;
        break;
    case KEY_PEAK:
        c->peak = arg;
        break;
    case KEY_CSV:
        a->timing.csv = true;
        break;
    case ARGP_KEY_ARG:
        return ARGP_ERR_UNKNOWN;
    default:
        if (!arg)
            return ARGP_ERR_UNKNOWN;
        st = parse_value(key, arg, a);
    }
    return st == STATUS_OK ? 0 : EINVAL;
}

/* Sizes are a network's unless something else is said. */
static enum status choose_sizes(struct gemm_config *c)
{
    const struct gemm_size *s = &c->size;
    bool given = s->m || s->n || s->k || s->a_t || s->b_t;
    if ((c->net != NULL) + c->deepbench + given > 1)
        return status_fail(STATUS_USAGE, "--net, --deepbench and -m -n -k: give one of them");
    if (given && !(s->m && s->n && s->k))
        return status_fail(STATUS_USAGE, "a size is incomplete: give -m, -n and -k");
    if (!given && !c->deepbench && !c->net)
        c->net = "resnet50";
    return STATUS_OK;
}

static enum status run_gemm(struct gemm_args *a)
{
    struct gemm_config *c = &a->config;
    TRY(choose_sizes(c));
    TRY(bench_timing_take(&a->timing, a->common.json, &c->timing));
    c->devices = a->common.devices;
    c->threads = a->common.threads;
    c->format = a->common.json ? BENCH_JSON : a->timing.csv ? BENCH_CSV : BENCH_TABLE;
    return bench_gemm(c);
}

int cmd_bench_gemm(int argc, char **argv)
{
    static const struct argp_child children[] = {{&bench_common_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .children = children,
        .doc = "Times matrix products C = op(A) op(B), against the device's measured rate, and "
               "checks each against the reference. C has m rows and n columns, k are summed; "
               "matrices are column-major, as DeepBench has them."};
    struct gemm_args a = {.common = bench_common_default(),
                          .timing = bench_timing_default(),
                          .config = {.batch = 16,
                                     .image_size = 224,
                                     .types = {[DTYPE_F32] = true},
                                     .timing = gemm_timing_default(),
                                     .out = stdout}};
    int exit_code;
    if (!cli_parse(&argp, argc, argv, &a, &exit_code))
        return exit_code;
    enum status st = run_gemm(&a);
    return st == STATUS_OK ? 0 : cli_fail(st);
}
