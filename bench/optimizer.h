/* Times the optimizer's update of a network's parameters: momentum SGD on a flat buffer (OP_SGD).
 *
 * The operation is planned as in training, with the same segments and precisions. Its speed is
 * limited by memory: in fp32 the update reads weight, gradient and momentum and writes weight and
 * momentum, 20 bytes per parameter. If the device uses a half-precision copy of the weights, the
 * update writes 2 more bytes (4 if emulated). Each row of the table is for one precision, a value
 * of the --precision flag of `ampscale train`.
 *
 * The update is timed on noise. Then the same plan runs one step on values whose results are all
 * exact in fp32 (momentum 1/2, weight decay 1/1024, learning rate 1/2). Every element that this
 * step writes is compared with the result of the reference backend. */
#pragma once

#include "bench/micro.h"
#include "model/graph.h"

struct optimizer_row {
    const char *precision;
    bool emulated;      /* fp16 and bf16 are emulated by rounding in fp32 */
    int64_t parameters; /* elements of the flat buffer, padding included */
    int segments;
    double bytes; /* least memory traffic of one step */
    struct harness_result time;
    int64_t wrong; /* number of wrong elements of weights, momentum and half-precision copy */
    char impl[64];
};

/* Times and checks the update of a network under one precision. Wrong results are not a failure
 * here: the row counts them. */
MUST_CHECK enum status optimizer_measure(const struct bench_options *o, const struct micro *m,
                                         const struct graph *g, const char *precision,
                                         struct optimizer_row *row);

/* Measures the update at o->precision, or at fp32, amp and O2 if o->precision is NULL, and prints
 * the results. Then returns STATUS_MISMATCH if a result was wrong. */
MUST_CHECK enum status bench_optimizer(const struct bench_options *o);
