/* Pooling, and addition to every n-th pixel (OP_ADD_STRIDED). Average pooling also supports Y and
 * DY in the plain layout, because the next layer of a network flattens Y. */
#include "kernels/cuda/plan.h"

#include <string.h>

static struct cu_pool pool_of(const struct op_desc *d)
{
    bool forward = d->t[ROLE_X].ndim != 0;
    return cuda_pool_of(&d->t[forward ? ROLE_X : ROLE_DX], &d->t[forward ? ROLE_Y : ROLE_DY]);
}

/* Fails if the kernels do not support these heights and widths. */
static enum status check_sides(const struct op_desc *d)
{
    enum { MOST = 65535 };
    struct cu_pool p = pool_of(d);
    if (p.in[0] <= MOST && p.in[1] <= MOST && p.out[0] <= MOST && p.out[1] <= MOST)
        return STATUS_OK;
    return status_fail(STATUS_UNSUPPORTED,
                       "%s: no kernel for images with sides of more than %d pixels",
                       op_str(d->kind), MOST);
}

static enum status run_max(struct op_plan *plan, void *const arg[ROLE_COUNT], struct stream *s)
{
    const struct op_desc *d = &plan->desc;
    struct cu_pool a = pool_of(d);
    struct cu_queue q;
    void *index = d->t[ROLE_INDEX].ndim ? arg[ROLE_INDEX] : NULL;
    const void *dy2 = d->t[ROLE_DY2].ndim ? arg[ROLE_DY2] : NULL;
    a.attr = d->attr.pool;
    TRY(cuda_queue(s, &q));
    if (d->kind == OP_MAXPOOL_FWD)
        return cu_maxpool_fwd(&q, &a, arg[ROLE_X], arg[ROLE_Y], index);
    return cu_maxpool_bwd(&q, &a, arg[ROLE_DY], dy2, index, arg[ROLE_DX]);
}

static enum status run_add(struct op_plan *plan, void *const arg[ROLE_COUNT], struct stream *s)
{
    const struct op_desc *d = &plan->desc;
    struct cu_pool whole = pool_of(d), a = whole;
    struct cu_queue q;
    memcpy(a.in, whole.out, sizeof a.in); /* X has only some of Y's pixels */
    memcpy(a.out, whole.in, sizeof a.out);
    memcpy(a.attr.stride, d->attr.grid.stride, sizeof a.attr.stride);
    TRY(cuda_queue(s, &q));
    return cu_add_strided(&q, &a, arg[ROLE_X], arg[ROLE_Y]);
}

/* Max pooling and adding. */
enum status cuda_plan_pool(struct device *dev, const struct op_desc *desc, struct op_plan **plan)
{
    struct op_desc d = *desc;
    TRY(cuda_resolve(&d, LAYOUT_NHWC));
    TRY(cuda_all_lie(&d, LAYOUT_NHWC));
    TRY(check_sides(&d));
    return cuda_plan_new(dev, &d, sizeof **plan, d.kind == OP_ADD_STRIDED ? run_add : run_max,
                         plan);
}

/* Y or DY in LAYOUT_PLAIN is transposed in the workspace. */
static enum status run_average(struct op_plan *plan, void *const arg[ROLE_COUNT], struct stream *s)
{
    const struct op_desc *d = &plan->desc;
    struct cu_pool a = pool_of(d);
    struct cu_queue q;
    bool forward = d->kind == OP_AVGPOOL_FWD, turned = plan->workspace > 0;
    void *small = turned ? arg[ROLE_WORKSPACE] : arg[forward ? ROLE_Y : ROLE_DY];
    int64_t plane = (int64_t)a.out[0] * a.out[1];
    TRY(cuda_queue(s, &q));
    if (forward) {
        TRY(cu_avgpool_fwd(&q, &a, arg[ROLE_X], small));
        return turned ? cu_transpose(&q, a.type, a.type, a.n, plane, a.c, small, arg[ROLE_Y])
                      : STATUS_OK;
    }
    if (turned)
        TRY(cu_transpose(&q, a.type, a.type, a.n, a.c, plane, arg[ROLE_DY], small));
    return cu_avgpool_bwd(&q, &a, small, arg[ROLE_DX]);
}

enum status cuda_plan_avgpool(struct device *dev, const struct op_desc *desc, struct op_plan **plan)
{
    struct op_desc d = *desc;
    bool forward = d.kind == OP_AVGPOOL_FWD;
    enum role large = forward ? ROLE_X : ROLE_DX, small = forward ? ROLE_Y : ROLE_DY;
    TRY(cuda_resolve(&d, LAYOUT_NHWC));
    bool plain = !cuda_lies(&d.t[small], LAYOUT_NHWC);
    if (!cuda_lies(&d.t[large], LAYOUT_NHWC) || (plain && !cuda_lies(&d.t[small], LAYOUT_PLAIN)))
        return status_fail(STATUS_UNSUPPORTED, "%s: no kernel for these layouts", op_str(d.kind));
    TRY(check_sides(&d));
    TRY(cuda_plan_new(dev, &d, sizeof **plan, run_average, plan));
    (*plan)->workspace = plain ? d.t[small].bytes : 0;
    return STATUS_OK;
}
