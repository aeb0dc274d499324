/* A pass over a data set: its totals, the check of the images seen, and the validation pass. */
#pragma once

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
