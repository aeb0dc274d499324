/* Batch norm, ReLU and maximum pooling without the tensors between them. */
#include "kernels/cuda/plan.h"

static struct cu_pool pool_of(const struct op_desc *d)
{
    struct cu_pool p =
        cuda_pool_of(&d->t[ROLE_X], &d->t[d->kind == OP_BN_POOL_FWD ? ROLE_Y : ROLE_DY]);
    p.attr = d->attr.bn.pool;
    return p;
}

static enum status run_statistics(struct op_plan *plan, void *const arg[ROLE_COUNT],
                                  struct stream *s)
{
    const struct op_desc *d = &plan->desc;
    const struct cu_bn_shape shape = cuda_matrix(&d->t[ROLE_X]);
    const struct cu_bn_statistics statistics = cuda_bn_statistics(d, arg);
    struct cu_queue q;
    TRY(cuda_queue(s, &q));
    TRY(cu_bn_statistics(&q, &shape, arg[ROLE_X], &statistics, arg[ROLE_WORKSPACE]));
    return cuda_round_written(plan, arg, &q);
}

static enum status run_fwd(struct op_plan *plan, void *const arg[ROLE_COUNT], struct stream *s)
{
    const struct op_desc *d = &plan->desc;
    const struct cu_pool p = pool_of(d);
    const struct cu_bn_apply a = {.x = arg[ROLE_X],
                                  .mean = arg[ROLE_MEAN],
                                  .invstd = arg[ROLE_INVSTD],
                                  .gamma = arg[ROLE_GAMMA],
                                  .beta = arg[ROLE_BETA],
                                  .y = arg[ROLE_Y]};
    struct cu_queue q;
    TRY(cuda_queue(s, &q));
    return cu_bn_pool_fwd(&q, &p, &a, d->t[ROLE_Y].rounds, arg[ROLE_INDEX]);
}

static enum status run_bwd(struct op_plan *plan, void *const arg[ROLE_COUNT], struct stream *s)
{
    const struct op_desc *d = &plan->desc;
    const struct cu_pool p = pool_of(d);
    const struct cu_bn_bwd a = {.dy = arg[ROLE_DY],
                                .dy2 = d->t[ROLE_DY2].ndim ? arg[ROLE_DY2] : NULL,
                                .x = arg[ROLE_X],
                                .mean = arg[ROLE_MEAN],
                                .invstd = arg[ROLE_INVSTD],
                                .gamma = arg[ROLE_GAMMA],
                                .dgamma = arg[ROLE_DGAMMA],
                                .dbeta = arg[ROLE_DBETA],
                                .dx = arg[ROLE_DX],
                                .dz_rounds = d->t[ROLE_DX].rounds};
    struct cu_queue q;
    TRY(cuda_queue(s, &q));
    TRY(cu_bn_pool_bwd(&q, &p, &a, arg[ROLE_INDEX], arg[ROLE_WORKSPACE]));
    return cuda_round_written(plan, arg, &q);
}

static enum status plan_statistics(struct device *dev, const struct op_desc *d,
                                   struct op_plan **plan)
{
    const struct cu_bn_shape shape = cuda_matrix(&d->t[ROLE_X]);
    TRY(cuda_plan_new(dev, d, sizeof **plan, run_statistics, plan));
    (*plan)->workspace = cu_bn_workspace(&shape);
    return STATUS_OK;
}

enum status cuda_plan_bn_pool(struct device *dev, const struct op_desc *desc, struct op_plan **plan)
{
    struct op_desc d = *desc;
    TRY(cuda_resolve(&d, LAYOUT_NHWC));
    TRY(cuda_all_lie(&d, LAYOUT_NHWC));
    if (d.kind == OP_BN_STATISTICS)
        return plan_statistics(dev, &d, plan);
    struct cu_pool p = pool_of(&d);
    if (!cu_bn_pool_has(&p))
        return status_fail(STATUS_UNSUPPORTED, "%s: no kernel for these windows or channels",
                           op_str(d.kind));
    d.t[ROLE_Y].raw = false; /* the kernel rounds before it compares */
    bool forward = d.kind == OP_BN_POOL_FWD;
    TRY(cuda_plan_new(dev, &d, sizeof **plan, forward ? run_fwd : run_bwd, plan));
    (*plan)->workspace = forward ? 0 : cu_bn_pool_workspace(&p);
    return STATUS_OK;
}
