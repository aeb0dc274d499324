/* Does a device compute the same bits each time? Silent data corruption shows as a step that does
 * not.
 *
 * One training step is repeated from the same state: weights, momentum and running statistics are
 * put back, and what the step leaves is held against what the first repeat left, byte by byte:
 *   after the backward phase   the loss, all gradients, the weights, running statistics
 *   after the update           the weights, momentum
 * Then the state that the step left is repeated from, `steps` times in all. A bit that flips in a
 * weight or a gradient before the backward phase's end is seen for certain, whatever becomes of it
 * in the update: low bits of a gradient vanish there.
 *
 * Devices are told to plan nothing that may give other bits in another run. */
#ifndef RUNNERS_DETERMINISM_H
#define RUNNERS_DETERMINISM_H

#include "model/network.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* For tests: one bit flips in repeat `repeat` of step `step`, both from 0: of a weight before the
 * forward phase, of a gradient after the backward phase. */
struct determinism_fault {
    int step, repeat;
    enum param_value value;
    int param;   /* an index of graph->param, of one that is trained */
    int64_t bit; /* as network_flip has it */
};

struct determinism_case {
    const char *arch, *precision; /* as `train` has them */
    bool emulate;
    int classes, image_size, batch;
    int steps;   /* >= 1 */
    int repeats; /* of each, the first included; >= 2 */
    uint64_t seed;
    const struct determinism_fault *fault; /* NULL: none */
};

struct determinism_result {
    double loss;   /* of the last step: the mean over its images */
    uint64_t bits; /* a hash over everything that was compared, in its order: the same wherever the
                    * same was computed with the same layouts of weights */
    double bytes;  /* held against the first repeat's, in all */
};

/* STATUS_MISMATCH where a repeat differs: the message names step, repeat, tensor and the first bit
 * that differs. *r is filled in where it does not. */
MUST_CHECK enum status determinism_check(struct device *dev, const struct determinism_case *c,
                                         struct determinism_result *r);

struct determinism_config {
    const char *devices; /* one: "cpu", "cuda:1" ... */
    int threads;         /* of the host; 0: all cores */
    int repeats;
    bool quick; /* the small network alone */
    bool json;  /* print one JSON object instead of lines */
    FILE *out;
};

/* The suite's own cases, networks and batches in every precision, each with its verdict.
 * STATUS_MISMATCH when one does not hold. */
MUST_CHECK enum status determinism_run(const struct determinism_config *c);
#endif
