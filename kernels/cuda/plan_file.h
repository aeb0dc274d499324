/* The process's facts about plans (plan_cache.h) and the file that stores them:
 * $XDG_CACHE_HOME/ampscale/plans, else ~/.cache/ampscale/plans; no file if HOME is not set either.
 *
 * All GPUs of a process share the facts: if two GPUs time the same problem at once, the GPU that
 * finishes later uses the result of the other GPU. Later and resumed runs make the same choices,
 * because all facts are on disk before the first step (plan_file_save). Processes that plan at the
 * same time before the file exists may choose differently; later processes use the facts that were
 * written first.
 *
 * A second file, plans.broken, is a journal: a line for each engine that crashed a process. A
 * handler of signals can append a line, but cannot replace a file.
 *
 * Any thread may call these functions. */
#pragma once

#include "kernels/cuda/device.h"
#include "kernels/cuda/plan_cache.h"

#include <limits.h>

/* Opens the file for a device, if the device has not opened it yet (cuda_device.plan_file). Closing
 * a device closes its file; closing the last device of the process also saves the file. A damaged
 * file is ignored and later replaced. */
MUST_CHECK enum status plan_file_open(struct cuda_device *dev);

/* Returns whether the key is known. If so, sets *choice to the fact of the key. */
bool plan_file_find(const char *key, struct plan_choice *choice);

/* Adds a fact. If the key is already known, sets *choice to the known fact instead. The file is
 * written at most every two seconds, so a process killed while it plans loses the facts of about
 * two seconds. */
MUST_CHECK enum status plan_file_add(const char *key, struct plan_choice *choice);

/* Replaces a known fact that can no longer be used. */
MUST_CHECK enum status plan_file_replace(const char *key, const struct plan_choice *choice);

/* Writes new facts to the file and keeps facts that other processes have added meanwhile. If the
 * file cannot be written, the next run must time the plans again. */
void plan_file_save(void);

/* Writes the path of the journal; "": there is no file. A line is the key of an engine
 * (conv_plan_engine_key) and a newline. */
void plan_file_journal(char path[PATH_MAX]);
