/* The steps of batch norm that remain if the adjacent convolutions compute its sums (ops.h):
 * statistics from sums, and the gradient as a multiply-add. The sums stay on the device, so
 * attr.bn.sync is not supported. If it is set, lowering uses the plain batch norm. */
#include "kernels/cuda/plan.h"

static enum status run_finalize(struct op_plan *plan, void *const arg[ROLE_COUNT], struct stream *s)
{
    const struct op_desc *d = &plan->desc;
    struct cu_bn_from_sums a = {.channels = (int)d->t[ROLE_GAMMA].dim[0],
                                .rows = d->attr.bn.count,
                                .sums = arg[ROLE_SUMS],
                                .gamma = arg[ROLE_GAMMA],
                                .beta = arg[ROLE_BETA],
                                .type = d->t[ROLE_AFFINE].type, /* F32 if AFFINE is absent */
                                .affine = d->t[ROLE_AFFINE].ndim ? arg[ROLE_AFFINE] : NULL};
    struct cu_bn_statistics statistics = cuda_bn_statistics(d, arg);
    struct cu_queue q;
    TRY(cuda_queue(s, &q));
    TRY(cu_bn_from_sums(&q, &a, &statistics));
    return cuda_round_written(plan, arg, &q);
}

enum status cuda_plan_bn_finalize(struct device *dev, const struct op_desc *desc,
                                  struct op_plan **plan)
{
    struct op_desc d = *desc;
    if (d.attr.bn.sync)
        return status_fail(STATUS_UNSUPPORTED, "%s: not available with statistics over all ranks",
                           op_str(d.kind));
    TRY(cuda_resolve(&d, LAYOUT_NHWC));
    return cuda_plan_new(dev, &d, sizeof **plan, run_finalize, plan);
}

static enum status run_bwd_apply(struct op_plan *plan, void *const arg[ROLE_COUNT],
                                 struct stream *s)
{
    const struct cu_bn_shape shape = cuda_matrix(&plan->desc.t[ROLE_X]);
    struct cu_queue q;
    TRY(cuda_queue(s, &q));
    if (plan->desc.t[ROLE_Z].ndim) {
        const struct cu_bn_lines a = {arg[ROLE_DY],   arg[ROLE_X],  arg[ROLE_Z], arg[ROLE_EQ],
                                      arg[ROLE_Z_EQ], arg[ROLE_DX], arg[ROLE_DZ]};
        return cu_bn_bwd_lines(&q, &shape, &a);
    }
    return cu_bn_bwd_line(&q, &shape, arg[ROLE_DY], arg[ROLE_X], arg[ROLE_EQ], arg[ROLE_DX]);
}

enum status cuda_plan_bn_bwd_apply(struct device *dev, const struct op_desc *desc,
                                   struct op_plan **plan)
{
    struct op_desc d = *desc;
    TRY(cuda_resolve(&d, LAYOUT_NHWC));
    TRY(cuda_all_lie(&d, LAYOUT_NHWC));
    return cuda_plan_new(dev, &d, sizeof **plan, run_bwd_apply, plan);
}
