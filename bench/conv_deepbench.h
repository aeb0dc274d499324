/* Times DeepBench's training convolutions. As in DeepBench, a convolution has three passes:
 * forward, input gradient, parameter gradient. Each pass is timed by itself, in the layouts that
 * the library prefers.
 *
 * Some elements of each result are recomputed and compared (conv_pass.h). Convolutions that do not
 * fit into memory are skipped. Passes that the device does not support are skipped too. The report
 * names them and the reason. A rate counts two operations for each product, including products with
 * padding. */
#pragma once

#include "bench/conv_pass.h"
#include "bench/deepbench.h"
#include "bench/options.h"
#include "bench/roofline.h"

enum { CONV_DEEPBENCH_SCHEMA = 1, CONV_DEEPBENCH_WHY_MAX = 256 };

struct conv_deepbench_config {
    struct bench_options options; /* .max_mib: memory that a convolution may need; 0: 3/4 of the
                                   * available memory on the host, no limit on a GPU. .peak: if
                                   * NULL, no percentages of the peak are printed */
    enum dtype type; /* type of operands and results, F32, TF32, F16 or BF16; the parameters'
                      * gradient is fp32 */
};

struct conv_deepbench_pass {
    bool measured;
    struct harness_result time;
    double flops;
    int64_t wrong;                    /* number of recomputed elements that are wrong */
    char why[CONV_DEEPBENCH_WHY_MAX]; /* the reason why this pass was not measured, in one line; ""
                                       * if it was measured or the whole convolution was skipped */
};

struct conv_deepbench_row {
    const struct deepbench_conv *conv;
    double mib;                       /* memory that the largest pass and its check need */
    char why[CONV_DEEPBENCH_WHY_MAX]; /* the reason why no pass was measured, in one line; else
                                       * "" */
    struct conv_deepbench_pass pass[CONV_PASSES];
};

/* Describes one pass of a convolution whose tensors have the type `type`. */
struct op_desc conv_deepbench_desc(const struct deepbench_conv *c, enum dtype type, int pass);

/* Measures and checks one convolution. Skips it if it needs more than `limit_mib` of memory; 0: no
 * limit. */
MUST_CHECK enum status conv_deepbench_measure(const struct conv_deepbench_config *c,
                                              struct stream *s, double limit_mib,
                                              const struct deepbench_conv *conv,
                                              struct conv_deepbench_row *row);

/* --- printing (conv_deepbench_report.c) --- */

struct conv_deepbench_report {
    const struct conv_deepbench_config *config;
    const char *device;
    struct peaks peaks; /* all zero: unknown */
    int rows, left_out; /* left_out: number of passes that were not measured */
    int64_t wrong;
    struct bench_table table;
};

/* The caller calls these functions in this order. */
void conv_deepbench_begin(struct conv_deepbench_report *r);
void conv_deepbench_row(struct conv_deepbench_report *r, const struct conv_deepbench_row *row);
MUST_CHECK enum status conv_deepbench_end(struct conv_deepbench_report *r);

/* Measures `n` convolutions and prints them. Afterwards returns STATUS_MISMATCH if a result was
 * wrong. */
MUST_CHECK enum status bench_conv_deepbench(const struct conv_deepbench_config *c, int n,
                                            const struct deepbench_conv *conv);
