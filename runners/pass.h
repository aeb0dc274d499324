/* A pass over a data set: its totals, the check of the images seen, the validation pass, and the
 * record of an epoch. */
#pragma once

#include "base/stats.h"
#include "runners/session.h"

struct pass_result {
    double loss_sum;
    int64_t count, top1, top5;
    int64_t images; /* trained on or validated; excludes images that cannot be decoded */
    int64_t bad_images;
    double seconds;
    double joules; /* energy used by the devices; NaN: not measured */
    struct io_stats io;
    /* Bytes that this process fetched from storage in a training pass. On rank 0, .process is later
     * set to the sum over all ranks. */
    struct storage_bytes storage;
};

/* Returns STATUS_MISMATCH unless batches [first, end) of a pass contained exactly the expected
 * images, each once. `seen` is the sum of batch.seen over those batches. */
MUST_CHECK enum status pass_account(const struct session *s, const struct loader *l,
                                    const char *pass, uint64_t seen, int64_t first, int64_t end);

/* Validates every image once, whatever the number of ranks. STATUS_INTERRUPTED on all ranks after a
 * signal to any rank. */
MUST_CHECK enum status pass_validate(struct session *s, struct pass_result *r);

/* --- The record of an epoch --- */

/* Computes the throughput of the steps that this process ran in this epoch. If `warm` is false,
 * this is the first epoch of the process, and its first few steps are left out as warm-up. */
MUST_CHECK enum status epoch_rates(const struct session *s, int64_t first_batch, bool warm,
                                   struct stats *out);

/* Records each rank's times, energy and reads of the epoch. In `train`, sets the energy and the
 * bytes fetched from storage to the totals of all ranks, or to NaN if a rank did not measure its
 * part of the total. Adds the epoch's reads to the session's reads. */
MUST_CHECK enum status epoch_ranks(struct session *s, struct pass_result *train);

/* Records the epoch; for rank 0 only. */
MUST_CHECK enum status epoch_put(struct session *s, const struct pass_result *train,
                                 const struct pass_result *val, double checkpoint_s,
                                 const struct stats *rate);

/* Records a validation without training (--evaluate) as a record of the epoch that the weights
 * belong to. */
MUST_CHECK enum status epoch_evaluated(struct session *s, const struct pass_result *val);
