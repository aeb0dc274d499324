/* A suite of cases on one device: runs them within a time limit, continues after a case that ends
 * with an error, and prints the results. Used for oracles and by determinism.h. */
#pragma once

#include "base/bar.h"
#include "base/status.h"
#include "kernels/backend.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Settings of the suite of oracles and of determinism.h. */
struct selftest_config {
    const char *oracle;  /* file; NULL: the built-in one */
    const char *devices; /* one: "cpu", "cuda:1" ... */
    int threads;         /* of the host; 0: all cores */
    int repeats;         /* executions of each step, for determinism.h */
    int64_t limit_s;     /* seconds for all cases together; 0: unlimited. A case is left out if less
                          * than the time of the slowest case so far is left */
    bool quick;   /* skip cases larger than 64 pixels; in determinism.h, run only the smallest
                   * network */
    bool json;    /* print one JSON object instead of lines */
    bool verbose; /* after the summary, print all cases and values, not only the failures */
    enum conv_algorithm conv_algorithm;
    FILE *out;
    struct bar *bar; /* shows how many cases have been run; NULL: none */
};

/* A running suite. */
struct suite {
    const struct selftest_config *config;
    struct device *dev;
    json_t *report; /* the cases, if JSON is printed */
    FILE *lines;    /* text of the cases, printed after the summary */
    int ran, failed;
    int left_out; /* cases that were not run, because of the limit or of a broken device */
    struct first_failure error;
    bool broken;                           /* the device does not work after an error */
    uint64_t due_ns, begun_ns, slowest_ns; /* end of the limit (0: none), begin of the case, and
                                            * duration of the slowest case */
};

/* Whether the next case can run now. If not, counts it as left out. */
bool suite_begin_case(struct suite *s);

/* Counts a case. `st` is STATUS_OK, STATUS_MISMATCH if it failed, or an error with its message. */
void suite_end_case(struct suite *s, enum status st);

/* A function that runs, counts and reports all cases of a suite. It fails only if no case can run.
 */
typedef enum status suite_cases(struct suite *s, void *context);

/* Opens the device, calls `run`, and prints how many cases passed. Then prints the failures or, if
 * verbose, all cases. `verdict` is the verb of the first line, such as "hold". Fails with the first
 * error of a case, or with STATUS_MISMATCH if a case failed, or with STATUS_DATA if one was left
 * out. */
MUST_CHECK enum status suite_run(const struct selftest_config *config, suite_cases *run,
                                 void *context, const char *verdict);

/* --- the oracles --- */

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
 * top-1 and top-5 must be equal.
 *
 * Runs the cases of the oracle file. STATUS_MISMATCH if a family fails; STATUS_DATA if the file is
 * not an oracle, if it has no case to run, or if cases were left out. If a case ends with an error,
 * the others still run, unless the device does not work any more. All results are printed, and the
 * first error is returned. */
MUST_CHECK enum status selftest_run(const struct selftest_config *c);
