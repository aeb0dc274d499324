/* Convolutions. A plan runs the library's: cuDNN's plan, or a product of cuBLASLt (conv_product.h).
 * Before and after that, it runs own kernels for the parts that the library does not compute
 * (CONV_REST_* of conv_problem.h).
 *
 * If the library needs X with padded channels, an X of layout ANY becomes OPAQUE (plan.h). An X of
 * layout NHWC is copied with padding to the workspace. Weights that need padding are always copied.
 * The library computes DW in the type of X. If DW has another type, the workspace contains the
 * library's result. */
#include "kernels/cuda/conv_product.h"
#include "kernels/cuda/plan.h"

#include <stdlib.h>

/* The library's part of a convolution: `exec` or, if that is NULL, `product`. */
struct conv_call {
    struct conv_problem problem;
    struct conv_exec *exec;
    struct matmul *product;
};

struct convolution {
    struct op_plan base;
    struct conv_call call;
    unsigned rest;
    int64_t channels; /* channels of the tensors, without the padding that the problem includes */
    /* Offsets and sizes in the workspace; 0 bytes: absent. */
    size_t image_at, image_bytes;     /* X or DX with the problem's channels */
    size_t weights_at, weights_bytes; /* W or DW with the problem's channels, in the problem's
                                       * type */
    size_t bias_at, bias_bytes;       /* B in fp32, or workspace for the sums of DB */
    size_t library_at;
};

static void call_close(struct conv_call *c)
{
    conv_exec_close(c->exec);
    matmul_close(c->product);
    *c = (struct conv_call){.exec = NULL};
}

/* Opens the faster of cuDNN's plan and the product. */
static enum status call_open(struct cuda_device *dev, const struct conv_problem *problem,
                             struct conv_call *c)
{
    *c = (struct conv_call){.problem = *problem};
    enum status st = conv_exec_open(dev, problem, &c->exec);
    if (st != STATUS_OK && st != STATUS_UNSUPPORTED)
        return st;
    enum status chosen = conv_product_choose(dev, problem, c->exec, &c->product);
    if (chosen != STATUS_OK) {
        call_close(c);
        return chosen;
    }
    if (!c->product)
        return st;
    conv_exec_close(c->exec);
    c->exec = NULL;
    return STATUS_OK;
}

static void *place(void *const arg[ROLE_COUNT], size_t at)
{
    return (char *)arg[ROLE_WORKSPACE] + at;
}

static enum status run_library(const struct convolution *p, void *const port[CG_PORT_COUNT],
                               void *const arg[ROLE_COUNT], cudaStream_t stream)
{
    const struct conv_call *c = &p->call;
    void *workspace = place(arg, p->library_at);
    return c->exec ? conv_exec_run(c->exec, port, workspace, stream)
                   : conv_product_run(&c->problem, c->product, port, workspace, stream);
}

/* Number of pixels of X or DX, for the copies that add or remove channels of padding. */
static int64_t image_rows(const struct conv_problem *p)
{
    return p->n * p->h * p->w;
}

static int64_t weight_rows(const struct conv_problem *p)
{
    return p->k * p->r * p->s;
}

/* bring_image and bring_weights copy X and W into the form that the library reads, if necessary. */
static enum status bring_image(const struct convolution *p, void *const arg[ROLE_COUNT],
                               const struct cu_queue *q, void **image)
{
    const struct conv_problem *a = &p->call.problem;
    *image = arg[ROLE_X];
    if (p->image_bytes == 0)
        return STATUS_OK;
    *image = place(arg, p->image_at);
    return cu_resize_rows(q, a->type, a->type, image_rows(a), p->channels, a->c, arg[ROLE_X],
                          *image);
}

static enum status bring_weights(const struct convolution *p, void *const arg[ROLE_COUNT],
                                 const struct cu_queue *q, void **weights)
{
    const struct conv_problem *a = &p->call.problem;
    *weights = arg[ROLE_W];
    if (p->weights_bytes == 0)
        return STATUS_OK;
    *weights = place(arg, p->weights_at);
    return cu_resize_rows(q, a->type, a->type, weight_rows(a), p->channels, a->c, arg[ROLE_W],
                          *weights);
}

/* Whether cuDNN adds the bias, which it reads in fp32. */
static bool casts_bias(const struct conv_call *c)
{
    return c->exec && (c->problem.form == CONV_FWD_BIAS || c->problem.form == CONV_FWD_BIAS_RELU);
}

static enum status conv_run_fwd(struct op_plan *plan, void *const arg[ROLE_COUNT], struct stream *s)
{
    struct convolution *p = (struct convolution *)plan;
    const struct conv_problem *a = &p->call.problem;
    const struct cu_bn_shape y = {a->type, a->n * a->p * a->q, (int)a->k};
    void *port[CG_PORT_COUNT] = {[CG_Y] = arg[ROLE_Y]};
    struct cu_queue q;
    TRY(cuda_queue(s, &q));
    TRY(bring_image(p, arg, &q, &port[CG_X]));
    TRY(bring_weights(p, arg, &q, &port[CG_W]));
    if (a->form != CONV_FWD)
        port[CG_BIAS] = arg[ROLE_B];
    if (casts_bias(&p->call)) {
        port[CG_BIAS] = place(arg, p->bias_at);
        TRY(cu_cast(&q, a->type, DTYPE_F32, a->k, arg[ROLE_B], port[CG_BIAS]));
    }
    TRY(run_library(p, port, arg, q.stream));
    if (p->rest & CONV_REST_BIAS)
        return cu_add_bias(&q, &y, arg[ROLE_B], p->rest & CONV_REST_RELU, arg[ROLE_Y]);
    if (p->rest & CONV_REST_RELU)
        return cu_relu_fwd(&q, a->type, y.rows * y.channels, arg[ROLE_Y], arg[ROLE_Y]);
    return STATUS_OK;
}

static enum status conv_run_bwd_data(struct op_plan *plan, void *const arg[ROLE_COUNT],
                                     struct stream *s)
{
    struct convolution *p = (struct convolution *)plan;
    const struct conv_problem *a = &p->call.problem;
    bool cut = p->image_bytes > 0;
    void *port[CG_PORT_COUNT] = {
        [CG_DY] = arg[ROLE_DY], [CG_DX] = cut ? place(arg, p->image_at) : arg[ROLE_DX]};
    struct cu_queue q;
    TRY(cuda_queue(s, &q));
    TRY(bring_weights(p, arg, &q, &port[CG_W]));
    TRY(run_library(p, port, arg, q.stream));
    if (!cut)
        return STATUS_OK;
    return cu_resize_rows(&q, a->type, a->type, image_rows(a), a->c, p->channels, port[CG_DX],
                          arg[ROLE_DX]);
}

/* Copies the library's result to DW: converts it to DW's type and drops the channels of padding. */
static enum status take_weights(const struct convolution *p, void *const arg[ROLE_COUNT],
                                const struct cu_queue *q, const void *weights)
{
    const struct conv_problem *a = &p->call.problem;
    enum dtype type = p->base.desc.t[ROLE_DW].type;
    int64_t from = a->c / a->conv.groups, to = p->channels / a->conv.groups;
    if (from == to)
        return cu_cast(q, a->type, type, weight_rows(a) * to, weights, arg[ROLE_DW]);
    return cu_resize_rows(q, a->type, type, weight_rows(a), from, to, weights, arg[ROLE_DW]);
}

static enum status conv_run_bwd_weights(struct op_plan *plan, void *const arg[ROLE_COUNT],
                                        struct stream *s)
{
    struct convolution *p = (struct convolution *)plan;
    const struct conv_problem *a = &p->call.problem;
    const struct cu_bn_shape dy = {a->type, a->n * a->p * a->q, (int)a->k};
    bool turned = p->weights_bytes > 0;
    void *port[CG_PORT_COUNT] = {
        [CG_DY] = arg[ROLE_DY], [CG_DW] = turned ? place(arg, p->weights_at) : arg[ROLE_DW]};
    struct cu_queue q;
    TRY(cuda_queue(s, &q));
    TRY(bring_image(p, arg, &q, &port[CG_X]));
    TRY(run_library(p, port, arg, q.stream));
    if (turned)
        TRY(take_weights(p, arg, &q, port[CG_DW]));
    if (p->rest & CONV_REST_DB)
        TRY(cu_column_sums(&q, &dy, arg[ROLE_DY], arg[ROLE_DB], place(arg, p->bias_at)));
    return cuda_round_written(plan, arg, &q);
}

static void conv_free(struct op_plan *plan)
{
    struct convolution *p = (struct convolution *)plan;
    call_close(&p->call);
    free(p);
}

static void lay_workspace(struct convolution *p)
{
    const struct conv_problem *a = &p->call.problem;
    const struct op_desc *d = &p->base.desc;
    const struct tensor_desc *image = &d->t[d->kind == OP_CONV_BWD_DATA ? ROLE_DX : ROLE_X];
    const struct cu_bn_shape dy = {a->type, a->n * a->p * a->q, (int)a->k};
    size_t size = dtype_size(a->type);
    bool padded = p->rest & CONV_REST_PAD;
    bool cast = d->kind == OP_CONV_BWD_WEIGHTS && d->t[ROLE_DW].type != a->type;
    if (cuda_channels(image) != a->c)
        p->image_bytes = (size_t)(image_rows(a) * a->c) * size;
    if (padded || cast)
        p->weights_bytes = (size_t)(weight_rows(a) * a->c / a->conv.groups) * size;
    if (casts_bias(&p->call))
        p->bias_bytes = (size_t)a->k * sizeof(float);
    else if (p->rest & CONV_REST_DB)
        p->bias_bytes = cu_column_sums_workspace(&dy);
    p->weights_at = cuda_align(p->image_bytes);
    p->bias_at = p->weights_at + cuda_align(p->weights_bytes);
    p->library_at = p->bias_at + cuda_align(p->bias_bytes);
    p->base.workspace =
        p->library_at + (p->call.exec ? p->call.exec->workspace : p->call.product->workspace);
}

/* The function `seconds` of plans: if the library's plan is all of the operation, its time is
 * known. */
static enum status conv_seconds(struct op_plan *plan, double *seconds)
{
    const struct convolution *p = (const struct convolution *)plan;
    bool whole = p->image_bytes == 0 && p->weights_bytes == 0 && p->rest == 0;
    *seconds = whole ? (p->call.exec ? p->call.exec->seconds : p->call.product->seconds) : 0;
    return *seconds > 0 ? STATUS_OK : cuda_op_seconds(plan, seconds);
}

struct cuda_copies cuda_conv_copies(const struct op_plan *plan)
{
    const struct convolution *p = (const struct convolution *)plan;
    if (!op_in(plan->desc.kind, OPS_CONV))
        return (struct cuda_copies){.rest = 0};
    return (struct cuda_copies){.image = p->image_bytes,
                                .weights = p->weights_bytes,
                                .library = p->call.exec ? conv_exec_copies(p->call.exec) : 0,
                                .bias = casts_bias(&p->call),
                                .rest = p->rest};
}

/* Prefers a call that adds the bias itself, even if the library must compile its plan. The
 * backend's own kernels would add the bias to values that are already rounded. */
static enum status open_library(struct cuda_device *dev, const struct conv_problem *plain,
                                unsigned *rest, struct conv_call *c)
{
    if (*rest & CONV_REST_BIAS) {
        struct conv_problem fused = *plain;
        fused.form = *rest & CONV_REST_RELU ? CONV_FWD_BIAS_RELU : CONV_FWD_BIAS;
        enum status st = call_open(dev, &fused, c);
        if (st == STATUS_OK)
            *rest &= ~(unsigned)(CONV_REST_BIAS | CONV_REST_RELU);
        if (st != STATUS_UNSUPPORTED)
            return st;
    }
    return call_open(dev, plain, c);
}

enum status cuda_plan_conv(struct device *dev, const struct op_desc *desc, struct op_plan **plan)
{
    static op_executor *const run[] = {conv_run_fwd, conv_run_bwd_data, conv_run_bwd_weights};
    struct op_desc d = *desc;
    struct conv_problem problem;
    struct conv_call call = {.exec = NULL};
    unsigned rest;
    enum status st;
    *plan = NULL;
    TRY(conv_problem_of(desc, &problem, &rest));
    struct tensor_desc *x = &d.t[ROLE_X];
    const struct tensor_desc *dw = &d.t[ROLE_DW];
    if (dw->ndim && dw->type != problem.type && dw->rounds != problem.type)
        return status_fail(STATUS_UNSUPPORTED,
                           "%s: cuDNN computes the gradient of weights in %s only", op_str(d.kind),
                           dtype_str(problem.type));
    if (x->layout == LAYOUT_ANY && x->ndim)
        cuda_set_channels(x, problem.c);
    TRY(cuda_resolve_operands(&d, LAYOUT_NHWC));
    if (problem.type != DTYPE_F32)
        d.t[ROLE_DW].raw = false; /* the library has rounded DW */
    CHECK(open_library(cuda_device_of(dev), &problem, &rest, &call));
    CHECK(cuda_plan_new(dev, &d, sizeof(struct convolution), run[d.kind - OP_CONV_FWD], plan));
    struct convolution *p = (struct convolution *)*plan;
    p->base.free = conv_free;
    p->base.seconds = conv_seconds;
    p->base.impl = call.exec ? call.exec->impl : call.product->impl;
    p->call = call;
    p->rest = rest;
    p->channels = d.t[d.kind == OP_CONV_BWD_DATA ? ROLE_DX : ROLE_X].dim[1];
    lay_workspace(p);
done:
    if (st != STATUS_OK)
        call_close(&call);
    return st;
}
