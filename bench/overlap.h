/* Measures how much gradient communication overlaps with the backward pass, by bucket size.
 *
 * Ranks train on noise. Each round has one step with every bucket size and one step without
 * communication. The order of the steps rotates by one from round to round, so that all are
 * measured in the same state of the machine. All ranks begin a step together. The times of the
 * parts of a step are means over the ranks:
 *
 *   backward   the backward pass, including the start of communication
 *   wait       from the end of the backward pass until all gradients are reduced
 *   gradients  backward + wait: the criterion for a bucket size
 *   busy       time during which at least one bucket was being reduced
 *   exposed    the part of busy that is after the end of the backward pass
 *   late       the part of exposed that is spent waiting for slower ranks: exposed minus the
 *              smallest exposed time of any rank. The slowest rank has the smallest exposed time,
 *              because it waits for no other rank
 *   hidden     1 - exposed / busy
 *   even       an estimate of `hidden` for equally fast ranks:
 *              1 - (exposed - late) / (busy - late)
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
    /* Bucket sizes in MiB. As with 'ampscale train --bucket-mb', the first bucket is limited to 1
     * MiB. 0: one bucket has all gradients, so its reduction cannot overlap with the backward
     * pass. */
    double bucket_mb[OVERLAP_SIZES_MAX];
    enum comm_via via;   /* transport between the ranks: AUTO, MPI, GLOO or LOCAL */
    enum dtype compress; /* type in which gradients are sent: F32, F16 or BF16 */
};

/* Every rank of the job must call this function. STATUS_USAGE if the job has only one rank. Rank 0
 * prints a line for each bucket size, or one JSON object for the record. If a rank fails, the job
 * ends. */
MUST_CHECK enum status bench_overlap(const struct overlap_config *c);
