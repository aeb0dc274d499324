/* Compares training steps of an engine with gradients that separate networks compute. Every rank
 * calls the same functions in the same order. An error message names the rank and the reason. */
#pragma once

#include "comm/comm.h"
#include "engine/mode.h"
#include "kernels/backend.h"

struct engine_case {
    const char *devices; /* of each rank */
    enum dp_reduce reduce;
    bool accumulate;               /* two micro-batches per step */
    int rows;                      /* images in each rank's batch, up to 6 */
    enum dtype compress;           /* type in which gradients are sent */
    bool mixes;                    /* mixup, with a bad image in each batch */
    const struct backend *backend; /* of the devices, instead of that of `devices`; NULL: none */
    /* All images of the last micro-batch of rank 0 are bad. Each step then also checks that this
     * rank's running statistics do not change, if the step has no other micro-batch, and that a
     * step without any valid image changes no weights and no momentum. */
    bool blank;
    uint8_t grey; /* of these images' pixels */
    bool sync_bn;
};

/* Checks the momentum after the first step with a loss scale. For each device's part of the batch,
 * a separate network computes the gradients. The momentum must equal the mean of these gradients
 * over the micro-batches of all ranks, with an error of at most 1e-6 times the norm of the mean. If
 * the parts have different sizes, the bound is 1e-5: engine and networks divide their losses by
 * different numbers, so every product is rounded differently. If gradients are compressed, the
 * bound is the number of ranks times half a unit in the last place of the compressed type. */
MUST_CHECK enum status exercise_average(struct comm *ranks, const struct engine_case *c);

/* Trains two steps, and returns a hash of this rank's weights. Equal bits give equal hashes. */
MUST_CHECK enum status exercise_digest(struct comm *ranks, const struct engine_case *c,
                                       uint64_t *digest);

/* Checks that replicas have the same bits after a step. Then flips one bit on device `device` of
 * rank `rank`. After another step, every rank must detect the difference and name that device. */
enum damage { DAMAGE_WEIGHT, DAMAGE_MOMENTUM, DAMAGE_STATISTICS, DAMAGE_GRADIENT };
MUST_CHECK enum status exercise_damage(struct comm *ranks, const struct engine_case *c, int rank,
                                       int device, enum damage what);
