/* Known values: does this installation compute what PyTorch computes?
 *
 * An oracle file lists cases (network, sizes, steps, learning rate) with the values that PyTorch
 * found: loss, logits, gradient and weight norms, batch-norm buffers. Weights, images and labels
 * are made from names (model/oracle_fill.h). A value holds when it is no further from the fp64
 * value than the larger of 1e-4 relative and three times PyTorch's own fp32 error; where a case has
 * no fp64 form, 1e-3 relative of the fp32 value. */
#ifndef RUNNERS_SELFTEST_H
#define RUNNERS_SELFTEST_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

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

#ifdef __cplusplus
}
#endif
#endif
