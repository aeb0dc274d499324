/* Plans for convolutions. */
#include "kernels/cuda/conv_plan.h"

#include <stdio.h>

/* ---- from the description to the problem ---- */

static bool in_order(const struct tensor_desc *t)
{
    return t->layout == LAYOUT_NHWC || t->layout == LAYOUT_ANY;
}

static bool types_fit(const struct tensor_desc *x, const struct tensor_desc *w,
                      const struct tensor_desc *y)
{
    bool one = x->type == w->type && x->type == y->type;
    return one && (x->type == DTYPE_F32 || x->type == DTYPE_F16 || x->type == DTYPE_BF16);
}

/* Narrow types that fp32 stands in for are of no use to a device that has them. */
static bool emulates(const struct tensor_desc *t)
{
    return t->rounds == DTYPE_F16 || t->rounds == DTYPE_BF16;
}

static bool is_tf32(const struct tensor_desc *t)
{
    return t->type == DTYPE_F32 && t->rounds == DTYPE_TF32;
}

/* Engines with tensor cores want rows of channels of 8 bytes at least. */
static int64_t padded(int64_t channels, int groups)
{
    return groups == 1 ? (channels + 3) / 4 * 4 : channels;
}

enum status conv_problem_of(const struct op_desc *desc, struct conv_problem *problem,
                            unsigned *rest)
{
    static const enum conv_form forms[] = {[OP_CONV_FWD] = CONV_FWD,
                                           [OP_CONV_BWD_DATA] = CONV_BWD_DATA,
                                           [OP_CONV_BWD_WEIGHTS] = CONV_BWD_WEIGHTS};
    TRY(op_check(desc));
    if (desc->kind > OP_CONV_BWD_WEIGHTS)
        return status_fail(STATUS_UNSUPPORTED, "%s is no convolution", op_str(desc->kind));
    const struct tensor_desc *t = desc->t;
    const struct tensor_desc *x = &t[desc->kind == OP_CONV_BWD_DATA ? ROLE_DX : ROLE_X];
    const struct tensor_desc *w = &t[desc->kind == OP_CONV_BWD_WEIGHTS ? ROLE_DW : ROLE_W];
    const struct tensor_desc *y = &t[desc->kind == OP_CONV_FWD ? ROLE_Y : ROLE_DY];
    if (!in_order(x) || !in_order(w) || !in_order(y))
        return status_fail(STATUS_UNSUPPORTED, "%s: cuDNN plans are for NHWC", op_str(desc->kind));
    if (!types_fit(x, w, y) || emulates(x) || emulates(w) || emulates(y))
        return status_fail(STATUS_UNSUPPORTED,
                           "%s: cuDNN plans are for tensors of one type, f32, f16 or bf16",
                           op_str(desc->kind));

    const struct conv_attr *conv = &desc->attr.conv;
    *problem = (struct conv_problem){
        .form = forms[desc->kind],
        .type = x->type,
        .tf32 = is_tf32(x) || is_tf32(w) || is_tf32(y),
        .n = x->dim[0],
        .c = padded(x->dim[1], conv->groups),
        .h = x->dim[2],
        .w = x->dim[3],
        .k = w->dim[0],
        .r = w->dim[2],
        .s = w->dim[3],
        .p = y->dim[2],
        .q = y->dim[3],
        .conv = *conv,
    };
    *rest = (t[ROLE_B].ndim ? CONV_REST_BIAS : 0) | (t[ROLE_DB].ndim ? CONV_REST_DB : 0) |
            (desc->kind == OP_CONV_FWD && conv->relu ? CONV_REST_RELU : 0) |
            (problem->c != x->dim[1] ? CONV_REST_PAD : 0);
    return STATUS_OK;
}

/* ---- from the problem to a plan ---- */

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

/* The fastest of the list moves to *best. */
static enum status choose(struct plan_list *list, const struct plan_timer *timer,
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
        return status_fail(STATUS_UNSUPPORTED, "none of cuDNN's %d plans can run", list->n);
    best->plan = list->plan[fastest];
    list->plan[fastest] = (struct cudnn_plan){0};
    return STATUS_OK;
}

/* Makes the plan that the cache has a choice for; plan->cached says whether it did. A choice that
 * can no longer be made is no failure. */
static enum status open_cached(const struct cudnn_device *dev, const struct plan_limits *limits,
                               const struct plan_cache *cache, const char *key,
                               struct conv_plan *plan)
{
    const struct plan_choice *choice = plan_cache_find(cache, key);
    if (!choice)
        return STATUS_OK;
    enum status st = plan_make(dev, plan->graph, choice, limits, &plan->plan);
    plan->cached = st == STATUS_OK;
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
    CHECK(conv_form_graph(problem, &plan->graph));
    if (cache)
        CHECK(open_cached(dev, &l, cache, key, plan));
    if (plan->cached)
        goto done;
    CHECK(conv_plan_candidates(dev, problem, plan->graph, limits, &list));
    CHECK(choose(&list, timer, plan));
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
