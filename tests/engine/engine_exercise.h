/* Compares training steps of an engine with gradients computed by single networks, on any
 * communicator. Every rank calls the same functions in the same order. A failure names the rank and
 * the reason. */
#pragma once

#include "comm/comm.h"
#include "engine/mode.h"
#include "kernels/tensor.h"

struct engine_case {
    const char *devices; /* of each rank */
    enum dp_reduce reduce;
    bool accumulate;     /* two micro-batches per step */
    int rows;            /* images in each rank's batch, up to 6 */
    enum dtype compress; /* type in which gradients are sent */
    bool mixes;          /* mixup, with a bad image in each batch */
};

/* Checks the reduced gradients. They must equal the mean of the gradients that separate networks
 * compute for the parts of the devices, to 1e-6 of their norm. If the parts have different sizes,
 * the bound is 1e-5, because losses are divided by other numbers and every product is rounded
 * differently. */
MUST_CHECK enum status exercise_gradients(struct comm *ranks, const struct engine_case *c);

/* Checks the momentum after a first step. It must be the mean over the micro-batches of all ranks,
 * and not their sum, also with a loss scale. The bounds are the same. If gradients are compressed,
 * the bound is half a unit of the sent type for each rank. */
MUST_CHECK enum status exercise_average(struct comm *ranks, const struct engine_case *c);

/* Trains two steps, and returns a hash of this rank's weights. Equal bits give equal hashes. */
MUST_CHECK enum status exercise_digest(struct comm *ranks, const struct engine_case *c,
                                       uint64_t *digest);

/* Checks that replicas have the same bits after a step. Then changes one value of device `device`
 * of rank `rank`, and checks that every rank's comparison after another step names that device. */
enum damage { DAMAGE_WEIGHT, DAMAGE_MOMENTUM, DAMAGE_STATISTICS, DAMAGE_GRADIENT, DAMAGE_COUNT };
MUST_CHECK enum status exercise_damage(struct comm *ranks, const struct engine_case *c, int rank,
                                       int device, enum damage what);
