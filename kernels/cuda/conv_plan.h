/* Makes plans of cuDNN for the convolutions of kernels/ops.h: lists the candidates that cuDNN's
 * heuristics name, chooses the fastest by the caller's timer, and caches the choice. */
#pragma once

#include "kernels/cuda/conv_problem.h"
#include "kernels/cuda/cudnn_graph.h"
#include "kernels/cuda/cudnn_plans.h"
#include "kernels/cuda/plan_cache.h"
#include "kernels/ops.h"

/* Makes the graph of the operations in the form of `problem`, for plans on `dev` (conv_form.c). */
MUST_CHECK enum status conv_form_graph(const struct cudnn_device *dev,
                                       const struct conv_problem *problem, struct cudnn_graph **g);

/* Measures a plan's time in seconds, as a median over executions. If `time` returns
 * STATUS_UNSUPPORTED, the plan cannot run and is excluded; any other failure ends the search. */
struct plan_timer {
    enum status (*time)(void *context, const struct cudnn_plan *plan, double *seconds);
    void *context;
};

struct conv_plan {
    struct cudnn_graph *graph;
    struct cudnn_plan plan; /* execute it with the ports of the problem's form */
    double seconds;         /* measured now, or when the choice was cached; 0: not timed */
    bool cached;            /* whether the choice came from the cache */
};

/* Lists the candidate plans for a graph that conv_form_graph made, best first by the heuristics.
 * The function works like plan_list_make with two differences: the problem determines
 * limits->full_fp32, and messages name the problem. */
MUST_CHECK enum status conv_plan_candidates(const struct cudnn_device *dev,
                                            const struct conv_problem *problem,
                                            const struct cudnn_graph *g,
                                            const struct plan_limits *limits,
                                            struct plan_list *list);

/* Plans the problem. Makes the plan of the cached choice if the limits still allow it. Otherwise
 * chooses the fastest candidate and adds it to the cache. `cache` may be NULL. Without a timer, the
 * function chooses the first candidate and does not cache it. Ignores limits->full_fp32, because
 * the problem determines it. */
MUST_CHECK enum status conv_plan_open(const struct cudnn_device *dev,
                                      const struct conv_problem *problem,
                                      const struct plan_limits *limits,
                                      const struct plan_timer *timer, struct plan_cache *cache,
                                      struct conv_plan *plan);
void conv_plan_close(struct conv_plan *plan); /* a zeroed struct is fine */

/* Writes the key of a problem's plan, for example "NVIDIA H200 sm90 cudnn91900 fwd fp16 n256 ...".
 * The key also says whether only deterministic engines are allowed. */
void conv_plan_key(const struct cudnn_device *dev, const struct conv_problem *problem,
                   const struct plan_limits *limits, char key[PLAN_KEY_MAX]);

/* Writes the key of the fact that an engine cannot be used for the problem's form and type, for
 * example "NVIDIA H200 sm90 cudnn91900 fwd fp16 without engine 62". The plan file has it as
 * PLAN_LACKING if the engine broke the GPU: where it did so for one shape, it may do so for others,
 * and each time ends the process. The number of an engine has no meaning for other forms. */
void conv_plan_engine_key(const struct cudnn_device *dev, const struct conv_problem *problem,
                          int64_t engine, char key[PLAN_KEY_MAX]);
