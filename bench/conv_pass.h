/* Describes the three passes of a convolution, and checks their results. */
#pragma once

#include "bench/timed_op.h"

enum { CONV_PASSES = 3 }; /* forward, data gradient, weight gradient */

/* Describes pass `pass` of a forward convolution. */
struct op_desc conv_pass(const struct op_desc *fwd, int pass);

/* Recomputes some elements, spread over the result, in double precision from the same operands.
 * Counts the elements whose error is larger than rounding can explain. The operands are rounded to
 * the type in which the processor multiplies, partial sums to fp32, and the result to its type. The
 * operation must have been described by conv_pass, must have no ReLU, and must have run since its
 * tensors were filled. */
MUST_CHECK enum status conv_pass_check(struct timed_op *t, int64_t *wrong);
