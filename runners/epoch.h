/* Internal to runners/: the record of an epoch. */
#pragma once

#include "base/stats.h"
#include "runners/pass.h"

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
