/* The process's facts about plans (plan_cache.h) with the file that they are read from and written
 * to: $XDG_CACHE_HOME/ampscale/plans, ~/.cache/ampscale/plans without that, nowhere without a home.
 *
 * All GPUs of a process share them: of two that time the same at once, the second takes what the
 * first found. What a run chose is repeated by the runs after it, a resumed one among them, because
 * all facts are on disk before the first step (plan_file_save). Processes that plan at the same
 * time while there is no file may choose differently; afterwards all take what was written first.
 *
 * Any thread may call these functions. */
#ifndef KERNELS_CUDA_PLAN_FILE_H
#define KERNELS_CUDA_PLAN_FILE_H

#include "kernels/cuda/device.h"
#include "kernels/cuda/plan_cache.h"

/* Opens the file for a device, once (cuda_device.plan_file). One that is damaged is as good as
 * none, and will be replaced. */
MUST_CHECK enum status plan_file_open(struct cuda_device *dev);
void plan_file_close(struct cuda_device *dev); /* the last of the process saves */

/* Whether the key is known; *choice is what is known then. */
bool plan_file_find(const char *key, struct plan_choice *choice);

/* Adds what has been found out; where the key is known by now, *choice becomes that instead. The
 * file follows, at most every two seconds: a process that is killed while it plans loses no more.
 */
MUST_CHECK enum status plan_file_add(const char *key, struct plan_choice *choice);

/* Replaces what is known and of no use (any more). */
MUST_CHECK enum status plan_file_replace(const char *key, const struct plan_choice *choice);

/* Writes what is new. Others may have added facts meanwhile: theirs are kept. That a file cannot be
 * written costs the next run time and nothing else. */
void plan_file_save(void);

#endif
