/* A pass over a data set: what it comes to, whether it saw every image, and the one over the
 * validation images. */
#ifndef RUNNERS_PASS_H
#define RUNNERS_PASS_H

#include "runners/session.h"

struct pass_result {
    double loss_sum;
    int64_t count, top1, top5;
    int64_t images; /* trained or looked at, bad ones included */
    int64_t bad_images;
    double seconds;
    double joules; /* used by the devices; NaN: not measured */
    struct io_stats io;
};

/* STATUS_MISMATCH unless batches [first, end) of a pass gave the images that they should, each of
 * them once. `seen` is the sum over those batches (batch.seen). */
MUST_CHECK enum status pass_account(const struct session *s, const struct loader *l,
                                    const char *pass, uint64_t seen, int64_t first, int64_t end);

/* Looks at every validation image once, whatever the number of ranks. A signal to any of them cuts
 * it short: STATUS_INTERRUPTED. */
MUST_CHECK enum status pass_validate(struct session *s, struct pass_result *r);
#endif
