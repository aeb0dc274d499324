/* Faults made on purpose, to see that the checks catch them (docs/faults.md):
 *
 *   slow-rank=R:P%       rank R computes P % longer in each step
 *   throttle=P%          all ranks do
 *   bitflip=STEP[@RANK][:weight|gradient[:TENSOR[:BIT]]]
 *                        one bit flips in device memory: of a weight before that optimizer step, or
 *                        of a gradient between the sum over all ranks and the update, on the last
 *                        device that keeps weights of that rank (default: of the last rank). BIT is
 *                        bit BIT % 32 of element BIT / 32 of the parameter, in PyTorch's order;
 *                        what is not given is drawn by the run's seed
 *   lost-image[=EPOCH]   in that epoch (default: the first) each rank's loader gives one image
 * twice and another not at all
 *
 * A rank that is slow sleeps, between the forward and the backward pass, the given share of what
 * the last step that has been read took it to compute, communication left out: from the second step
 * on, or on a device that goes on beside the host from the fourth, where the sleep also lets the
 * device run dry. A run's record has the faults in its configuration, under "inject". */
#ifndef RUNNERS_INJECT_H
#define RUNNERS_INJECT_H

#include "model/network.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct inject_flip {
    int64_t step; /* optimizer steps of the run begun before */
    int rank;     /* -1: the last */
    enum param_value value;
    char tensor[NAME_MAX_LEN]; /* "": any */
    int64_t bit;               /* -1: any */
    int param;                 /* an index of graph->param; once settled */
};

enum { INJECT_FLIPS_MAX = 16 };

/* Zeroed: no fault. */
struct inject {
    bool slow;
    int slow_rank;
    double slow_share; /* of its own computing time; 0.2: 20 % longer */
    double throttle;   /* the same of all ranks; 0: none */
    bool lose_image;
    int64_t lose_epoch;
    int n_flips;
    struct inject_flip flip[INJECT_FLIPS_MAX];
};

/* Adds one fault, as --inject has it. STATUS_USAGE for what is none. */
MUST_CHECK enum status inject_parse(const char *text, struct inject *into);

/* Draws what was left open, and checks what only the run knows: ranks, tensors, bits.
 * STATUS_USAGE. */
MUST_CHECK enum status inject_settle(struct inject *faults, const struct graph *g, uint64_t seed,
                                     int ranks);

bool inject_any(const struct inject *faults);

/* By which share of its time `rank` computes longer; 0: not at all. */
double inject_drag(const struct inject *faults, int rank);

/* Flips the bits of `net` that are due in this step of this rank. Synchronous where there are any.
 */
MUST_CHECK enum status inject_flips(const struct inject *faults, int64_t step, int rank,
                                    enum param_value v, struct network *net);

/* A new array of the faults, as --inject has them: for records. NULL without memory. */
json_t *inject_json(const struct inject *faults);
#endif
