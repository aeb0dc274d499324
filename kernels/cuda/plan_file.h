/* A device's cache of plans (plan_cache.h) with the file that it is read from and written to:
 * $XDG_CACHE_HOME/ampscale/plans, ~/.cache/ampscale/plans without that, nowhere without a home.
 *
 * What a run chose is repeated by the runs after it, a resumed one among them, because all facts
 * are on disk before the first step (plan_file_save). Ranks that plan at the same time while there
 * is no file may choose differently; afterwards all take what was written first. */
#ifndef KERNELS_CUDA_PLAN_FILE_H
#define KERNELS_CUDA_PLAN_FILE_H

#include "kernels/cuda/device.h"
#include "kernels/cuda/plan_cache.h"

#include <limits.h>

struct plan_file {
    struct plan_cache *cache;
    char path[PATH_MAX]; /* empty: there is no file */
    bool changed;        /* since it was read or written */
    uint64_t saved;      /* clock_ns() when it was written last; 0: not yet */
};

/* The device's own, opened by the first who asks. A damaged file is as good as none, and will be
 * replaced. */
MUST_CHECK enum status plan_file_of(struct cuda_device *dev, struct plan_file **f);
void plan_file_close(struct plan_file *f); /* saves; NULL is fine */

/* A fact has been put into `cache`. The file follows, at most every two seconds: a process that is
 * killed while it plans loses no more. */
void plan_file_note(struct plan_file *f);

/* Writes what is new. Others may have added facts meanwhile: theirs are kept. That a file cannot be
 * written costs the next run time and nothing else. */
void plan_file_save(struct plan_file *f);

#endif
