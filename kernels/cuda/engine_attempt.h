/* Executions of cuDNN's engines that may end the process. If an engine crashes while it is tried,
 * or has not ended after half a minute, the plan file's journal gets the engine's key
 * (conv_plan_engine_key), and later processes do not use the engine for that form and type. */
#pragma once

#include "base/crash.h"
#include "kernels/cuda/plan_cache.h"

#include <limits.h>
#include <pthread.h>

struct engine_attempt {
    char key[PLAN_KEY_MAX]; /* of the engine */
    char journal[PATH_MAX];
    char line[PLAN_KEY_MAX + 1]; /* the key, for the journal */
    struct crash_note note;
    pthread_t watch;
    bool watched;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool over; /* guarded by `lock` */
};

/* Begins to watch what this thread executes. The caller sets a->key; *a must stay at its address
 * until engine_attempt_end. `about` is for messages, and must stay valid too. If there is no
 * journal or no thread, crashes or hangs are not recorded. A process in which an engine hangs ends
 * with a line that names the engine. */
void engine_attempt_begin(struct engine_attempt *a, const char *about);
void engine_attempt_end(struct engine_attempt *a);
