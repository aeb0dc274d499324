/* Random operands that suit an operation. */
#ifndef VERIFY_FILL_H
#define VERIFY_FILL_H

#include "verify/rig.h"

#include "base/rng.h"

enum fill {
    FILL_RANDOM,
    FILL_LARGE_MEAN, /* batch norm's X: 1000 +- 0.1, and RMEAN about as large */
    FILL_CONSTANT,   /* batch norm's X: one value per channel */
    FILL_NAN,        /* a NaN among X */
    FILL_FOUND_INF,  /* a step to be left out */
    FILL_HUGE,       /* results about the largest fp16, on both sides of it */
    FILL_TINY,       /* results of some units of the smallest fp16 */
    FILL_TIES,       /* operands often half-way between two values of a narrow type */
};

/* Fills what `d` reads with what an operation that wrote it would have left: values of the narrow
 * type where a tensor rounds, any where it is raw. Equal values are frequent where a maximum is
 * taken, exact zeros where a ReLU was; `d` is plain, and of a backward pass, `ref` makes what the
 * forward pass would have left for it (MEAN, INVSTD, Y, INDEX). */
MUST_CHECK enum status fill_operands(struct device *ref, const struct op_desc *d, enum fill fill,
                                     uint64_t seed, struct operands *o);

void fill_uniform(struct rng *r, float *out, int64_t n, double low, double high);

/* Multiples of `step` between -bound and bound. */
void fill_grid(struct rng *r, float *out, int64_t n, double step, double bound);

#endif
