/* Describes the three passes of a convolution, and checks their results. */
#pragma once

#include "bench/timed_op.h"

enum { CONV_PASSES = 3 }; /* forward, data gradient, weight gradient */

/* Describes pass number `pass` of the convolution whose forward pass is `fwd`. */
struct op_desc conv_pass(const struct op_desc *fwd, int pass);

/* Recomputes some elements, spread over the result, in double precision from the same operands.
 * Counts the elements whose error is larger than rounding can explain. Three roundings are
 * expected: of the operands to the type in which the processor multiplies, of partial sums to fp32,
 * and of the result to its type. The operation must have been described by conv_pass, must have no
 * ReLU, and must have run after its tensors were filled. */
MUST_CHECK enum status conv_pass_check(struct timed_op *t, int64_t *wrong);
