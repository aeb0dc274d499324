/* The three passes of a convolution, and a check of what each comes to. */
#ifndef BENCH_CONV_PASS_H
#define BENCH_CONV_PASS_H

#include "bench/timed_op.h"

enum { CONV_PASSES = 3 }; /* forward, data gradient, gradient of the weights */

/* A forward convolution, seen from one of its passes. */
struct op_desc conv_pass(const struct op_desc *fwd, int pass);

/* Counts which of a few elements of each result, spread over it, differ from sums of doubles over
 * the same operands by more than rounding explains: of operands to what the processor multiplies,
 * of partial sums to fp32, and of the result to its type. For operations that conv_pass made and
 * that have been executed since they were filled; without ReLU. */
MUST_CHECK enum status conv_pass_check(struct timed_op *t, int64_t *wrong);
#endif
