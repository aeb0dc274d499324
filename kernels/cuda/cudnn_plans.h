/* From an operation graph to execution plans: the library's heuristics name engines and their
 * settings, best first; a plan is made of each that the limits allow. Which plan is the fastest is
 * for a clock to say (conv_plan.h). For a GPU that is there plans are made with its handle, which
 * every version of the library executes; for one that is described, with its properties. */
#ifndef KERNELS_CUDA_CUDNN_PLANS_H
#define KERNELS_CUDA_CUDNN_PLANS_H

#include "kernels/cuda/cudnn_device.h"
#include "kernels/cuda/cudnn_graph.h"
#include "kernels/cuda/plan_choice.h"

#include <stdbool.h>
#include <stddef.h>

/* The heuristics name 29 to 40 for a convolution, the better ones first. */
enum { PLANS_MAX = 20 };

struct plan_limits {
    size_t workspace;   /* bytes that a plan may want at most */
    bool deterministic; /* only engines that give the same bits every time */
    bool full_fp32;     /* no tensor cores for fp32: products are not rounded to TF32 */
    /* Engines that are compiled when a plan is made may be used. It takes a driver and the GPU
     * itself; elsewhere they are only counted. */
    bool runtime_compiled;
    int plans; /* wanted at most, 1 to PLANS_MAX */
};

struct cudnn_plan {
    struct cudnn_desc desc;
    struct plan_choice choice; /* what it was made of */
    size_t workspace;          /* bytes, 16-byte aligned */
    bool runtime_compiled;
    bool deterministic;
    bool tensor_cores;
};

struct plan_list {
    int n;
    struct cudnn_plan plan[PLANS_MAX]; /* best first, by the heuristics */
    int configs;                       /* that the heuristics named */
    int runtime_compiled; /* of these, engines to be compiled at run time that limits left out */
    int too_large;        /* plans that wanted more workspace than the limit */
    char
        why[256]; /* the library's last word on what did not become a plan; empty: there was none */
};

/* Makes the plans. None is STATUS_UNSUPPORTED, with `why` in its message; the counts are valid then
 * too. */
MUST_CHECK enum status plan_list_make(const struct cudnn_device *dev, const struct cudnn_graph *g,
                                      const struct plan_limits *limits, struct plan_list *list);
void plan_list_close(struct plan_list *list); /* a zeroed one is fine */

/* Makes the one plan of a choice that was made before, without asking the heuristics.
 * STATUS_UNSUPPORTED when the library or the limits do not allow it (any more). */
MUST_CHECK enum status plan_make(const struct cudnn_device *dev, const struct cudnn_graph *g,
                                 const struct plan_choice *choice, const struct plan_limits *limits,
                                 struct cudnn_plan *plan);
void plan_close(struct cudnn_plan *plan); /* a zeroed one is fine */

#endif
