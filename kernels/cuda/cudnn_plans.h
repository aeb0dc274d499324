/* Makes execution plans from an operation graph: the library's heuristics name engines and their
 * settings, best first, and each configuration within the limits becomes a plan. A timer finds the
 * fastest plan (conv_plan.h). For a GPU that is present, plans are made with its handle, since
 * every version of the library can execute such plans. For a GPU that is only described, they are
 * made with its properties. */
#pragma once

#include "kernels/backend.h"
#include "kernels/cuda/cudnn_device.h"
#include "kernels/cuda/cudnn_graph.h"
#include "kernels/cuda/plan_cache.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Limit of a plan's workspace on a GPU of `memory` bytes. The fast engines of fp32 need a workspace
 * of the size of their operands: 1.2 GB in ResNet-50 at batch 256, 13.2 GB in VGG-16 at batch 512.
 * With a lower limit, such a convolution keeps only cuDNN's generic engine. */
static inline size_t plan_workspace_max(size_t memory)
{
    return memory / 6;
}

enum { EXCLUDED_ENGINES_MAX = 32 };

/* Engines of cuDNN that the user excludes although the library offers them, because they compute
 * wrong numbers or break the GPU. Engines that break the GPU while they are timed are excluded by
 * facts in the plan file (conv_plan_engine_key). */
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

struct plan_limits {
    size_t workspace;   /* upper limit of a plan's workspace in bytes */
    bool deterministic; /* only engines that give the same bits each time */
    bool full_fp32;     /* no tensor cores for fp32: products are not rounded to TF32 */
    /* Whether to use only engines that the library compiles when it makes the plan. The compilation
     * needs a driver and the GPU itself. If false, such engines are only counted. */
    bool runtime_compiled;
    int plans;                               /* maximum number of plans to make, 1 to PLANS_MAX */
    const struct excluded_engines *excluded; /* NULL: none */
};

struct cudnn_plan {
    struct cudnn_desc desc;
    struct plan_choice choice; /* the engine and settings of the plan */
    size_t workspace;          /* bytes; the memory must be aligned to 16 bytes */
    bool runtime_compiled;
    bool deterministic;
    bool tensor_cores;
};

struct plan_list {
    int n;
    struct cudnn_plan plan[PLANS_MAX]; /* best first, by the heuristics */
    int configs;                       /* number of configurations that the heuristics named */
    int runtime_compiled;              /* number of these that were excluded because the library
                                        * compiles them at run time */
    int excluded;                      /* number of these that the limits exclude by index */
    int too_large;                     /* number of plans that need more workspace than the limit */
    char why[256]; /* the library's last reason for refusing a plan; empty: it refused no plan */
};

/* Makes the plans. STATUS_UNSUPPORTED if there is no plan, with `why` in the message; the counts
 * are valid even then. */
MUST_CHECK enum status plan_list_make(const struct cudnn_device *dev, const struct cudnn_graph *g,
                                      const struct plan_limits *limits, struct plan_list *list);
void plan_list_close(struct plan_list *list); /* a zeroed struct is fine */

/* Makes the plan of an earlier choice, without the heuristics. STATUS_UNSUPPORTED if the library or
 * the limits do not allow that plan, or no longer allow it. */
MUST_CHECK enum status plan_make(const struct cudnn_device *dev, const struct cudnn_graph *g,
                                 const struct plan_choice *choice, const struct plan_limits *limits,
                                 struct cudnn_plan *plan);
void plan_close(struct cudnn_plan *plan); /* a zeroed struct is fine */
