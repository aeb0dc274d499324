/* Linear layers: Y (N, O) = X (N, I) * W (O, I)^T + B, and its two gradients. */
#include "kernels/cuda/matmul.h"
#include "kernels/cuda/plan.h"

#include <stdlib.h>

struct linear_plan {
    struct op_plan base;
    struct matmul *matmul;
    size_t scratch; /* offset of DB's sums, after the product's workspace */
};

static enum status linear_run(struct op_plan *plan, void *const arg[ROLE_COUNT], struct stream *s)
{
    struct linear_plan *p = (struct linear_plan *)plan;
    const struct tensor_desc *dy = &plan->desc.t[ROLE_DY];
    const void *bias = plan->desc.t[ROLE_B].ndim ? arg[ROLE_B] : NULL;
    char *workspace = arg[ROLE_WORKSPACE];
    struct cu_queue q;
    TRY(cuda_queue(s, &q));
    if (plan->desc.kind == OP_LINEAR_FWD)
        return matmul_run(p->matmul, arg[ROLE_X], arg[ROLE_W], bias, arg[ROLE_Y], workspace,
                          q.stream);
    if (plan->desc.kind == OP_LINEAR_BWD_DATA)
        return matmul_run(p->matmul, arg[ROLE_DY], arg[ROLE_W], NULL, arg[ROLE_DX], workspace,
                          q.stream);
    TRY(matmul_run(p->matmul, arg[ROLE_DY], arg[ROLE_X], NULL, arg[ROLE_DW], workspace, q.stream));
    if (!plan->desc.t[ROLE_DB].ndim)
        return STATUS_OK;
    struct cu_bn_shape rows = cuda_matrix(dy);
    TRY(cu_column_sums(&q, &rows, arg[ROLE_DY], arg[ROLE_DB], workspace + p->scratch));
    return cuda_round_written(plan, arg, &q);
}

static bool is_tf32(const struct tensor_desc *t)
{
    return t->rounds == DTYPE_TF32;
}

/* The matrix product of an operation. The library rounds TF32 operands as it loads them. */
static struct matmul_problem linear_problem(const struct op_desc *d)
{
    const struct tensor_desc *t = d->t;
    const struct tensor_desc *x = &t[d->kind == OP_LINEAR_BWD_DATA ? ROLE_DX : ROLE_X];
    const struct tensor_desc *y = &t[d->kind == OP_LINEAR_FWD ? ROLE_Y : ROLE_DY];
    int64_t n = x->dim[0], in = x->dim[1], out = y->dim[1];
    struct matmul_problem p = {.type = x->type,
                               .result = x->type,
                               .tf32 = is_tf32(&t[ROLE_X]) || is_tf32(&t[ROLE_W]) ||
                                       is_tf32(&t[ROLE_DY])};
    switch (d->kind) {
    case OP_LINEAR_FWD:
        p.m = n, p.n = out, p.k = in;
        p.b_transposed = true;
        p.bias = t[ROLE_B].ndim != 0;
        p.relu = d->attr.linear.relu;
        break;
    case OP_LINEAR_BWD_DATA:
        p.m = n, p.n = in, p.k = out;
        break;
    default:
        p.m = out, p.n = in, p.k = n;
        p.a_transposed = true;
        p.result = DTYPE_F32;
    }
    return p;
}

static void linear_free(struct op_plan *plan)
{
    struct linear_plan *p = (struct linear_plan *)plan;
    matmul_close(p->matmul);
    free(p);
}

enum status cuda_plan_linear(struct device *dev, const struct op_desc *desc, struct op_plan **plan)
{
    struct op_desc d = *desc;
    struct matmul *matmul;
    enum status st;
    *plan = NULL;
    TRY(cuda_resolve_operands(&d, LAYOUT_NHWC));
    struct matmul_problem problem = linear_problem(&d);
    TRY(matmul_open(cuda_device_of(dev), &problem, &matmul));
    CHECK(cuda_plan_new(dev, &d, sizeof(struct linear_plan), linear_run, plan));
    struct linear_plan *p = (struct linear_plan *)*plan;
    p->base.free = linear_free;
    p->base.impl = matmul->impl;
    p->base.workspace = matmul->workspace;
    p->matmul = matmul;
    if (d.t[ROLE_DB].ndim) {
        struct cu_bn_shape rows = cuda_matrix(&d.t[ROLE_DY]);
        p->scratch = cuda_align(matmul->workspace);
        p->base.workspace = p->scratch + cu_column_sums_workspace(&rows);
    }
done:
    if (st != STATUS_OK)
        matmul_close(matmul);
    return st;
}
