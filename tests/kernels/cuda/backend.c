/* Plans that call the kernels. */
#include "tests/kernels/cuda/backend.h"

#include "kernels/host.h"

#include <stdlib.h>
#include <string.h>

struct shim_device {
    struct device base;
    bool masks;
};

struct shim_plan {
    struct op_plan base;
    enum status (*run)(const struct shim_plan *p, void *const arg[ROLE_COUNT]);
    struct shim_segments segments;
};

static const struct backend backend_shim;

struct cu_queue shim_queue(void)
{
    return (struct cu_queue){.stream = NULL, .multiprocessors = 1};
}

static size_t align64(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

/* --- segments --- */

enum status shim_segments_new(const struct sgd_attr *attr, struct shim_segments *s)
{
    int64_t chunks = cu_chunks_cut(attr, NULL);
    size_t bytes = (size_t)attr->n_segments * sizeof *s->segment;
    s->chunk = malloc((size_t)chunks * sizeof *s->chunk);
    s->segment = malloc(bytes);
    if (!s->chunk || !s->segment) {
        shim_segments_free(s);
        return status_fail(STATUS_OOM, "no memory for segments");
    }
    cu_chunks_cut(attr, s->chunk);
    memcpy(s->segment, attr->segment, bytes);
    s->s = (struct cu_segments){attr->n_segments, chunks, s->segment, s->chunk};
    return STATUS_OK;
}

void shim_segments_free(struct shim_segments *s)
{
    free(s->chunk);
    free(s->segment);
    *s = (struct shim_segments){.s.n_chunks = 0};
}

/* --- batch norm --- */

static struct cu_bn_shape bn_shape(const struct op_desc *d)
{
    const struct tensor_desc *x = &d->t[ROLE_X];
    return (struct cu_bn_shape){x->type, tensor_count(x) / x->dim[1], (int)x->dim[1]};
}

/* Where parts of batch norm's workspace begin: the sums do at 0, then the mask, then what the
 * kernels work in. */
static size_t bn_mask_at(const struct cu_bn_shape *s)
{
    return align64((2 * (size_t)s->channels + 1) * sizeof(double));
}

static size_t bn_scratch_at(const struct cu_bn_shape *s)
{
    return bn_mask_at(s) + align64((size_t)(s->rows * cu_mask_stride(s->channels)));
}

static size_t bn_workspace(const struct op_desc *d)
{
    struct cu_bn_shape s = bn_shape(d);
    return bn_scratch_at(&s) + cu_bn_workspace(&s);
}

static uint8_t *bn_mask(const struct cu_bn_shape *s, void *workspace)
{
    return (uint8_t *)workspace + bn_mask_at(s);
}

static void *bn_scratch(const struct cu_bn_shape *s, void *workspace)
{
    return (char *)workspace + bn_scratch_at(s);
}

static bool is_positive(enum dtype type, const void *y, int64_t i)
{
    if (type == DTYPE_F32)
        return ((const float *)y)[i] > 0;
    /* Both narrow types: sign, then magnitude, of which NaNs are the largest. */
    uint16_t bits = ((const uint16_t *)y)[i], infinity = type == DTYPE_F16 ? 0x7c00 : 0x7f80;
    return bits > 0 && bits <= infinity;
}

/* What the mask of Y should be. */
static void mask_from(const struct cu_bn_shape *s, const void *y, uint8_t *mask)
{
    memset(mask, 0, (size_t)(s->rows * cu_mask_stride(s->channels)));
    for (int64_t row = 0; row < s->rows; row++)
        for (int c = 0; c < s->channels; c++)
            if (is_positive(s->type, y, row * s->channels + c))
                mask[row * cu_mask_stride(s->channels) + c / 8] |= (uint8_t)(1 << c % 8);
}

static enum status check_mask(const struct cu_bn_shape *s, const void *y, const uint8_t *mask)
{
    size_t bytes = (size_t)(s->rows * cu_mask_stride(s->channels));
    uint8_t *wanted = malloc(bytes);
    if (!wanted)
        return status_fail(STATUS_OOM, "no memory for a mask");
    mask_from(s, y, wanted);
    enum status st = STATUS_OK;
    if (memcmp(wanted, mask, bytes) != 0)
        st = status_fail(STATUS_MISMATCH, "the mask is not that of Y");
    free(wanted);
    return st;
}

static enum status run_bn_fwd(const struct shim_plan *p, void *const arg[ROLE_COUNT])
{
    const struct op_desc *d = &p->base.desc;
    struct cu_queue q = shim_queue();
    struct cu_bn_shape s = bn_shape(d);
    bool train = d->kind == OP_BN_FWD_TRAIN;
    struct cu_bn_apply a = {.x = arg[ROLE_X],
                            .z = d->t[ROLE_Z].ndim ? arg[ROLE_Z] : NULL,
                            .mean = arg[train ? ROLE_MEAN : ROLE_RMEAN],
                            .invstd = train ? arg[ROLE_INVSTD] : NULL,
                            .var = arg[ROLE_RVAR],
                            .eps = d->attr.bn.eps,
                            .gamma = arg[ROLE_GAMMA],
                            .beta = arg[ROLE_BETA],
                            .relu = d->attr.bn.relu,
                            .y = arg[ROLE_Y],
                            .mask = d->attr.bn.relu ? bn_mask(&s, arg[ROLE_WORKSPACE]) : NULL};
    if (train) {
        double *sums = arg[ROLE_WORKSPACE];
        struct cu_bn_statistics statistics = {arg[ROLE_MEAN],  arg[ROLE_INVSTD],
                                              arg[ROLE_RMEAN], arg[ROLE_RVAR],
                                              d->attr.bn.eps,  d->attr.bn.momentum};
        TRY(cu_bn_sums(&q, &s, a.x, sums, bn_scratch(&s, arg[ROLE_WORKSPACE])));
        TRY(cu_bn_finalize(&q, s.channels, sums, &statistics));
    }
    TRY(cu_bn_apply(&q, &s, &a));
    return a.mask ? check_mask(&s, a.y, a.mask) : STATUS_OK;
}

static enum status run_bn_bwd(const struct shim_plan *p, void *const arg[ROLE_COUNT])
{
    const struct op_desc *d = &p->base.desc;
    struct cu_queue q = shim_queue();
    struct cu_bn_shape s = bn_shape(d);
    double *sums = arg[ROLE_WORKSPACE];
    struct cu_bn_bwd a = {.dy = arg[ROLE_DY],
                          .dy2 = d->t[ROLE_DY2].ndim ? arg[ROLE_DY2] : NULL,
                          .x = arg[ROLE_X],
                          .mean = arg[ROLE_MEAN],
                          .invstd = arg[ROLE_INVSTD],
                          .gamma = arg[ROLE_GAMMA],
                          .dgamma = arg[ROLE_DGAMMA],
                          .dbeta = arg[ROLE_DBETA],
                          .dx = arg[ROLE_DX],
                          .dz = d->t[ROLE_DZ].ndim ? arg[ROLE_DZ] : NULL};
    if (d->attr.bn.relu && ((struct shim_device *)p->base.device)->masks) {
        uint8_t *mask = bn_mask(&s, arg[ROLE_WORKSPACE]);
        mask_from(&s, arg[ROLE_Y], mask);
        a.mask = mask;
    } else if (d->attr.bn.relu) {
        a.y = arg[ROLE_Y];
    }
    TRY(cu_bn_bwd_sums(&q, &s, &a, sums, bn_scratch(&s, arg[ROLE_WORKSPACE])));
    return cu_bn_bwd_apply(&q, &s, &a, sums);
}

/* --- pooling --- */

static enum status run_pool(const struct shim_plan *p, void *const arg[ROLE_COUNT])
{
    const struct op_desc *d = &p->base.desc;
    struct cu_queue q = shim_queue();
    bool forward = d->kind == OP_MAXPOOL_FWD || d->kind == OP_AVGPOOL_FWD;
    const struct tensor_desc *x = &d->t[forward ? ROLE_X : ROLE_DX];
    const struct tensor_desc *y = &d->t[forward ? ROLE_Y : ROLE_DY];
    struct cu_pool a = {.type = x->type,
                        .n = (int)x->dim[0],
                        .c = (int)x->dim[1],
                        .in = {(int)x->dim[2], (int)x->dim[3]},
                        .out = {(int)y->dim[2], (int)y->dim[3]}};
    if (d->kind == OP_MAXPOOL_FWD || d->kind == OP_MAXPOOL_BWD)
        a.attr = d->attr.pool;
    void *index = d->t[ROLE_INDEX].ndim ? arg[ROLE_INDEX] : NULL;
    const void *dy2 = d->t[ROLE_DY2].ndim ? arg[ROLE_DY2] : NULL;
    switch (d->kind) {
    case OP_MAXPOOL_FWD:
        return cu_maxpool_fwd(&q, &a, arg[ROLE_X], arg[ROLE_Y], index);
    case OP_MAXPOOL_BWD:
        return cu_maxpool_bwd(&q, &a, arg[ROLE_DY], dy2, index, arg[ROLE_DX]);
    case OP_AVGPOOL_FWD:
        return cu_avgpool_fwd(&q, &a, arg[ROLE_X], arg[ROLE_Y]);
    default:
        return cu_avgpool_bwd(&q, &a, arg[ROLE_DY], arg[ROLE_DX]);
    }
}

/* --- element by element --- */

static enum status run_reorder(const struct op_desc *d, const struct cu_queue *q,
                               void *const arg[ROLE_COUNT])
{
    const struct tensor_desc *x = &d->t[ROLE_X], *y = &d->t[ROLE_Y];
    if (x->layout == y->layout)
        return cu_cast(q, x->type, y->type, tensor_count(x), arg[ROLE_X], arg[ROLE_Y]);
    int64_t plane = x->dim[2] * x->dim[3];
    bool to_nhwc = y->layout == LAYOUT_NHWC;
    return cu_transpose(q, x->type, y->type, x->dim[0], to_nhwc ? x->dim[1] : plane,
                        to_nhwc ? plane : x->dim[1], arg[ROLE_X], arg[ROLE_Y]);
}

static enum status run_elements(const struct shim_plan *p, void *const arg[ROLE_COUNT])
{
    const struct op_desc *d = &p->base.desc;
    struct cu_queue q = shim_queue();
    const struct tensor_desc *x = &d->t[d->t[ROLE_X].ndim ? ROLE_X : ROLE_DY];
    int64_t n = tensor_count(x), rows = x->dim[0];
    switch (d->kind) {
    case OP_RELU_FWD:
        return cu_relu_fwd(&q, x->type, n, arg[ROLE_X], arg[ROLE_Y]);
    case OP_RELU_BWD:
        return cu_relu_bwd(&q, x->type, n, arg[ROLE_DY], d->t[ROLE_DY2].ndim ? arg[ROLE_DY2] : NULL,
                           arg[ROLE_Y], arg[ROLE_DX]);
    case OP_ADD:
        return cu_add(&q, x->type, n, arg[ROLE_X], arg[ROLE_Z], arg[ROLE_Y]);
    case OP_ROUND:
        return cu_round(&q, d->t[ROLE_Y].rounds, n, arg[ROLE_X], arg[ROLE_Y]);
    case OP_DROPOUT_FWD:
        return cu_dropout(&q, x->type, rows, n / rows, &d->attr.dropout, arg[ROLE_STATE],
                          arg[ROLE_X], arg[ROLE_Y]);
    case OP_DROPOUT_BWD:
        return cu_dropout(&q, x->type, rows, n / rows, &d->attr.dropout, arg[ROLE_STATE],
                          arg[ROLE_DY], arg[ROLE_DX]);
    case OP_NORMALIZE:
        return cu_normalize(&q, d->t[ROLE_Y].type, n / 3, 3, &d->attr.normalize, arg[ROLE_X],
                            arg[ROLE_Y]);
    default:
        return run_reorder(d, &q, arg);
    }
}

/* --- loss and optimizer --- */

static enum status run_xent(const struct shim_plan *p, void *const arg[ROLE_COUNT])
{
    const struct op_desc *d = &p->base.desc;
    struct cu_queue q = shim_queue();
    struct cu_xent a = {.type = d->t[ROLE_X].type,
                        .rows = d->t[ROLE_X].dim[0],
                        .classes = (int)d->t[ROLE_X].dim[1],
                        .label_smoothing = d->attr.xent.label_smoothing,
                        .x = arg[ROLE_X],
                        .label = arg[ROLE_LABEL],
                        .state = arg[ROLE_STATE],
                        .dx = d->t[ROLE_DX].ndim ? arg[ROLE_DX] : NULL,
                        .metrics = arg[ROLE_METRICS]};
    return cu_softmax_xent(&q, &a, arg[ROLE_WORKSPACE]);
}

static struct cu_sgd sgd_of(const struct op_desc *d, void *const arg[ROLE_COUNT])
{
    const struct sgd_attr *attr = &d->attr.sgd;
    struct cu_sgd a = {.momentum = attr->momentum,
                       .nesterov = attr->nesterov,
                       .state = arg[ROLE_STATE],
                       .gradient = d->t[ROLE_DW].type,
                       .copy = d->t[ROLE_WCOPY].type,
                       .dw = arg[ROLE_DW],
                       .w = arg[ROLE_W],
                       .v = arg[ROLE_MOMENTUM],
                       .wcopy = d->t[ROLE_WCOPY].ndim ? arg[ROLE_WCOPY] : NULL};
    for (int i = 0; i < attr->n_segments; i++)
        a.lars = a.lars || attr->segment[i].trust > 0;
    return a;
}

static enum status run_sgd(const struct shim_plan *p, void *const arg[ROLE_COUNT])
{
    struct cu_queue q = shim_queue();
    struct cu_sgd a = sgd_of(&p->base.desc, arg);
    return cu_sgd(&q, &a, &p->segments.s, arg[ROLE_WORKSPACE]);
}

static enum status run_check_finite(const struct shim_plan *p, void *const arg[ROLE_COUNT])
{
    struct cu_queue q = shim_queue();
    return cu_check_finite(&q, &p->segments.s, p->base.desc.t[ROLE_DW].type, arg[ROLE_DW],
                           arg[ROLE_STATE]);
}

/* --- plans --- */

static enum status shim_execute(struct op_plan *plan, void *const arg[ROLE_COUNT], struct stream *s)
{
    (void)s;
    const struct shim_plan *p = (const struct shim_plan *)plan;
    return p->run(p, arg);
}

static void shim_plan_free(struct op_plan *plan)
{
    struct shim_plan *p = (struct shim_plan *)plan;
    shim_segments_free(&p->segments);
    free(p);
}

/* Whether a kind may have its activations plain: where neighbours do not matter. */
static bool any_order(enum op_kind kind)
{
    return kind == OP_RELU_FWD || kind == OP_RELU_BWD || kind == OP_ADD || kind == OP_ROUND ||
           kind == OP_REORDER;
}

static bool plain_only(enum op_kind kind)
{
    return kind == OP_DROPOUT_FWD || kind == OP_DROPOUT_BWD;
}

/* The layout of all activations; false where the kernels have none. A description with ANY gets
 * what the first tensor that knows has, or NHWC. */
static bool resolve(struct op_desc *d)
{
    enum layout led = plain_only(d->kind) ? LAYOUT_PLAIN : LAYOUT_NHWC;
    for (int r = ROLE_COUNT - 1; r >= 0; r--)
        if (d->t[r].ndim == 4 && d->t[r].layout != LAYOUT_ANY && any_order(d->kind))
            led = d->t[r].layout;
    for (int r = 0; r < ROLE_COUNT; r++) {
        struct tensor_desc *t = &d->t[r];
        bool emulated = t->rounds != DTYPE_F32 && d->kind != OP_ROUND;
        if (t->ndim && (emulated || t->layout == LAYOUT_OPAQUE))
            return false;
        if (t->layout == LAYOUT_ANY)
            t->layout = t->ndim == 4 ? led : LAYOUT_PLAIN;
        bool moved =
            d->kind == OP_REORDER && (t->layout == LAYOUT_PLAIN || t->layout == LAYOUT_NHWC);
        if (t->ndim == 4 && t->layout != led && !moved)
            return false;
        if (d->kind == OP_REORDER && t->ndim && !dtype_is_float(t->type))
            return false;
        t->bytes = (size_t)tensor_count(t) * dtype_size(t->type);
    }
    return true;
}

static enum status plan_new(struct device *dev, const struct op_desc *desc, size_t workspace,
                            enum status (*run)(const struct shim_plan *, void *const[ROLE_COUNT]),
                            struct op_plan **plan)
{
    struct shim_plan *p = calloc(1, sizeof *p);
    if (!p)
        return status_fail(STATUS_OOM, "no memory for a plan");
    p->base = (struct op_plan){.device = dev,
                               .desc = *desc,
                               .workspace = workspace,
                               .impl = "shim",
                               .execute = shim_execute,
                               .free = shim_plan_free};
    p->run = run;
    *plan = &p->base;
    return STATUS_OK;
}

static enum status plan_segments(struct device *dev, const struct op_desc *d,
                                 enum status (*run)(const struct shim_plan *,
                                                    void *const[ROLE_COUNT]),
                                 struct op_plan **plan)
{
    void *const none[ROLE_COUNT] = {NULL};
    struct cu_sgd a = sgd_of(d, none);
    TRY(plan_new(dev, d, 0, run, plan));
    struct shim_plan *p = (struct shim_plan *)*plan;
    enum status st = shim_segments_new(&d->attr.sgd, &p->segments);
    if (st != STATUS_OK) {
        shim_plan_free(*plan);
        *plan = NULL;
        return st;
    }
    p->base.desc.attr.sgd.segment = p->segments.segment;
    p->base.workspace = cu_sgd_workspace(&a, &p->segments.s);
    return STATUS_OK;
}

static enum status shim_plan(struct device *dev, const struct op_desc *desc, struct op_plan **plan)
{
    struct op_desc d = *desc;
    if (!resolve(&d))
        return status_fail(STATUS_UNSUPPORTED, "no kernel has these layouts and types");
    switch (d.kind) {
    case OP_BN_FWD_TRAIN:
    case OP_BN_FWD_EVAL:
        return plan_new(dev, &d, bn_workspace(&d), run_bn_fwd, plan);
    case OP_BN_BWD:
        return plan_new(dev, &d, bn_workspace(&d), run_bn_bwd, plan);
    case OP_MAXPOOL_FWD:
    case OP_MAXPOOL_BWD:
    case OP_AVGPOOL_FWD:
    case OP_AVGPOOL_BWD:
        return plan_new(dev, &d, 0, run_pool, plan);
    case OP_SOFTMAX_XENT:
        return plan_new(dev, &d, cu_softmax_xent_workspace(d.t[ROLE_X].dim[0]), run_xent, plan);
    case OP_SGD:
        return plan_segments(dev, &d, run_sgd, plan);
    case OP_CHECK_FINITE:
        return plan_segments(dev, &d, run_check_finite, plan);
    default:
        return plan_new(dev, &d, 0, run_elements, plan);
    }
}

/* --- the backend --- */

enum status shim_device_open(bool masks, struct device **dev)
{
    struct shim_device *d = malloc(sizeof *d);
    if (!d)
        return status_fail(STATUS_OOM, "no memory for a device");
    *d = (struct shim_device){{.backend = &backend_shim, .threads = 1}, masks};
    *dev = &d->base;
    return STATUS_OK;
}

static void shim_close(struct device *dev)
{
    free(dev);
}

static bool shim_native(struct device *dev, enum dtype type)
{
    (void)dev;
    return type == DTYPE_F32 || type == DTYPE_F16 || type == DTYPE_BF16;
}

enum {
    FLOATS = 1u << DTYPE_F32 | 1u << DTYPE_F16 | 1u << DTYPE_BF16,
    LAYOUTS = 1u << LAYOUT_ANY | 1u << LAYOUT_PLAIN | 1u << LAYOUT_NHWC,
};

#define RECORD(kind, types)                                                                        \
    {                                                                                              \
        kind, types, LAYOUTS, shim_plan                                                            \
    }

static const struct op_record records[] = {
    RECORD(OP_BN_FWD_TRAIN, FLOATS), RECORD(OP_BN_FWD_EVAL, FLOATS),
    RECORD(OP_BN_BWD, FLOATS),       RECORD(OP_RELU_FWD, FLOATS),
    RECORD(OP_RELU_BWD, FLOATS),     RECORD(OP_ADD, FLOATS),
    RECORD(OP_MAXPOOL_FWD, FLOATS),  RECORD(OP_MAXPOOL_BWD, FLOATS),
    RECORD(OP_AVGPOOL_FWD, FLOATS),  RECORD(OP_AVGPOOL_BWD, FLOATS),
    RECORD(OP_DROPOUT_FWD, FLOATS),  RECORD(OP_DROPOUT_BWD, FLOATS),
    RECORD(OP_SOFTMAX_XENT, FLOATS), RECORD(OP_SGD, FLOATS),
    RECORD(OP_CHECK_FINITE, FLOATS), RECORD(OP_ROUND, FLOATS),
    RECORD(OP_REORDER, FLOATS),      RECORD(OP_NORMALIZE, 1u << DTYPE_U8),
};

static const struct backend backend_shim = {
    .name = "shim",
    .native = shim_native,
    .n_records = sizeof records / sizeof *records,
    .record = records,
    .close = shim_close,
    HOST_BACKEND_MEMBERS,
};
