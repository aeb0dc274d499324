/* How much of the communication of gradients hides behind the backward pass, and what the size of
 * the buckets has to do with it.
 *
 * Ranks train on noise. In a round every bucket size has one step, and so has training without
 * partners, in an order that turns by one from round to round, so that all see the same machine.
 * All ranks begin a step together. Of each step, as means over the ranks:
 *
 *   backward   the backward pass, with the start of communication in it
 *   wait       from its end until the gradients are sums
 *   gradients  the two together: what a bucket size is judged by
 *   busy       while at least one bucket was on its way
 *   exposed    of that, what came after the backward pass
 *   late       of exposed, the wait for slower ranks: what is more than on the rank that was
 *              exposed least, for which the others waited
 *   hidden     1 - exposed / busy
 *   even       hidden, with late taken off both: as if all ranks had been equally fast
 *   cost       gradients less the backward pass of the same round without partners: what hidden
 *              communication takes from computation is in it, and so is the wait for slower ranks
 *   step       the whole step, with forward and update */
#ifndef BENCH_OVERLAP_H
#define BENCH_OVERLAP_H

#include "bench/noise_step.h"

enum { OVERLAP_SIZES_MAX = 32, OVERLAP_SCHEMA = 1 };

struct overlap_config {
    struct bench_net_config net; /* no_step and reduced are not looked at */
    int n_sizes;
    /* MiB of a bucket, as of 'ampscale train --bucket-mb': the first one is at most 1 MiB. 0: one
     * bucket of everything, so that nothing can be hidden. */
    double bucket_mb[OVERLAP_SIZES_MAX];
    enum dtype compress; /* gradients are sent as: F32, F16 or BF16 */
};

/* To be called by every rank of an MPI job of at least two; STATUS_USAGE otherwise. Rank 0 prints a
 * line for each bucket size, or one JSON object for the record. A rank that fails ends the job. */
MUST_CHECK enum status bench_overlap(const struct overlap_config *c);
#endif
