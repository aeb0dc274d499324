/* Checks that this installation computes the values that PyTorch computes.
 *
 * An oracle file lists cases (network, sizes, steps, learning rate) with the values that PyTorch
 * computed: loss, logits, gradient and weight norms, batch-norm buffers. Weights, images and labels
 * are generated from names (model/oracle_fill.h).
 *
 * Values are judged in families, each a vector: the logits of a row, the gradient norms of all
 * parameters, the losses of all steps ... A family passes when
 *     |got - want| <= max(1e-4 |want|, 3 |fp32 - want|)      (Euclidean norms)
 * where `want` are PyTorch's fp64 values and `fp32` the values of its fp32 run. If a case has no
 * fp64 form, a family passes when |got - want| <= 1e-3 |want|. Single members of a family may
 * differ by more. They do so in PyTorch's fp32 run, too: if rounding changes the sign of a ReLU's
 * input, some gradients change a lot and others do not change.
 *
 * Training amplifies rounding from step to step. The drift of PyTorch's fp32 run from its fp64 run
 * is visible in the gradient norm before it is visible in the loss. The gradient norm and the loss
 * each have a drift. Therefore the relative error of a case's losses may be three times the larger
 * of these two drifts. The relative error of the gradient norms of a case's steps may be ten times
 * the drift of the gradient norm: PyTorch's fp32 runs of one case differ by that much between
 * processors with different instruction sets. With mixup, that drift is 1.3e-7 with AVX-512 and
 * 4.0e-4 with AVX2; the oracle file has the run with AVX2. Parameter count and the first step's
 * top-1 and top-5 must be equal. */
#pragma once

#include "verify/suite.h"

/* Runs the cases of the oracle file. STATUS_MISMATCH if a family fails; STATUS_DATA if the file is
 * not an oracle, if it has no case to run, or if cases were left out. If a case ends with an error,
 * the others still run, unless the device does not work any more. All results are printed, and the
 * first error is returned. */
MUST_CHECK enum status selftest_run(const struct selftest_config *c);
