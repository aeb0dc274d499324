/* Batch norm. The workspace contains first this rank's sums, which attr.bn.sync sums over ranks,
 * then the workspace of the kernels.
 *
 * Statistics over all ranks pass through the host: the calling thread downloads the sums, waits,
 * calls attr.bn.sync and uploads the result. A step with such sums cannot be captured. */
#include "kernels/cuda/plan.h"

#include <stdlib.h>

struct bn_plan {
    struct op_plan base;
    struct cu_bn_shape shape;
    size_t scratch; /* byte offset of the kernels' workspace */
    double *host;   /* pinned copy of the sums; NULL: no sums over ranks */
};

static size_t sums_bytes(const struct cu_bn_shape *s)
{
    return (2 * (size_t)s->channels + 1) * sizeof(double);
}

static enum status sum_over_ranks(const struct bn_plan *p, double *sums, struct stream *s)
{
    size_t bytes = sums_bytes(&p->shape);
    if (!p->host)
        return STATUS_OK;
    TRY(cuda_download(s, p->host, sums, bytes));
    TRY(cuda_stream_sync(s));
    TRY(bn_sync_sum(p->base.desc.attr.bn.sync, p->host, p->shape.channels));
    return cuda_upload(s, sums, p->host, bytes);
}

static enum status take_statistics(const struct bn_plan *p, const struct cu_queue *q, const void *x,
                                   const struct cu_bn_statistics *statistics, double *sums,
                                   struct stream *s)
{
    char *scratch = (char *)sums + p->scratch;
    if (!p->host)
        return cu_bn_statistics(q, &p->shape, x, statistics, scratch);
    TRY(cu_bn_sums(q, &p->shape, x, sums, scratch));
    TRY(sum_over_ranks(p, sums, s));
    return cu_bn_finalize(q, p->shape.channels, sums, statistics);
}

static enum status bn_run_fwd(struct op_plan *plan, void *const arg[ROLE_COUNT], struct stream *s)
{
    struct bn_plan *p = (struct bn_plan *)plan;
    const struct op_desc *d = &plan->desc;
    bool train = d->kind == OP_BN_FWD_TRAIN, running = d->kind == OP_BN_FWD_EVAL;
    double *sums = arg[ROLE_WORKSPACE];
    struct cu_queue q;
    struct cu_bn_apply a = {.x = arg[ROLE_X],
                            .z = d->t[ROLE_Z].ndim ? arg[ROLE_Z] : NULL,
                            .z_affine = d->t[ROLE_Z_AFFINE].ndim ? arg[ROLE_Z_AFFINE] : NULL,
                            .mean = arg[running ? ROLE_RMEAN : ROLE_MEAN],
                            .invstd = running ? NULL : arg[ROLE_INVSTD],
                            .var = arg[ROLE_RVAR],
                            .eps = d->attr.bn.eps,
                            .gamma = arg[ROLE_GAMMA],
                            .beta = arg[ROLE_BETA],
                            .relu = d->attr.bn.relu,
                            .y = arg[ROLE_Y],
                            .mask = d->t[ROLE_MASK].ndim ? arg[ROLE_MASK] : NULL};
    TRY(cuda_queue(s, &q));
    if (train) {
        struct cu_bn_statistics statistics = cuda_bn_statistics(d, arg);
        TRY(take_statistics(p, &q, a.x, &statistics, sums, s));
    }
    TRY(cu_bn_apply(&q, &p->shape, &a));
    return cuda_round_written(plan, arg, &q);
}

static struct cu_bn_bwd backward_of(const struct op_desc *d, void *const arg[ROLE_COUNT])
{
    bool masked = d->t[ROLE_MASK].ndim > 0;
    return (struct cu_bn_bwd){.dy = arg[ROLE_DY],
                              .dy2 = d->t[ROLE_DY2].ndim ? arg[ROLE_DY2] : NULL,
                              .x = arg[ROLE_X],
                              .y = d->attr.bn.relu && !masked ? arg[ROLE_Y] : NULL,
                              .mask = d->attr.bn.relu && masked ? arg[ROLE_MASK] : NULL,
                              .mean = arg[ROLE_MEAN],
                              .invstd = arg[ROLE_INVSTD],
                              .gamma = arg[ROLE_GAMMA],
                              .dgamma = arg[ROLE_DGAMMA],
                              .dbeta = arg[ROLE_DBETA],
                              .dx = arg[ROLE_DX],
                              .dz = d->t[ROLE_DZ].ndim ? arg[ROLE_DZ] : NULL,
                              .dz_rounds = d->t[ROLE_DZ].rounds};
}

static enum status bn_run_bwd(struct op_plan *plan, void *const arg[ROLE_COUNT], struct stream *s)
{
    struct bn_plan *p = (struct bn_plan *)plan;
    struct cu_bn_bwd a = backward_of(&plan->desc, arg);
    double *sums = arg[ROLE_WORKSPACE];
    struct cu_queue q;
    TRY(cuda_queue(s, &q));
    TRY(cu_bn_bwd_sums(&q, &p->shape, &a, sums, (char *)sums + p->scratch));
    TRY(sum_over_ranks(p, sums, s));
    TRY(cu_bn_bwd_apply(&q, &p->shape, &a, sums));
    return cuda_round_written(plan, arg, &q);
}

/* The backward passes of a batch norm and of the residual's batch norm, in one plan. The workspace
 * contains the coefficients of both gradients, then the workspace of the kernels. */
static enum status bn_run_bwd_two(struct op_plan *plan, void *const arg[ROLE_COUNT],
                                  struct stream *s)
{
    struct bn_plan *p = (struct bn_plan *)plan;
    float *eq = arg[ROLE_WORKSPACE];
    struct cu_queue q;
    struct cu_bn_bwd a = backward_of(&plan->desc, arg);
    struct cu_bn_bwd_z z = {arg[ROLE_Z],       arg[ROLE_Z_MEAN],   arg[ROLE_Z_INVSTD],
                            arg[ROLE_Z_GAMMA], arg[ROLE_Z_DGAMMA], arg[ROLE_Z_DBETA]};
    struct cu_bn_lines lines = {.dy = arg[ROLE_DZ],
                                .x = arg[ROLE_X],
                                .z = arg[ROLE_Z],
                                .eq = eq,
                                .z_eq = eq + 3 * p->shape.channels,
                                .dx = arg[ROLE_DX],
                                .dz = arg[ROLE_DZ]};
    TRY(cuda_queue(s, &q));
    TRY(cu_bn_bwd_sums_two(&q, &p->shape, &a, &z, eq, (char *)eq + p->scratch));
    TRY(cu_bn_bwd_lines(&q, &p->shape, &lines));
    return cuda_round_written(plan, arg, &q);
}

static enum status plan_bwd_two(struct device *dev, const struct op_desc *d, struct op_plan **plan)
{
    TRY(cuda_plan_new(dev, d, sizeof(struct bn_plan), bn_run_bwd_two, plan));
    struct bn_plan *p = (struct bn_plan *)*plan;
    p->shape = cuda_matrix(&d->t[ROLE_X]);
    p->scratch = cuda_align(6 * (size_t)p->shape.channels * sizeof(float));
    p->base.workspace = p->scratch + cu_bn_workspace_two(&p->shape);
    return STATUS_OK;
}

static void bn_free(struct op_plan *plan)
{
    struct bn_plan *p = (struct bn_plan *)plan;
    cuda_free_host(plan->device, p->host);
    free(p);
}

enum status cuda_plan_bn(struct device *dev, const struct op_desc *desc, struct op_plan **plan)
{
    struct op_desc d = *desc;
    TRY(cuda_resolve(&d, LAYOUT_NHWC));
    TRY(cuda_all_lie(&d, LAYOUT_NHWC));
    if (d.t[ROLE_Z_GAMMA].ndim)
        return plan_bwd_two(dev, &d, plan);
    if (d.t[ROLE_Z_AFFINE].type != DTYPE_F32)
        return status_fail(STATUS_UNSUPPORTED, "%s: no kernel reads Z_AFFINE of type %s",
                           op_str(d.kind), dtype_str(d.t[ROLE_Z_AFFINE].type));
    d.t[ROLE_DZ].raw = false; /* the kernel rounds DZ before it computes the sums */
    TRY(cuda_plan_new(dev, &d, sizeof(struct bn_plan),
                      d.kind == OP_BN_BWD ? bn_run_bwd : bn_run_fwd, plan));
    struct bn_plan *p = (struct bn_plan *)*plan;
    p->base.free = bn_free;
    p->shape = cuda_matrix(&d.t[ROLE_X]);
    p->scratch = cuda_align(sums_bytes(&p->shape));
    if (d.kind == OP_BN_FWD_EVAL || d.kind == OP_BN_APPLY)
        return STATUS_OK;
    p->base.workspace = p->scratch + cu_bn_workspace(&p->shape);
    if (!d.attr.bn.sync)
        return STATUS_OK;
    void *mem;
    enum status st = cuda_alloc_host(dev, sums_bytes(&p->shape), &mem);
    p->host = mem;
    if (st != STATUS_OK) {
        bn_free(*plan);
        *plan = NULL;
    }
    return st;
}
