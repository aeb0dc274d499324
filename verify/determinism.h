/* Checks that a device computes the same bits each time, to find silent data corruption.
 *
 * One training step is repeated from the same state: weights, momentum and running statistics are
 * restored, and the results are compared with those of the first repeat, byte by byte:
 *   after the backward phase   the loss, all gradients, the weights, running statistics
 *   after the update           the weights, momentum
 * The resulting state is the initial state of the next step, for `steps` steps. A bit that flips in
 * a weight or a gradient before the end of the backward phase is always found, even a low bit of a
 * gradient that does not change the rounded result of the update.
 *
 * Devices must plan only operations that give the same bits in every run. */
#pragma once

#include "model/network.h"
#include "verify/selftest.h"

#include <stdint.h>

/* For tests: one bit of a weight flips before the forward phase, or one bit of a gradient flips
 * after the backward phase. Steps and repeats are counted from 0. */
struct determinism_fault {
    int step, repeat;
    enum param_value value;
    int param;   /* index in graph->param of a trained parameter */
    int64_t bit; /* number of the bit, as in network_flip */
};

struct determinism_case {
    const char *arch, *precision; /* as `train` takes them */
    bool emulate;
    int classes, image_size, batch;
    int steps;   /* >= 1 */
    int repeats; /* number of executions of each step, including the first; >= 2 */
    uint64_t seed;
    const struct determinism_fault *fault; /* NULL: none */
};

struct determinism_result {
    double loss;   /* loss of the last step, the mean over its images */
    uint64_t bits; /* hash of the results of the first repeat of each step: equal on two devices
                    * that compute the same bits and have the same layouts of weights */
    double bytes;  /* number of bytes that were compared with the first repeat */
};

/* Repeats the steps of a case. STATUS_MISMATCH if a repeat differs: the message names step, repeat,
 * tensor and the first bit that differs. Otherwise fills in *r. */
MUST_CHECK enum status determinism_check(struct device *dev, const struct determinism_case *c,
                                         struct determinism_result *r);

/* Runs the built-in cases, several networks in several precisions, and prints a verdict for each.
 * STATUS_MISMATCH when a case fails. */
MUST_CHECK enum status determinism_run(const struct selftest_config *c);
