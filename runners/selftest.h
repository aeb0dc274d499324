/* Known values: does this installation compute what PyTorch computes?
 *
 * An oracle file lists cases (network, sizes, steps, learning rate) with the values that PyTorch
 * found: loss, logits, gradient and weight norms, batch-norm buffers. Weights, images and labels
 * are made from names (model/oracle_fill.h).
 *
 * Values are judged in families, each a vector: the logits of a row, the gradient norms of all
 * parameters, the losses of all steps ... A family holds when
 *     |got - want| <= max(1e-4 |want|, 3 |fp32 - want|)      (Euclidean norms)
 * with `want` PyTorch's fp64 values and `fp32` its own fp32 run; where a case has no fp64 form,
 * when |got - want| <= 1e-3 |want|. Single members of a family may be further off, and are in
 * PyTorch's own fp32 too: a unit whose sign rounding flips moves some gradients a lot and others
 * not at all.
 *
 * Training amplifies rounding from step to step. How far PyTorch's fp32 run has drifted from its
 * fp64 run shows in the norm of its gradient before it shows in its loss, so that the losses of a
 * case are allowed three times the larger of the two relative drifts, and the norms of the whole
 * gradient ten times theirs: PyTorch's fp32 runs of one case differ among themselves by that much
 * with the processor's instruction set alone. Parameter count and the first step's top-1 and top-5
 * must be the same. */
#ifndef RUNNERS_SELFTEST_H
#define RUNNERS_SELFTEST_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct selftest_config {
    const char *oracle;  /* file; NULL: the one that is compiled in */
    const char *devices; /* "cpu" */
    int threads;
    bool quick;   /* leave out cases of 224 pixels */
    bool json;    /* print one JSON object instead of lines */
    bool verbose; /* print every value, not only each case's worst */
    FILE *out;
};

/* STATUS_MISMATCH when a value does not hold; STATUS_DATA for a file that is no oracle, or one
 * without a case to run. */
MUST_CHECK enum status selftest_run(const struct selftest_config *c);
#endif
