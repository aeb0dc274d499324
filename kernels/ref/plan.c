/* Plans of the reference. They resolve layouts, unpack tensors to doubles and pack results. Each
 * element is rounded to its tensor's `rounds` when unpacked and when packed. */
#include "kernels/ref/plan.h"

#include "base/array.h"

#include <stdlib.h>
#include <string.h>

struct ref_plan {
    struct op_plan base;
    void (*formula)(const struct ref_args *);
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

static void unpack(const struct tensor_desc *t, const void *mem, double *plain)
{
    struct tensor_desc s = with_four_dims(t);
    int64_t b = tensor_block(&s);
    for (int64_t n = 0; n < s.dim[0]; n++)
        for (int64_t c = 0; c < s.dim[1]; c++)
            for (int64_t h = 0; h < s.dim[2]; h++)
                for (int64_t w = 0; w < s.dim[3]; w++)
                    *plain++ = element_load(&s, mem, tensor_at(&s, b, n, c, h, w));
}

static void pack(const struct tensor_desc *t, const double *plain, void *mem)
{
    struct tensor_desc s = with_four_dims(t);
    int64_t b = tensor_block(&s);
    for (int64_t n = 0; n < s.dim[0]; n++)
        for (int64_t c = 0; c < s.dim[1]; c++)
            for (int64_t h = 0; h < s.dim[2]; h++)
                for (int64_t w = 0; w < s.dim[3]; w++)
                    element_store(&s, mem, tensor_at(&s, b, n, c, h, w), *plain++);
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
            unpack(t, arg[r], a.t[r]);
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
            pack(&d->t[r], a.t[r], arg[r]);
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

enum status ref_plan_formula(struct device *dev, const struct op_desc *desc,
                             void (*formula)(const struct ref_args *), struct op_plan **plan)
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
