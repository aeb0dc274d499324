/* Measures how much gradient communication overlaps with the backward pass, by bucket size.
 *
 * Ranks train on noise. Each round has one step with every bucket size and one without
 * communication, in an order that rotates by one from round to round, so that all are measured in
 * the same state of the machine. All ranks begin a step together. The parts of a step are means
 * over the ranks:
 *
 *   backward   the backward pass, including the start of communication
 *   wait       from its end until all gradients are reduced
 *   gradients  backward + wait: the criterion for a bucket size
 *   busy       time during which at least one bucket was being reduced
 *   exposed    the part of busy after the backward pass
 *   late       the part of exposed spent waiting for slower ranks: exposed minus the smallest
 *              exposed time of a rank, the one for which the others waited
 *   hidden     1 - exposed / busy
 *   even       hidden, with late subtracted from exposed and busy: as if all ranks were equally
 *              fast
 *   cost       gradients minus the backward pass of the same round without communication; includes
 *              the slow-down of computation by communication, and the wait for slower ranks
 *   step       the whole step, with forward and update */
#pragma once

#include "bench/noise_step.h"
#include "comm/comm.h"

enum { OVERLAP_SIZES_MAX = 32, OVERLAP_SCHEMA = 1 };

struct overlap_config {
    struct bench_options options;
    int n_sizes;
    /* MiB of a bucket, as for 'ampscale train --bucket-mb': the first one is at most 1 MiB. 0: one
     * bucket of all gradients, which cannot overlap. */
    double bucket_mb[OVERLAP_SIZES_MAX];
    enum comm_via via;   /* between the ranks: AUTO, MPI, GLOO or LOCAL */
    enum dtype compress; /* type in which gradients are sent: F32, F16 or BF16 */
};

/* To be called by every rank of an MPI job of at least two; STATUS_USAGE otherwise. Rank 0 prints a
 * line for each bucket size, or one JSON object for the record. A rank that fails ends the job. */
MUST_CHECK enum status bench_overlap(const struct overlap_config *c);
