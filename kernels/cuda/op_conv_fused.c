/* Convolutions fused with the batch norm and ReLU around them. An operation executes only the
 * library's plan. If DW is fp32, the library writes its result to the workspace, and the operation
 * then converts it to DW.
 *
 * SUMS, AFFINE and EQ consist of several arrays with a value per channel, one after the other; each
 * array is a port of the graph. Emulated precision is not supported: the library cannot round
 * values within a form. */
#include "kernels/cuda/conv_exec.h"
#include "kernels/cuda/cudnn_desc.h"
#include "kernels/cuda/plan.h"

#include <stdlib.h>

/* Fused forms need this version of cuDNN, because earlier versions crashed while planning some of
 * these forms. */
enum { CUDNN_FUSES = 91100 };

struct fused {
    struct op_plan base;
    struct conv_exec *exec;
    bool cast;         /* the library's result is in the workspace and is converted to DW */
    size_t library_at; /* offset of the library's workspace in bytes */
};

/* Channels must be a multiple of this number, so that each array of any type begins at a multiple
 * of 16 bytes. */
enum { CHANNELS = 8 };

/* Array `i` of a tensor that consists of several arrays, each with `channels` values. */
static void *set_at(const struct op_plan *plan, void *const arg[ROLE_COUNT], enum role role, int i,
                    int64_t channels)
{
    size_t size = dtype_size(plan->desc.t[role].type);
    return (char *)arg[role] + (size_t)(i * channels) * size;
}

static void name_affine(const struct op_plan *plan, void *const arg[ROLE_COUNT],
                        void *port[CG_PORT_COUNT])
{
    if (plan->desc.t[ROLE_AFFINE].ndim == 0)
        return;
    int64_t channels = plan->desc.t[ROLE_X].dim[1];
    port[CG_PRO_SCALE] = set_at(plan, arg, ROLE_AFFINE, 0, channels);
    port[CG_PRO_SHIFT] = set_at(plan, arg, ROLE_AFFINE, 1, channels);
}

/* Sets the ports of a residual block's end: the shortcut and the result. */
static void name_end(const struct op_plan *plan, void *const arg[ROLE_COUNT],
                     void *port[CG_PORT_COUNT])
{
    int64_t channels = plan->desc.t[ROLE_X].dim[1];
    bool two = plan->desc.t[ROLE_Z_AFFINE].ndim > 0;
    port[CG_APPLIED] = arg[ROLE_APPLIED];
    port[two ? CG_Z : CG_SHORTCUT] = arg[ROLE_Z];
    if (!two)
        return;
    port[CG_Z_SCALE] = set_at(plan, arg, ROLE_Z_AFFINE, 0, channels);
    port[CG_Z_SHIFT] = set_at(plan, arg, ROLE_Z_AFFINE, 1, channels);
}

static enum status fused_run_stats_fwd(struct op_plan *plan, void *const arg[ROLE_COUNT],
                                       struct stream *s)
{
    const struct fused *p = (const struct fused *)plan;
    int64_t outputs = plan->desc.t[ROLE_Y].dim[1];
    void *port[CG_PORT_COUNT] = {[CG_X] = arg[ROLE_X],
                                 [CG_W] = arg[ROLE_W],
                                 [CG_Y] = arg[ROLE_Y],
                                 [CG_SUM] = set_at(plan, arg, ROLE_SUMS, 0, outputs),
                                 [CG_SQSUM] = set_at(plan, arg, ROLE_SUMS, 1, outputs)};
    struct cu_queue q;
    TRY(cuda_queue(s, &q));
    name_affine(plan, arg, port);
    if (plan->desc.t[ROLE_Z].ndim)
        name_end(plan, arg, port);
    return conv_exec_run(p->exec, port, arg[ROLE_WORKSPACE], q.stream);
}

static enum status fused_run_bwd_weights(struct op_plan *plan, void *const arg[ROLE_COUNT],
                                         struct stream *s)
{
    const struct fused *p = (const struct fused *)plan;
    const struct conv_problem *a = &p->exec->problem;
    const struct tensor_desc *dw = &plan->desc.t[ROLE_DW];
    void *port[CG_PORT_COUNT] = {[CG_X] = arg[ROLE_X],
                                 [CG_DY] = arg[ROLE_DY],
                                 [CG_DW] = arg[p->cast ? ROLE_WORKSPACE : ROLE_DW]};
    struct cu_queue q;
    TRY(cuda_queue(s, &q));
    name_affine(plan, arg, port);
    TRY(conv_exec_run(p->exec, port, (char *)arg[ROLE_WORKSPACE] + p->library_at, q.stream));
    if (!p->cast)
        return STATUS_OK;
    return cu_cast(&q, a->type, dw->type, tensor_count(dw), port[CG_DW], arg[ROLE_DW]);
}

/* Sets the ports of the shortcut's batch norm. */
static void name_shortcut(const struct op_plan *plan, void *const arg[ROLE_COUNT],
                          void *port[CG_PORT_COUNT])
{
    int64_t channels = plan->desc.t[ROLE_X].dim[1];
    port[CG_Z] = arg[ROLE_Z];
    port[CG_Z_MEAN] = arg[ROLE_Z_MEAN];
    port[CG_Z_INVSTD] = arg[ROLE_Z_INVSTD];
    port[CG_Z_GAMMA] = arg[ROLE_Z_GAMMA];
    port[CG_Z_BETA] = arg[ROLE_Z_BETA];
    port[CG_Z_DGAMMA] = arg[ROLE_Z_DGAMMA];
    port[CG_Z_DBETA] = arg[ROLE_Z_DBETA];
    port[CG_Z_EQ_DY] = set_at(plan, arg, ROLE_Z_EQ, 0, channels);
    port[CG_Z_EQ_X] = set_at(plan, arg, ROLE_Z_EQ, 1, channels);
    port[CG_Z_EQ_BIAS] = set_at(plan, arg, ROLE_Z_EQ, 2, channels);
}

static enum status fused_run_bwd_data(struct op_plan *plan, void *const arg[ROLE_COUNT],
                                      struct stream *s)
{
    const struct fused *p = (const struct fused *)plan;
    const struct op_desc *d = &plan->desc;
    int64_t channels = d->t[ROLE_X].dim[1];
    bool two = d->t[ROLE_Z_GAMMA].ndim > 0;
    void *port[CG_PORT_COUNT] = {[CG_DY] = arg[ROLE_DY],
                                 [CG_W] = arg[ROLE_W],
                                 [CG_DX] = arg[ROLE_DX],
                                 [CG_BN_X] = arg[ROLE_X],
                                 [CG_SHORTCUT] = d->t[ROLE_Z].ndim && !two ? arg[ROLE_Z] : NULL,
                                 [CG_DY2] = d->t[ROLE_DY2].ndim ? arg[ROLE_DY2] : NULL,
                                 [CG_MEAN] = arg[ROLE_MEAN],
                                 [CG_INVSTD] = arg[ROLE_INVSTD],
                                 [CG_GAMMA] = arg[ROLE_BN_GAMMA],
                                 [CG_BETA] = arg[ROLE_BN_BETA],
                                 [CG_DGAMMA] = arg[ROLE_DGAMMA],
                                 [CG_DBETA] = arg[ROLE_DBETA],
                                 [CG_EQ_DY] = set_at(plan, arg, ROLE_EQ, 0, channels),
                                 [CG_EQ_X] = set_at(plan, arg, ROLE_EQ, 1, channels),
                                 [CG_EQ_BIAS] = set_at(plan, arg, ROLE_EQ, 2, channels)};
    struct cu_queue q;
    if (two)
        name_shortcut(plan, arg, port);
    TRY(cuda_queue(s, &q));
    TRY(conv_exec_run(p->exec, port, arg[ROLE_WORKSPACE], q.stream));
    return cuda_round_written(plan, arg, &q);
}

/* The function `seconds` of plans: without a conversion of DW the library's plan is all of the
 * operation. */
static enum status fused_seconds(struct op_plan *plan, double *seconds)
{
    const struct fused *p = (const struct fused *)plan;
    *seconds = p->cast ? 0 : p->exec->seconds;
    return *seconds > 0 ? STATUS_OK : cuda_op_seconds(plan, seconds);
}

static void fused_free(struct op_plan *plan)
{
    struct fused *p = (struct fused *)plan;
    conv_exec_close(p->exec);
    free(p);
}

/* --- planning --- */

static enum status has_no_form(const struct op_desc *d, const char *what)
{
    return status_fail(STATUS_UNSUPPORTED, "%s: cuDNN has no form %s", op_str(d->kind), what);
}

/* Finds the form of a fused operation, and sets *plain to the description of its convolution
 * alone. */
static enum status form_of(const struct op_desc *d, enum conv_form *form, struct op_desc *plain)
{
    bool sum = d->t[ROLE_DY2].ndim > 0, two = d->t[ROLE_Z_GAMMA].ndim > 0;
    *plain = (struct op_desc){.attr = d->attr};
    switch (d->kind) {
    case OP_CONV_STATS_FWD:
        *form = d->t[ROLE_Z_AFFINE].ndim ? CONV_END_TWO_FWD_STATS
                : d->t[ROLE_Z].ndim      ? CONV_END_FWD_STATS
                : d->t[ROLE_AFFINE].ndim ? CONV_APPLY_FWD_STATS
                                         : CONV_FWD_STATS;
        plain->kind = OP_CONV_FWD;
        break;
    case OP_CONV_APPLY_BWD_WEIGHTS:
        *form = CONV_APPLY_BWD_WEIGHTS;
        plain->kind = OP_CONV_BWD_WEIGHTS;
        break;
    default:
        *form = two && sum ? CONV_BWD_DATA_ADD_TWO_BN
                : two      ? CONV_BWD_DATA_TWO_BN
                : sum      ? CONV_BWD_DATA_ADD_BN
                           : CONV_BWD_DATA_BN;
        plain->kind = OP_CONV_BWD_DATA;
        if (!two && sum != (d->t[ROLE_Z].ndim > 0))
            return has_no_form(d, "that has only one of Z and DY2");
    }
    struct op_roles roles = op_roles(plain->kind);
    for (int r = 0; r < ROLE_COUNT; r++)
        if ((roles.reads | roles.writes) >> r & 1 && !(roles.optional >> r & 1))
            plain->t[r] = d->t[r];
    return STATUS_OK;
}

static enum status fused_problem(const struct op_desc *d, struct conv_problem *problem)
{
    struct op_desc plain;
    enum conv_form form;
    unsigned rest;
    TRY(form_of(d, &form, &plain));
    const struct tensor_desc *x = &d->t[ROLE_X], *affine = &d->t[ROLE_AFFINE];
    for (int r = 0; r < ROLE_COUNT; r++) {
        enum dtype rounds = d->t[r].rounds;
        bool native = rounds == DTYPE_F32 || rounds == DTYPE_TF32;
        if (d->t[r].ndim == 4 && r != ROLE_DW && !native)
            return has_no_form(d, "that rounds fp32 values to an emulated type");
    }
    const struct tensor_desc *z_affine = &d->t[ROLE_Z_AFFINE];
    if ((affine->ndim && (affine->type != x->type || x->rounds != DTYPE_F32)) ||
        (z_affine->ndim && z_affine->type != x->type))
        return has_no_form(d, "for an AFFINE of another type than X");
    TRY(conv_problem_of(&plain, problem, &rest));
    if (rest || problem->c % CHANNELS != 0 || problem->k % CHANNELS != 0)
        return has_no_form(d, "for so few channels");
    const struct tensor_desc *dw = &plain.t[ROLE_DW];
    if (dw->ndim && dw->type != problem->type && dw->rounds != problem->type)
        return has_no_form(d, "that leaves the gradient of weights unrounded");
    problem->form = form;
    return STATUS_OK;
}

enum status cuda_plan_conv_fused(struct device *dev, const struct op_desc *desc,
                                 struct op_plan **plan)
{
    struct op_desc d = *desc;
    struct conv_problem problem;
    struct conv_exec *exec = NULL;
    enum status st;
    *plan = NULL;
    if (cudnnGetVersion() < CUDNN_FUSES)
        return has_no_form(desc, "before version 9.11");
    TRY(fused_problem(desc, &problem));
    TRY(cuda_resolve_operands(&d, LAYOUT_NHWC));
    TRY(cuda_all_lie(&d, LAYOUT_NHWC));
    if (problem.type != DTYPE_F32)
        d.t[ROLE_DW].raw = false; /* the library has rounded DW */
    CHECK(conv_exec_open(cuda_device_of(dev), &problem, &exec));
    CHECK(cuda_plan_new(dev, &d, sizeof(struct fused),
                        d.kind == OP_CONV_STATS_FWD     ? fused_run_stats_fwd
                        : d.kind == OP_CONV_BWD_DATA_BN ? fused_run_bwd_data
                                                        : fused_run_bwd_weights,
                        plan));
    struct fused *p = (struct fused *)*plan;
    const struct tensor_desc *dw = &d.t[ROLE_DW];
    p->exec = exec;
    p->cast = d.kind == OP_CONV_APPLY_BWD_WEIGHTS && dw->type != problem.type;
    if (p->cast)
        p->library_at = cuda_align((size_t)tensor_count(dw) * dtype_size(problem.type));
    p->base.free = fused_free;
    p->base.seconds = fused_seconds;
    p->base.impl = exec->impl;
    p->base.workspace = p->library_at + exec->workspace;
done:
    if (st != STATUS_OK)
        conv_exec_close(exec);
    return st;
}
