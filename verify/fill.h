/* Random operands that are suitable for an operation. */
#pragma once

#include "verify/rig.h"

#include "base/rng.h"

enum fill {
    FILL_RANDOM,
    FILL_LARGE_MEAN, /* batch norm's X: 1000 +- 0.1, and RMEAN about 1000 */
    FILL_CONSTANT,   /* batch norm's X: one value per channel */
    FILL_NAN,        /* one NaN in X, and in DW */
    FILL_FOUND_INF,  /* STATE has found_inf: the step is skipped */
    FILL_HUGE,       /* results just below and above the largest fp16 value */
    FILL_TINY,       /* results that are a few times the smallest fp16 value */
    FILL_TIES,       /* operands that often lie half-way between two values of a 16-bit type */
};

/* Fills the inputs of `d`, whose layouts are plain, with values that another operation could have
 * written: values rounded to the tensor's type `rounds`, or any fp32 values if it is unrounded.
 * Equal values are frequent in the input of a maximum, and exact zeros are frequent in the output
 * of a ReLU. For a backward pass, `ref` computes the inputs from the forward pass (MEAN, INVSTD, Y,
 * INDEX). */
MUST_CHECK enum status fill_operands(struct device *ref, const struct op_desc *d, enum fill fill,
                                     uint64_t seed, struct operands *o);

void fill_uniform(struct rng *r, float *out, int64_t n, double low, double high);

/* Fills with multiples of `step` between -bound and bound. */
void fill_grid(struct rng *r, float *out, int64_t n, double step, double bound);
