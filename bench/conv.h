/* Times a network's convolutions one by one: a lower bound of the time of its training step.
 *
 * Each distinct convolution is timed forward, backward-data and backward-weights in the layouts
 * that the library prefers. The sum of these times over the network is the least time of a training
 * step with this library and these threads. Each round also times the step itself, so that both are
 * measured in the same state of the machine. Afterwards some elements of each result are recomputed
 * and compared. */
#pragma once

#include "bench/noise_step.h"
#include "bench/timed_op.h"

/* Measures, checks and prints. If `step`, times the training step too. Afterwards returns
 * STATUS_MISMATCH if a result was wrong. */
MUST_CHECK enum status bench_conv(const struct bench_options *o, bool step);

/* --- the passes of a convolution (conv_pass.c) --- */

enum { CONV_PASSES = 3 }; /* forward, data gradient, weight gradient */

/* Describes pass number `pass` of the convolution whose forward pass is `fwd`. */
struct op_desc conv_pass(const struct op_desc *fwd, int pass);

/* Recomputes some elements, spread over the result, in double precision from the same operands.
 * Counts the elements whose error is larger than rounding can explain. Three roundings are
 * expected: of the operands to the type in which the processor multiplies, of partial sums to fp32,
 * and of the result to its type. The operation must have been described by conv_pass, must have no
 * ReLU, and must have run after its tensors were filled. */
MUST_CHECK enum status conv_pass_check(struct timed_op *t, int64_t *wrong);
