/* Training steps of an engine against the same gradients computed alone, on any communicator.
 *
 * Every rank calls the same functions in the same order. A failure names rank and reason. */
#pragma once

#include "comm/comm.h"
#include "engine/mode.h"
#include "kernels/tensor.h"

struct engine_case {
    const char *devices; /* of each rank */
    enum dp_reduce reduce;
    bool accumulate;     /* two batches to the step */
    int rows;            /* of each rank's batch, up to 6 */
    enum dtype compress; /* of the gradients that are sent */
    bool mixes;          /* mixup, with a bad image in each batch */
};

/* The gradients that all ranks' devices agree on equal the mean of what every device's part of the
 * batch gives in a network of its own, to 1e-6 of their norm. Where devices have parts of different
 * sizes their loss is divided by other numbers and every product rounds elsewhere: 1e-5. */
MUST_CHECK enum status exercise_gradients(struct comm *ranks, const struct engine_case *c);

/* What the optimizer adds to the momentum in a first step is the mean over the micro-batches of all
 * ranks, not their sum, also where the loss is scaled; to the same bounds, or, where the gradients
 * are compressed, to half a unit of the sent type for each rank. */
MUST_CHECK enum status exercise_average(struct comm *ranks, const struct engine_case *c);

/* What two steps make of this rank's weights, as a number: the same where all bits are. */
MUST_CHECK enum status exercise_digest(struct comm *ranks, const struct engine_case *c,
                                       uint64_t *digest);

/* Replicas have the same bits after a step. One value of device `device` of rank `rank` is then
 * changed from outside, and the check after another step names that device on every rank. */
enum damage { DAMAGE_WEIGHT, DAMAGE_MOMENTUM, DAMAGE_STATISTICS, DAMAGE_GRADIENT, DAMAGE_COUNT };
MUST_CHECK enum status exercise_damage(struct comm *ranks, const struct engine_case *c, int rank,
                                       int device, enum damage what);
