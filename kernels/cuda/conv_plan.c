/* Plans for convolutions. */
#include "kernels/cuda/conv_plan.h"

#include <stdio.h>

static struct plan_limits limits_of(const struct conv_problem *problem,
                                    const struct plan_limits *limits)
{
    struct plan_limits l = *limits;
    l.full_fp32 = problem->type == DTYPE_F32 && !problem->tf32;
    return l;
}

enum status conv_plan_candidates(const struct cudnn_device *dev, const struct conv_problem *problem,
                                 const struct cudnn_graph *g, const struct plan_limits *limits,
                                 struct plan_list *list)
{
    struct plan_limits l = limits_of(problem, limits);
    enum status st = plan_list_make(dev, g, &l, list);
    if (st == STATUS_OK)
        return st;
    char text[CONV_TEXT_MAX];
    conv_problem_text(problem, text, sizeof text);
    return status_context(st, "'%s'", text);
}

void conv_plan_key(const struct cudnn_device *dev, const struct conv_problem *problem,
                   const struct plan_limits *limits, char key[PLAN_KEY_MAX])
{
    char text[CONV_TEXT_MAX];
    conv_problem_text(problem, text, sizeof text);
    snprintf(key, PLAN_KEY_MAX, "%s sm%d cudnn%zu %s%s", dev->name, dev->sm, cudnnGetVersion(),
             text, limits->deterministic ? " deterministic" : "");
}

void conv_plan_engine_key(const struct cudnn_device *dev, const struct conv_problem *problem,
                          int64_t engine, char key[PLAN_KEY_MAX])
{
    snprintf(key, PLAN_KEY_MAX, "%s sm%d cudnn%zu %s %s" PLAN_ENGINE_WORDS "%lld", dev->name,
             dev->sm, cudnnGetVersion(), conv_form_str(problem->form),
             problem->tf32 ? dtype_str(DTYPE_TF32) : dtype_str(problem->type), (long long)engine);
}

/* Moves the fastest plan of the list to *best. */
static enum status conv_plan_choose(struct plan_list *list, const struct plan_timer *timer,
                                    struct conv_plan *best)
{
    int fastest = -1;
    for (int i = 0; i < list->n; i++) {
        double seconds = 0.0;
        enum status st = timer ? timer->time(timer->context, &list->plan[i], &seconds) : STATUS_OK;
        if (st == STATUS_UNSUPPORTED)
            continue;
        TRY(st);
        if (fastest < 0 || seconds < best->seconds) {
            fastest = i;
            best->seconds = seconds;
        }
        if (!timer)
            break;
    }
    if (fastest < 0)
        return status_fail(STATUS_UNSUPPORTED, "none of cuDNN's %d plans can be executed", list->n);
    best->plan = list->plan[fastest];
    list->plan[fastest] = (struct cudnn_plan){0};
    return STATUS_OK;
}

/* Makes the plan of the cached choice, if there is a choice and its plan can still be made. Sets
 * plan->cached to whether the plan was made. Returns STATUS_OK even if the plan was not made, but
 * STATUS_OOM if memory is short. */
static enum status open_cached(const struct cudnn_device *dev, const struct plan_limits *limits,
                               const struct plan_cache *cache, const char *key,
                               struct conv_plan *plan)
{
    const struct plan_choice *choice = plan_cache_find(cache, key);
    if (!choice || choice->fact != PLAN_CHOSEN)
        return STATUS_OK;
    enum status st = plan_make(dev, plan->graph, choice, limits, &plan->plan);
    plan->cached = st == STATUS_OK;
    plan->seconds = plan->cached ? (double)choice->nanoseconds * 1e-9 : 0;
    return st == STATUS_OOM ? st : STATUS_OK;
}

enum status conv_plan_open(const struct cudnn_device *dev, const struct conv_problem *problem,
                           const struct plan_limits *limits, const struct plan_timer *timer,
                           struct plan_cache *cache, struct conv_plan *plan)
{
    enum status st;
    struct plan_list list = {0};
    struct plan_limits l = limits_of(problem, limits);
    char key[PLAN_KEY_MAX];
    conv_plan_key(dev, problem, limits, key);
    *plan = (struct conv_plan){0};
    CHECK(conv_form_graph(dev, problem, &plan->graph));
    if (cache)
        CHECK(open_cached(dev, &l, cache, key, plan));
    if (plan->cached)
        goto done;
    CHECK(conv_plan_candidates(dev, problem, plan->graph, limits, &list));
    CHECK(conv_plan_choose(&list, timer, plan));
    plan->plan.choice.nanoseconds = (int64_t)(plan->seconds * 1e9);
    plan->seconds = (double)plan->plan.choice.nanoseconds * 1e-9; /* whole nanoseconds, as cached */
    if (cache && timer)
        CHECK(plan_cache_put(cache, key, &plan->plan.choice));
done:
    plan_list_close(&list);
    if (st != STATUS_OK)
        conv_plan_close(plan);
    return st;
}

void conv_plan_close(struct conv_plan *plan)
{
    plan_close(&plan->plan);
    cg_close(plan->graph);
    *plan = (struct conv_plan){0};
}
