/* Changes tensors' order and type, and converts pixels to the network's input.
 *
 * A change of order needs at most two steps: a transpose, and a copy with another number of
 * channels in memory. If both steps are needed, the first step writes to the workspace. */
#include "kernels/cuda/plan.h"

struct reorder_plan {
    struct op_plan base;
    int64_t n, plane;
    int64_t channels;         /* channels of the tensor, without padding */
    int64_t from, to;         /* numbers of channels that X and Y have in memory */
    bool transposes, resizes; /* the steps needed */
    bool from_plain;
};

static enum status run_copy(const struct op_desc *d, const struct cu_queue *q, const void *x,
                            void *y)
{
    int64_t n = (int64_t)(d->t[ROLE_X].bytes / dtype_size(d->t[ROLE_X].type));
    if (d->t[ROLE_X].type != d->t[ROLE_Y].type)
        return cu_cast(q, d->t[ROLE_X].type, d->t[ROLE_Y].type, n, x, y);
    return cuda_check(
        cudaMemcpyAsync(y, x, d->t[ROLE_X].bytes, cudaMemcpyDeviceToDevice, q->stream),
        "copy a tensor");
}

static enum status run_reorder(struct op_plan *plan, void *const arg[ROLE_COUNT], struct stream *s)
{
    struct reorder_plan *p = (struct reorder_plan *)plan;
    enum dtype from = plan->desc.t[ROLE_X].type, to = plan->desc.t[ROLE_Y].type;
    const void *x = arg[ROLE_X];
    void *y = arg[ROLE_Y];
    struct cu_queue q;
    TRY(cuda_queue(s, &q));
    if (!p->transposes && !p->resizes)
        return run_copy(&plan->desc, &q, x, y);
    int64_t c = p->channels, pixels = p->n * p->plane;
    void *between = p->transposes && p->resizes ? arg[ROLE_WORKSPACE] : y;
    if (p->transposes && p->from_plain) {
        TRY(cu_transpose(&q, from, to, p->n, c, p->plane, x, between));
        x = between;
        from = to;
    }
    if (p->resizes) {
        void *resized = p->from_plain ? y : between;
        TRY(cu_resize_rows(&q, from, to, pixels, p->from, p->to, x, resized));
        x = resized;
        from = to;
    }
    if (p->transposes && !p->from_plain)
        return cu_transpose(&q, from, to, p->n, p->plane, c, x, y);
    return STATUS_OK;
}

static bool is_known(const struct tensor_desc *t)
{
    return t->ndim != 4 || t->layout == LAYOUT_PLAIN || t->layout == LAYOUT_NHWC ||
           t->layout == LAYOUT_OPAQUE;
}

enum status cuda_plan_reorder(struct device *dev, const struct op_desc *desc, struct op_plan **plan)
{
    struct op_desc d = *desc;
    const struct tensor_desc *x = &d.t[ROLE_X];
    struct tensor_desc *y = &d.t[ROLE_Y];
    if (y->layout == LAYOUT_ANY)
        y->opaque = x->opaque;
    TRY(cuda_resolve(&d, x->layout));
    /* If both tensors have the same order in memory, a copy suffices. */
    bool copies = cuda_lies(y, x->layout) && (x->ndim != 4 || cuda_channels(x) == cuda_channels(y));
    bool floats = dtype_is_float(x->type) && dtype_is_float(y->type);
    if ((!copies && (!is_known(x) || !is_known(y))) || (!floats && !(copies && x->type == y->type)))
        return status_fail(STATUS_UNSUPPORTED, "no kernel converts %s %s to %s %s",
                           dtype_str(x->type), layout_str(x->layout), dtype_str(y->type),
                           layout_str(y->layout));
    TRY(cuda_plan_new(dev, &d, sizeof(struct reorder_plan), run_reorder, plan));
    struct reorder_plan *p = (struct reorder_plan *)*plan;
    if (copies)
        return STATUS_OK;
    p->n = x->dim[0];
    p->plane = x->dim[2] * x->dim[3];
    p->channels = x->dim[1];
    p->from = cuda_channels(x);
    p->to = cuda_channels(y);
    p->resizes = p->from != p->to;
    p->from_plain = x->layout == LAYOUT_PLAIN;
    p->transposes = p->from_plain || y->layout == LAYOUT_PLAIN;
    if (p->transposes && p->resizes)
        p->base.workspace = (size_t)tensor_count(x) * dtype_size(y->type);
    return STATUS_OK;
}

static enum status run_normalize(struct op_plan *plan, void *const arg[ROLE_COUNT],
                                 struct stream *s)
{
    const struct op_desc *d = &plan->desc;
    const struct tensor_desc *y = &d->t[ROLE_Y];
    int64_t plane = y->dim[2] * y->dim[3];
    void *out = plan->workspace ? arg[ROLE_WORKSPACE] : arg[ROLE_Y];
    const struct cu_mix mix = {d->t[ROLE_PARTNER].ndim ? arg[ROLE_PARTNER] : NULL, arg[ROLE_STATE],
                               plane};
    struct cu_queue q;
    TRY(cuda_queue(s, &q));
    TRY(cu_normalize(&q, y->type, y->dim[0] * plane, (int)cuda_channels(y), &d->attr.normalize,
                     &mix, arg[ROLE_X], out));
    if (!plan->workspace)
        return STATUS_OK;
    return cu_transpose(&q, y->type, y->type, y->dim[0], plane, y->dim[1], out, arg[ROLE_Y]);
}

enum status cuda_plan_normalize(struct device *dev, const struct op_desc *desc,
                                struct op_plan **plan)
{
    struct op_desc d = *desc;
    const struct tensor_desc *y = &d.t[ROLE_Y];
    TRY(cuda_resolve(&d, LAYOUT_NHWC));
    bool padded = y->layout == LAYOUT_OPAQUE && y->opaque == y->dim[1] + 1;
    if (!padded && !cuda_lies(y, LAYOUT_NHWC) && !cuda_lies(y, LAYOUT_PLAIN))
        return status_fail(STATUS_UNSUPPORTED, "no kernel converts pixels to %s",
                           layout_str(y->layout));
    TRY(cuda_plan_new(dev, &d, sizeof **plan, run_normalize, plan));
    (*plan)->workspace = padded || cuda_lies(y, LAYOUT_NHWC) ? 0 : y->bytes;
    return STATUS_OK;
}
