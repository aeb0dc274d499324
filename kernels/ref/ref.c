/* The reference backend: plain loops with double sums. A plan resolves layouts, unpacks tensors to
 * doubles, runs a formula and packs the results. Each element is rounded to its tensor's `rounds`
 * when unpacked and when packed. */
#include "base/array.h"
#include "base/host.h"
#include "kernels/host.h"
#include "kernels/ref/formulas.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ref_plan {
    struct op_plan base;
    ref_formula *formula;
    struct op_roles roles;
    size_t offset[ROLE_COUNT];   /* offset of each tensor in the workspace, in doubles */
    size_t sync;                 /* offset of batch norm's sums over all ranks, in doubles */
    struct sgd_segment *segment; /* the plan's own copy of the segments; NULL: the operation has
                                  * none */
};

/* --- one element --- */

static double element_load(const struct tensor_desc *t, const void *mem, int64_t i)
{
    double v = dtype_load(t->type, mem, i);
    return t->type == DTYPE_F32 ? (double)dtype_round(t->rounds, (float)v) : v;
}

static void element_store(const struct tensor_desc *t, void *mem, int64_t i, double v)
{
    if (t->type == DTYPE_F32)
        v = (double)dtype_round(t->rounds, (float)v);
    dtype_store(t->type, mem, i, v);
}

/* --- one tensor --- */

/* Returns the tensor with four dimensions, so that tensor_at() works for every tensor. Dimensions
 * that the tensor lacks are 1. */
static struct tensor_desc with_four_dims(const struct tensor_desc *t)
{
    struct tensor_desc s = *t;
    while (s.ndim < TENSOR_MAX_DIMS)
        s.dim[s.ndim++] = 1;
    return s;
}

/* Copies a tensor from its memory to doubles in plain order, or back. */
static void convert(const struct tensor_desc *t, void *mem, double *plain, bool pack)
{
    struct tensor_desc s = with_four_dims(t);
    int64_t b = tensor_block(&s);
    for (int64_t n = 0; n < s.dim[0]; n++)
        for (int64_t c = 0; c < s.dim[1]; c++)
            for (int64_t h = 0; h < s.dim[2]; h++)
                for (int64_t w = 0; w < s.dim[3]; w++, plain++) {
                    int64_t at = tensor_at(&s, b, n, c, h, w);
                    if (pack)
                        element_store(&s, mem, at, *plain);
                    else
                        *plain = element_load(&s, mem, at);
                }
}

/* --- planning --- */

static bool type_fits(const struct op_desc *d, enum role role)
{
    enum dtype type = d->t[role].type;
    if (role == ROLE_INDEX || role == ROLE_MASK)
        return type == DTYPE_U8;
    if (role == ROLE_LABEL || role == ROLE_PARTNER)
        return type == DTYPE_I32;
    if (d->kind == OP_NORMALIZE && role == ROLE_X)
        return type == DTYPE_U8;
    if (d->kind == OP_REORDER && !dtype_is_float(d->t[ROLE_X].type))
        return type == d->t[ROLE_X].type;
    return dtype_is_float(type);
}

static enum status check_supported(const struct op_desc *d)
{
    for (int r = 0; r < ROLE_COUNT; r++) {
        const struct tensor_desc *t = &d->t[r];
        if (t->ndim == 0)
            continue;
        if (!type_fits(d, (enum role)r))
            return status_fail(STATUS_UNSUPPORTED, "the reference has no %s for %s of type %s",
                               op_str(d->kind), role_str((enum role)r), dtype_str(t->type));
        if (t->layout == LAYOUT_OPAQUE)
            return status_fail(STATUS_UNSUPPORTED, "the reference cannot read opaque layouts");
    }
    return STATUS_OK;
}

/* The layout that activations get in place of ANY. */
static enum layout layout_led(const struct op_desc *d)
{
    static const enum role leader[] = {ROLE_X, ROLE_DY, ROLE_Y, ROLE_DX};
    if (d->kind == OP_NORMALIZE)
        return LAYOUT_PLAIN;
    for (size_t i = 0; i < sizeof leader / sizeof *leader; i++)
        if (d->t[leader[i]].ndim && d->t[leader[i]].layout != LAYOUT_ANY)
            return d->t[leader[i]].layout;
    return LAYOUT_PLAIN;
}

/* All results are rounded. */
static void resolve(struct op_desc *d)
{
    uint64_t written = op_roles(d->kind).writes;
    enum layout led = layout_led(d);
    for (int r = 0; r < ROLE_COUNT; r++) {
        struct tensor_desc *t = &d->t[r];
        if (t->ndim == 0)
            continue;
        bool weight = r == ROLE_W || r == ROLE_DW;
        if (t->layout == LAYOUT_ANY) {
            t->layout = t->ndim == 4 && !weight ? led : LAYOUT_PLAIN;
            if (t->dim[1] % tensor_block(t) != 0)
                t->layout = LAYOUT_PLAIN;
        }
        t->bytes = (size_t)tensor_count(t) * dtype_size(t->type);
        t->raw = t->raw && !(written >> r & 1);
    }
}

static bool synchronises(const struct op_desc *d)
{
    return op_in(d->kind, OPS_BN_SUMS) && d->attr.bn.sync;
}

static enum status ref_execute(struct op_plan *plan, void *const arg[ROLE_COUNT], struct stream *s)
{
    (void)s;
    const struct ref_plan *p = (const struct ref_plan *)plan;
    const struct op_desc *d = &plan->desc;
    struct ref_args a = {
        .d = d, .state = arg[ROLE_STATE], .metrics = arg[ROLE_METRICS], .scaler = arg[ROLE_SCALER]};
    for (int r = 0; r < ROLE_COUNT; r++) {
        const struct tensor_desc *t = &d->t[r];
        if (t->ndim == 0)
            continue;
        a.t[r] = (double *)arg[ROLE_WORKSPACE] + p->offset[r];
        if (p->roles.reads >> r & 1)
            convert(t, arg[r], a.t[r], false);
        else
            memset(a.t[r], 0, (size_t)tensor_count(t) * sizeof(double));
    }
    if (d->kind == OP_SOFTMAX_XENT)
        TRY(ref_check_labels(&a));
    if (synchronises(d)) {
        a.sync = (double *)arg[ROLE_WORKSPACE] + p->sync;
        TRY(ref_bn_sync(&a));
    }
    p->formula(&a);
    for (int r = 0; r < ROLE_COUNT; r++)
        if (a.t[r] && p->roles.writes >> r & 1)
            convert(&d->t[r], arg[r], a.t[r], true);
    return STATUS_OK;
}

static void ref_plan_free(struct op_plan *plan)
{
    struct ref_plan *p = (struct ref_plan *)plan;
    free(p->segment);
    free(p);
}

static enum status copy_segments(struct ref_plan *p)
{
    struct sgd_attr *sgd = &p->base.desc.attr.sgd;
    size_t bytes = (size_t)sgd->n_segments * sizeof *sgd->segment;
    TRY(array_new(&p->segment, sgd->n_segments));
    memcpy(p->segment, sgd->segment, bytes);
    sgd->segment = p->segment;
    return STATUS_OK;
}

/* Makes a plan of `desc` that executes `formula`. Weights of layout ANY become PLAIN. Activations
 * of layout ANY get the layout of X; if that is ANY too, the layout of DY, Y or DX, in this order.
 * They become PLAIN in three cases: all four are ANY, the layout does not allow the number of
 * channels, or the operation is NORMALIZE.
 *
 * Operations that support fp32 also support fp16 and bf16. Returns STATUS_UNSUPPORTED for other
 * types and for opaque layouts. Every value is rounded as its tensor's description says, both when
 * it is read and when it is written. So inputs may be unrounded, but results are rounded. The
 * workspace contains every tensor as doubles. */
static enum status plan_formula(struct device *dev, const struct op_desc *desc,
                                ref_formula *formula, struct op_plan **plan)
{
    TRY(check_supported(desc));
    TRY(op_plan_new(dev, desc, sizeof(struct ref_plan), "ref", ref_execute, plan));
    struct ref_plan *p = (struct ref_plan *)*plan;
    p->base.free = ref_plan_free;
    p->formula = formula;
    p->roles = op_roles(desc->kind);
    resolve(&p->base.desc);
    size_t doubles = 0;
    for (int r = 0; r < ROLE_COUNT; r++) {
        p->offset[r] = doubles;
        doubles += (size_t)tensor_count(&desc->t[r]);
    }
    p->sync = doubles;
    if (synchronises(desc))
        doubles += 2 * (size_t)ref_bn_channels(desc) + 1;
    p->base.workspace = doubles * sizeof(double);
    enum status st = op_in(desc->kind, OPS_SGD) ? copy_segments(p) : STATUS_OK;
    if (st != STATUS_OK) {
        ref_plan_free(*plan);
        *plan = NULL;
    }
    return st;
}

/* --- the backend --- */

static enum status ref_open(const struct backend *b, int index, int threads, struct device **dev)
{
    (void)threads; /* always one thread, because formulas are plain loops */
    *dev = NULL;
    struct device *d;
    TRY(array_new(&d, 1));
    *d = (struct device){.backend = b, .index = index, .threads = 1};
    *dev = d;
    return STATUS_OK;
}

static void ref_close(struct device *dev)
{
    free(dev);
}

static void ref_describe(struct device *dev, char *out, size_t size)
{
    (void)dev;
    char cpu[128];
    host_cpu_name(cpu, sizeof cpu);
    snprintf(out, size, "%s, plain C reference, 1 thread", cpu);
}

/* 16-bit types are supported, but save no time, since the arithmetic is in double. */
static bool ref_native(struct device *dev, enum dtype type)
{
    (void)dev;
    return type == DTYPE_F32;
}

static enum status ref_plan(struct device *dev, const struct op_desc *desc, struct op_plan **plan)
{
    static ref_formula *const formula[OP_KIND_COUNT] = {
        [OP_CONV_FWD] = ref_conv_fwd,
        [OP_CONV_BWD_DATA] = ref_conv_bwd_data,
        [OP_CONV_BWD_WEIGHTS] = ref_conv_bwd_weights,
        [OP_BN_FWD_TRAIN] = ref_bn_fwd,
        [OP_BN_FWD_EVAL] = ref_bn_fwd,
        [OP_BN_BWD] = ref_bn_bwd,
        [OP_CONV_STATS_FWD] = ref_conv_stats_fwd,
        [OP_CONV_APPLY_BWD_WEIGHTS] = ref_conv_apply_bwd_weights,
        [OP_BN_FINALIZE] = ref_bn_finalize,
        [OP_BN_APPLY] = ref_bn_fwd,
        [OP_CONV_BWD_DATA_BN] = ref_conv_bwd_data_bn,
        [OP_BN_BWD_APPLY] = ref_bn_bwd_apply,
        [OP_BN_STATISTICS] = ref_bn_fwd,
        [OP_BN_POOL_FWD] = ref_bn_pool_fwd,
        [OP_BN_POOL_BWD] = ref_bn_pool_bwd,
        [OP_RELU_FWD] = ref_relu_fwd,
        [OP_RELU_BWD] = ref_relu_bwd,
        [OP_ADD] = ref_add,
        [OP_ADD_STRIDED] = ref_add_strided,
        [OP_MAXPOOL_FWD] = ref_maxpool_fwd,
        [OP_MAXPOOL_BWD] = ref_maxpool_bwd,
        [OP_AVGPOOL_FWD] = ref_avgpool,
        [OP_AVGPOOL_BWD] = ref_avgpool,
        [OP_LINEAR_FWD] = ref_linear_fwd,
        [OP_LINEAR_BWD_DATA] = ref_linear_bwd_data,
        [OP_LINEAR_BWD_WEIGHTS] = ref_linear_bwd_weights,
        [OP_DROPOUT_FWD] = ref_dropout,
        [OP_DROPOUT_BWD] = ref_dropout,
        [OP_SOFTMAX_XENT] = ref_softmax_xent,
        [OP_SGD] = ref_sgd,
        [OP_CHECK_FINITE] = ref_check_finite,
        [OP_SCALE_SET] = ref_scale_set,
        [OP_SCALE_UPDATE] = ref_scale_update,
        [OP_ROUND] = ref_copy,
        [OP_NORMALIZE] = ref_normalize,
        [OP_REORDER] = ref_copy,
    };
    return plan_formula(dev, desc, formula[desc->kind], plan);
}

enum {
    FLOATS = 1u << DTYPE_F32 | 1u << DTYPE_F16 | 1u << DTYPE_BF16,
    U8 = 1u << DTYPE_U8,
    I32 = 1u << DTYPE_I32,
    ALL_LAYOUTS = 1u << LAYOUT_ANY | 1u << LAYOUT_PLAIN | 1u << LAYOUT_NHWC | 1u << LAYOUT_NCHW8C |
                  1u << LAYOUT_NCHW16C,
};

static const struct op_record records[] = {
    {~(OP_SET(NORMALIZE) | OP_SET(REORDER)), FLOATS, ALL_LAYOUTS, ref_plan},
    {OP_SET(NORMALIZE), U8, ALL_LAYOUTS, ref_plan},
    {OP_SET(REORDER), FLOATS | U8 | I32, ALL_LAYOUTS, ref_plan},
};

const struct backend backend_ref = {
    .name = "ref",
    .native = ref_native,
    .n_records = sizeof records / sizeof *records,
    .record = records,
    .open = ref_open,
    .close = ref_close,
    .describe = ref_describe,
    HOST_BACKEND_MEMBERS,
};
