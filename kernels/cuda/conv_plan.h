/* Convolutions of kernels/ops.h as plans of cuDNN: the candidates that its heuristics name, the
 * fastest of them by a clock that the caller brings, and a cache of what the clock said. */
#ifndef KERNELS_CUDA_CONV_PLAN_H
#define KERNELS_CUDA_CONV_PLAN_H

#include "kernels/cuda/conv_form.h"
#include "kernels/cuda/cudnn_plans.h"
#include "kernels/cuda/plan_cache.h"
#include "kernels/ops.h"

/* Seconds that a plan takes, median of some executions. STATUS_UNSUPPORTED leaves the plan out, as
 * one that cannot run after all; another failure ends the choice. */
struct plan_timer {
    enum status (*time)(void *context, const struct cudnn_plan *plan, double *seconds);
    void *context;
};

struct conv_plan {
    struct cudnn_graph *graph;
    struct cudnn_plan plan; /* execute it with the ports of the problem's form */
    double seconds;         /* as timed, now or when it was cached; 0 when it was not */
    bool cached;            /* the choice came from the cache */
};

/* The candidates, best by heuristics first, for a graph of conv_form_graph. As plan_list_make, with
 * limits of precision and the problem in its messages. */
MUST_CHECK enum status conv_plan_candidates(const struct cudnn_device *dev,
                                            const struct conv_problem *problem,
                                            const struct cudnn_graph *g,
                                            const struct plan_limits *limits,
                                            struct plan_list *list);

/* Plans the problem: what the cache knows, as long as it still can be made within the limits; else
 * the fastest candidate, which is put into the cache. `cache` may be NULL. Without a timer the
 * first candidate is taken, and not cached. limits->full_fp32 is set by the problem. */
MUST_CHECK enum status conv_plan_open(const struct cudnn_device *dev,
                                      const struct conv_problem *problem,
                                      const struct plan_limits *limits,
                                      const struct plan_timer *timer, struct plan_cache *cache,
                                      struct conv_plan *plan);
void conv_plan_close(struct conv_plan *plan); /* a zeroed one is fine */

/* The key of a problem's plan: "NVIDIA H200 sm90 cudnn91900 fwd fp16 n256 ...", and whether only
 * deterministic engines were asked. */
void conv_plan_key(const struct cudnn_device *dev, const struct conv_problem *problem,
                   const struct plan_limits *limits, char key[PLAN_KEY_MAX]);

#endif
