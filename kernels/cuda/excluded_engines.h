/* Engines of cuDNN that the user excludes although the library offers them, because they compute
 * wrong numbers or break the GPU. Engines that break the GPU while they are timed are excluded by
 * facts in the plan file (conv_plan_engine_key). */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum { EXCLUDED_ENGINES_MAX = 32 };

struct excluded_engines {
    int n;
    int64_t engine[EXCLUDED_ENGINES_MAX]; /* index among the library's engines for a graph's
                                           * pattern */
};

/* Reads the environment variable AMPSCALE_CUDNN_WITHOUT, "62,63"; without the variable there are no
 * excluded engines. STATUS_USAGE if its text has another form. */
MUST_CHECK enum status excluded_engines_read(struct excluded_engines *e);

static inline bool excluded_engines_has(const struct excluded_engines *e, int64_t engine)
{
    for (int i = 0; e && i < e->n; i++)
        if (e->engine[i] == engine)
            return true;
    return false;
}
