/* ampscale bench gemm: matrix products of given sizes. */
#include "bench/gemm.h"

#include "cli/bench_options.h"

#include <string.h>

static enum status take_types(const struct setting *s, const char *word, void *config)
{
    static const enum dtype all[] = {DTYPE_F32, DTYPE_TF32, DTYPE_F16, DTYPE_BF16};
    bool *types = ((struct gemm_config *)config)->types, found = false;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        types[all[i]] = strcmp(word, "all") == 0 || strcmp(word, dtype_str(all[i])) == 0;
        found |= types[all[i]];
    }
    return found ? STATUS_OK
                 : status_fail(STATUS_USAGE, "--%s '%s': give fp32, tf32, fp16, bf16 or all",
                               s->flag, word);
}

#define SETTINGS_OF struct gemm_config
static const struct setting gemm_settings[] = {
    {"net", 0, "ARCH", NULL,
     "Matrix products of a network's training step: linear layers, and convolutions as products "
     "(default resnet50)",
     AS_TEXT(options.net)},
    {"batch-size", 'b', "N", "16", "Images per step",
     AS_INTEGER(options.batch, 1, BENCH_BATCH_MAX)},
    {"image-size", 0, "PX", "224", "Side of the images in pixels",
     AS_INTEGER(options.image_size, 1, BENCH_IMAGE_SIZE_MAX)},
    {"m", 'm', "N", NULL, "One size, with -n and -k: rows of C and op(A)",
     AS_INTEGER(size.m, 1, GEMM_SIZE_MAX)},
    {"n", 'n', "N", NULL, "Columns of C and op(B)", AS_INTEGER(size.n, 1, GEMM_SIZE_MAX)},
    {"k", 'k', "N", NULL, "Columns of op(A), rows of op(B)", AS_INTEGER(size.k, 1, GEMM_SIZE_MAX)},
    {"a-t", 0, NULL, NULL, "Store A transposed", AS_SWITCH(size.a_t)},
    {"b-t", 0, NULL, NULL, "Store B transposed", AS_SWITCH(size.b_t)},
    {"precision", 0, "fp32|tf32|fp16|bf16|all", "fp32",
     "Type of the matrices; a type that the device lacks is emulated in fp32",
     TAKEN_BY(take_types)},
    {"max-gflop", 0, "X", NULL, "Skip products of more than X GFLOP",
     AS_REAL(max_gflop, 1e-6, 1e9)},
    {"iters", 0, "N", "50", "Largest number of timed calls per row",
     AS_INTEGER(options.timing.most, 1, BENCH_ITERS_MAX)},
    {"warmup", 0, "N", "2", "Warm-up calls, which are not timed",
     AS_INTEGER(options.timing.warmup, 0, BENCH_ITERS_MAX)},
    BENCH_CSV_ROW,
    {"markdown", 0, NULL, NULL, "Print a table in Markdown", TAKEN_BY(bench_take_format)},
    {0},
};

/* Runs the benchmark. If no sizes are given, it runs those of a network. */
static enum status run_gemm(void *config)
{
    struct gemm_config *c = config;
    const struct gemm_size *s = &c->size;
    bool given = s->m || s->n || s->k || s->a_t || s->b_t;
    if (c->options.net && given)
        return status_fail(STATUS_USAGE, "--net and -m -n -k exclude each other: give one of them");
    if (given && !(s->m && s->n && s->k))
        return status_fail(STATUS_USAGE, "a size is incomplete: give -m, -n and -k");
    if (!given && !c->options.net)
        c->options.net = "resnet50";
    return bench_gemm(c);
}

const struct cli_command cmd_bench_gemm = {
    .name = "gemm",
    .summary = "matrix products of a network, or of one size",
    .doc = "Times matrix products C = op(A) op(B) relative to the device's measured peak, and "
           "checks each against the reference. C has m rows and n columns; k is the summed "
           "dimension. Matrices are column-major.\vExit status: 0 if every element is right, 1 on "
           "an error, 2 on wrong usage, 4 if an element is wrong.",
    .example = {{"One product in every type",
                 "ampscale bench gemm -m 512 -n 512 -k 512 --precision all"},
                {"The products of a training step of ResNet-18",
                 "ampscale bench gemm --net resnet18 -b 8 --image-size 64"},
                {"As CSV, with peaks that 'bench peak --json -o peak.json' has measured",
                 "ampscale bench gemm --net resnet18 -b 8 --image-size 64 --peak peak.json --csv"}},
    .part = {{bench_device_settings}, {bench_peak_settings}, {gemm_settings}},
    .prints = true,
    .config = &(struct gemm_config){.options.timing = {.within = 0.01, .seconds = 2}},
    .work = run_gemm};
