/* Faults that a run injects, to test whether the checks detect them (docs/faults.md):
 *
 *   slow-rank=R:P%       rank R computes P % longer in each step
 *   throttle=P%          every rank computes P % longer in each step
 *   bitflip=STEP[@RANK][:weight|gradient[:TENSOR[:BIT]]]
 *                        one bit flips in device memory, in optimizer step STEP: a bit of a
 *                        weight before the step, a bit of a gradient after the sum over all ranks
 *                        and before the update. RANK (default: the last) flips the bit on its last
 *                        device that keeps weights. BIT counts the bits of the parameter, 32 for
 *                        each element, with the elements in PyTorch's order; in a gradient that is
 *                        kept in 16 bits, bits i and i + 16 of an element are the same bit. A
 *                        tensor or bit that is not given is drawn at random from the run's seed
 *   lost-image[=EPOCH]   in epoch EPOCH (default: the first) each rank's loader repeats one image
 *                        and omits another
 *
 * A slow rank sleeps between the forward and the backward pass, for the given percentage of the
 * computing time (without communication) of the last step whose results were read. The first sleep
 * is in the second step, or in the fourth step on an asynchronous device. The device is idle during
 * the sleep. A run's record lists the faults in its configuration, under "inject". */
#pragma once

#include "model/network.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct inject_flip {
    int64_t step; /* optimizer step, from 0 */
    int rank;     /* -1: the last */
    enum param_value value;
    char tensor[NAME_MAX_LEN]; /* "": any */
    int64_t bit;               /* -1: any */
    int param;                 /* index of graph->param; set by inject_settle */
};

enum { INJECT_FLIPS_MAX = 16 };

/* Zeroed: no fault. */
struct inject {
    bool slow;
    int slow_rank;
    double slow_share; /* added time as a fraction of the rank's computing time; 0.2: 20 % longer */
    double throttle;   /* the same fraction, added on all ranks; 0: none */
    bool lose_image;
    int64_t lose_epoch;
    int n_flips;
    struct inject_flip flip[INJECT_FLIPS_MAX];
};

/* Adds one fault, given as in --inject. STATUS_USAGE if it cannot be parsed. */
MUST_CHECK enum status inject_parse(const char *text, struct inject *into);

/* Draws the tensors and bits that were not given. STATUS_USAGE if a rank, tensor or bit that was
 * given does not exist in the run. */
MUST_CHECK enum status inject_settle(struct inject *faults, const struct graph *g, uint64_t seed,
                                     int ranks);

bool inject_any(const struct inject *faults);

/* The fraction by which `rank`'s computing time is lengthened; 0: not at all. */
double inject_delay(const struct inject *faults, int rank);

/* Flips the bits of `net` that the faults name for this step and rank. If it flips any, it waits
 * for the device. */
MUST_CHECK enum status inject_flips(const struct inject *faults, int64_t step, int rank,
                                    enum param_value v, struct network *net);

/* Returns an array of the faults for records, each as the text of --inject. NULL if out of
 * memory. */
json_t *inject_json(const struct inject *faults);
