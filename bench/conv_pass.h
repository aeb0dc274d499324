/* Describes the three passes of a convolution, and checks their results. */
#pragma once

#include "bench/timed_op.h"

enum { CONV_PASSES = 3 }; /* forward, data gradient, weight gradient */

/* Describes pass `pass` of a forward convolution. */
struct op_desc conv_pass(const struct op_desc *fwd, int pass);

/* Compares some elements, spread over each result, with sums of the same operands in double. Counts
 * the elements that differ by more than three roundings explain: that of operands to the type in
 * which the processor multiplies, that of partial sums to fp32, and that of the result to its type.
 * The operation was described by conv_pass, has no ReLU, and has run since its tensors were
 * filled. */
MUST_CHECK enum status conv_pass_check(struct timed_op *t, int64_t *wrong);
