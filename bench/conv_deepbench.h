/* DeepBench's training convolutions, in its columns: forward, the gradient of the inputs and that
 * of the parameters, each timed by itself in the layouts that the library likes best.
 *
 * Elements of each result are computed again and compared (conv_pass.h). A convolution that does
 * not fit into the memory is left out, and so is a pass that the device does not have; the report
 * says which, and why. Rates count two operations for each product, padding included. */
#ifndef BENCH_CONV_DEEPBENCH_H
#define BENCH_CONV_DEEPBENCH_H

#include "bench/conv_pass.h"
#include "bench/deepbench.h"
#include "bench/harness.h"
#include "bench/roofline.h"

#include <stdio.h>

enum { CONV_DEEPBENCH_SCHEMA = 1, CONV_DEEPBENCH_WHY_MAX = 256 };

struct conv_deepbench_config {
    const char *devices;
    int threads;
    enum dtype type; /* of operands and results, F32, TF32, F16 or BF16; the parameters' gradient is
                      * fp32 */
    int max_mib;     /* that a convolution may need; 0: what the host has free, or all of a GPU's */
    const char *peak; /* file of peaks (roofline.h); NULL: no shares */
    struct harness_config timing;
    bool json, csv;
    FILE *out;
};

struct conv_deepbench_pass {
    bool measured;
    struct harness_result time;
    double flops;
    int64_t wrong;                    /* of the elements that were computed again */
    char why[CONV_DEEPBENCH_WHY_MAX]; /* not measured for a reason of its own: one line */
};

struct conv_deepbench_row {
    const struct deepbench_conv *conv;
    double mib;                       /* that it needs at least, with what the check needs */
    char why[CONV_DEEPBENCH_WHY_MAX]; /* no pass was measured: one line; else "" */
    struct conv_deepbench_pass pass[CONV_PASSES];
};

struct harness_config conv_deepbench_timing_default(void);

/* One pass of a convolution, with tensors of the type. */
struct op_desc conv_deepbench_desc(const struct deepbench_conv *c, enum dtype type, int pass);

/* Measures and checks one convolution; `limit_mib` as max_mib, 0: none. */
MUST_CHECK enum status conv_deepbench_measure(const struct conv_deepbench_config *c,
                                              struct stream *s, double limit_mib,
                                              const struct deepbench_conv *conv,
                                              struct conv_deepbench_row *row);

/* --- what is printed (conv_deepbench_report.c) --- */

struct conv_deepbench_report {
    const struct conv_deepbench_config *config;
    char device[256];
    struct peaks peaks; /* none: all zero */
    int rows, left_out; /* passes */
    int64_t wrong;
    json_t *json; /* the rows; with config->json */
};

/* In this order. Table and CSV are printed row by row, JSON at the end. */
MUST_CHECK enum status conv_deepbench_begin(struct conv_deepbench_report *r);
MUST_CHECK enum status conv_deepbench_row(struct conv_deepbench_report *r,
                                          const struct conv_deepbench_row *row);
MUST_CHECK enum status conv_deepbench_end(struct conv_deepbench_report *r);
void conv_deepbench_close(struct conv_deepbench_report *r);

/* Measures `n` convolutions and prints. STATUS_MISMATCH where a result was wrong, when all is
 * printed. */
MUST_CHECK enum status bench_conv_deepbench(const struct conv_deepbench_config *c, int n,
                                            const struct deepbench_conv *conv);
#endif
