/* Convolution, linear and reorder through oneDNN.
 *
 * Layouts. A tensor of layout ANY gets the library's preferred layout. A tensor with a given layout
 * keeps that layout if the library is fast with it; if not, the plan reorders the tensor in its
 * workspace. Weights are nearly always ANY in the forward pass. The parameters themselves, which
 * the optimizer updates, are then stored in the library's blocked order. Only the backward-data
 * pass prefers another order, and reorders the weights.
 *
 * With AVX2 alone the library's general matrix product allocates buffers in each call. So a linear
 * layer is a 1x1 convolution of an image with a row of N pixels: in NHWC that is the memory of
 * (N, C). */
#include "kernels/cpu/onednn_plan.h"

#include <stdio.h>
#include <string.h>

enum slot { SLOT_SRC, SLOT_WEIGHTS, SLOT_BIAS, SLOT_DST, SLOT_COUNT };

/* The role of each tensor in each pass, and the library's names for the tensor. */
struct slot_use {
    enum role role[3]; /* by enum pass */
    int arg[3];
    dnnl_query_t query[3];
    enum pass written_by;
};

static const struct slot_use slot_use[SLOT_COUNT] = {
    [SLOT_SRC] = {{ROLE_X, ROLE_DX, ROLE_X},
                  {DNNL_ARG_SRC, DNNL_ARG_DIFF_SRC, DNNL_ARG_SRC},
                  {dnnl_query_src_md, dnnl_query_diff_src_md, dnnl_query_src_md},
                  PASS_BACKWARD_DATA},
    [SLOT_WEIGHTS] = {{ROLE_W, ROLE_W, ROLE_DW},
                      {DNNL_ARG_WEIGHTS, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_WEIGHTS},
                      {dnnl_query_weights_md, dnnl_query_weights_md, dnnl_query_diff_weights_md},
                      PASS_BACKWARD_WEIGHTS},
    [SLOT_BIAS] = {{ROLE_B, ROLE_B, ROLE_DB},
                   {DNNL_ARG_BIAS, DNNL_ARG_BIAS, DNNL_ARG_DIFF_BIAS},
                   {dnnl_query_undef, dnnl_query_undef, dnnl_query_undef},
                   PASS_BACKWARD_WEIGHTS},
    [SLOT_DST] = {{ROLE_Y, ROLE_DY, ROLE_DY},
                  {DNNL_ARG_DST, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_DST},
                  {dnnl_query_dst_md, dnnl_query_diff_dst_md, dnnl_query_diff_dst_md},
                  PASS_FORWARD},
};

/* The state of the planning of one operation. */
struct planning {
    struct onednn_engine *e;
    const struct op_desc *desc;
    struct gemm_like g;
    int groups;
    bool as_conv;                 /* a linear layer as a convolution */
    struct md given[SLOT_COUNT];  /* as in `desc`; LAYOUT_ANY becomes oneDNN's `any` */
    struct md wanted[SLOT_COUNT]; /* as chosen by the library */
    dnnl_primitive_desc_t pd;
};

static enum role slot_role(const struct planning *p, enum slot s)
{
    return slot_use[s].role[p->g.pass];
}

/* The tensor as the primitive sees it. */
static struct tensor_desc slot_tensor(const struct planning *p, enum slot s)
{
    struct tensor_desc t = p->desc->t[slot_role(p, s)];
    if (!p->as_conv || s == SLOT_BIAS)
        return t;
    if (s != SLOT_WEIGHTS)
        return tensor_4d(t.type, LAYOUT_NHWC, 1, t.dim[1], 1, t.dim[0]);
    t.ndim = 4;
    t.dim[2] = t.dim[3] = 1;
    return t;
}

static bool slot_present(const struct planning *p, enum slot s)
{
    return p->desc->t[slot_role(p, s)].ndim != 0 &&
           !(s == SLOT_BIAS && p->g.pass == PASS_BACKWARD_DATA);
}

static int slot_groups(const struct planning *p, enum slot s)
{
    return s == SLOT_WEIGHTS ? p->groups : 1;
}

static enum status describe_given(struct planning *p)
{
    for (int s = 0; s < SLOT_COUNT; s++) {
        if (!slot_present(p, s))
            continue;
        struct tensor_desc t = slot_tensor(p, s);
        TRY(md_from_tensor(p->e, &t, slot_groups(p, s), &p->given[s]));
    }
    return STATUS_OK;
}

/* Makes the primitive descriptor. With `given`, activations have the given layouts, and
 * plain weights of a linear layer's gradients stay plain: of large ones that it pads, oneDNN 2.6's
 * reorder to plain omits rows. Otherwise activations have `layout`. The library chooses what is
 * ANY, and other weights. */
static enum status try_layouts(struct planning *p, bool given, enum layout layout,
                               dnnl_primitive_desc_t *pd)
{
    enum status st = STATUS_OK;
    struct md free_md[SLOT_COUNT];
    memset(free_md, 0, sizeof free_md);
    const struct md *use[SLOT_COUNT];
    for (int s = 0; s < SLOT_COUNT; s++) {
        use[s] = &p->given[s];
        struct tensor_desc t = slot_tensor(p, s);
        bool kept = s != SLOT_WEIGHTS ||
                    (!p->g.is_conv && p->g.pass != PASS_FORWARD && t.layout == LAYOUT_PLAIN);
        if (!p->given[s].present || s == SLOT_BIAS || (given && kept))
            continue;
        t.layout = s == SLOT_WEIGHTS ? LAYOUT_ANY : layout;
        CHECK(md_from_tensor(p->e, &t, slot_groups(p, s), &free_md[s]));
        use[s] = &free_md[s];
    }
    p->g.src = use[SLOT_SRC];
    p->g.weights = use[SLOT_WEIGHTS];
    p->g.bias = use[SLOT_BIAS];
    p->g.dst = use[SLOT_DST];
    CHECK(pd_make(pd, p->e->engine, &p->g));
done:
    for (int s = 0; s < SLOT_COUNT; s++)
        md_free(&free_md[s]);
    return st;
}

bool onednn_is_fast(const_dnnl_primitive_desc_t pd)
{
    const char *name = NULL;
    if (dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, (void *)&name) != dnnl_success)
        return false;
    return strncmp(name, "ref", 3) != 0 && strncmp(name, "gemm", 4) != 0 &&
           strncmp(name, "simple", 6) != 0 &&
           (onednn_vector_bits() != 256 || !strstr(name, "gemm:jit"));
}

/* Whether the library is known to compute wrong values: oneDNN 2.6's bf16 kernel for the data
 * gradient of a 1x1 convolution in NHWC multiplies pairs of output channels, and takes the last
 * channel of an odd number together with the next pixel's first. */
static bool is_wrong(const struct planning *p, const_dnnl_primitive_desc_t pd)
{
    const char *name = NULL;
    const struct tensor_desc *dy = &p->desc->t[slot_role(p, SLOT_DST)];
    return p->g.pass == PASS_BACKWARD_DATA && dy->dim[1] % 2 != 0 &&
           dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, (void *)&name) ==
               dnnl_success &&
           strncmp(name, "jit_bf16_1x1", 12) == 0;
}

/* Keeps the layouts of the activations if the library is fast with them, else uses the library's
 * choice with reorders. With AVX2 alone, a convolution that has no other implementation than the
 * general matrix product (11x11) is in NHWC, where that allocates nothing for up to 64 channels. */
static enum status choose_layouts(struct planning *p)
{
    const int choices = p->g.is_conv && onednn_vector_bits() == 256 ? 3 : 2;
    enum status st = STATUS_OK;
    bool fast = false;
    for (int i = 0; i < choices && !fast; i++) {
        dnnl_primitive_desc_t pd = NULL;
        st = try_layouts(p, i == 0, i < 2 ? LAYOUT_ANY : LAYOUT_NHWC, &pd);
        if (st != STATUS_OK && st != STATUS_UNSUPPORTED)
            return st;
        bool usable = st == STATUS_OK && !(i == 0 && is_wrong(p, pd));
        fast = usable && onednn_is_fast(pd);
        bool better = usable && (fast || !p->pd || i == 2);
        dnnl_primitive_desc_destroy(better ? p->pd : pd); /* may be NULL */
        p->pd = better ? pd : p->pd;
    }
    return p->pd ? STATUS_OK : st;
}

/* If the library chose an opaque layout for an activation of layout ANY, gives the activation a
 * layout that the other kernels support. The plan then reorders it. */
static enum status give_known_layout(struct planning *p, enum slot s, struct tensor_desc *t)
{
    t->layout = t->dim[1] % 16 == 0  ? LAYOUT_NCHW16C
                : t->dim[1] % 8 == 0 ? LAYOUT_NCHW8C
                                     : LAYOUT_PLAIN;
    TRY(md_from_tensor(p->e, t, slot_groups(p, s), &p->given[s]));
    t->bytes = md_bytes(&p->given[s]);
    return STATUS_OK;
}

/* Fills in the layouts that were ANY, and binds each tensor. */
static enum status bind_all(struct planning *p, struct onednn_plan *plan)
{
    for (int s = 0; s < SLOT_COUNT; s++) {
        if (!slot_present(p, s))
            continue;
        const struct slot_use *u = &slot_use[s];
        enum pass pass = p->g.pass;
        struct tensor_desc *t = &plan->base.desc.t[slot_role(p, s)];
        if (s == SLOT_BIAS)
            TRY(md_copy(&p->wanted[s], &p->given[s]));
        else
            TRY(md_query(&p->wanted[s], p->pd, u->query[pass]));
        bool was_free = t->layout == LAYOUT_ANY;
        t->raw = t->rounds != DTYPE_F32 && u->written_by == pass;
        if (was_free)
            TRY(md_copy(&p->given[s], &p->wanted[s]));
        t->bytes = md_bytes(&p->given[s]);
        if (!p->as_conv)
            TRY(md_to_tensor(p->e, &p->given[s], slot_groups(p, s), t));
        if (was_free && s != SLOT_WEIGHTS && t->layout == LAYOUT_OPAQUE && t->ndim == 4)
            TRY(give_known_layout(p, s, t));
        TRY(onednn_plan_bind(plan, u->arg[pass], slot_role(p, s), u->written_by == pass,
                             &p->given[s], &p->wanted[s]));
    }
    return STATUS_OK;
}

/* Refuses unrounded inputs: a kernel would have to round them when it loads them, but the library's
 * kernels cannot do that. */
static enum status check_rounding(const struct planning *p)
{
    for (int s = 0; s < SLOT_COUNT; s++)
        if (slot_use[s].written_by != p->g.pass && p->desc->t[slot_role(p, (enum slot)s)].raw)
            return status_fail(STATUS_UNSUPPORTED, "oneDNN cannot round its inputs");
    return STATUS_OK;
}

static enum status plan_gemm_like(struct device *dev, struct planning *p, struct op_plan **out)
{
    enum status st;
    struct onednn_plan *plan = NULL;
    p->e = onednn_engine_of(dev);
    CHECK(check_rounding(p));
    CHECK(onednn_plan_new(dev, p->desc, &plan));
    CHECK(describe_given(p));
    CHECK(choose_layouts(p));
    CHECK(bind_all(p, plan));
    CHECK(onednn_plan_finish(plan, p->pd));
    *out = &plan->base;
    plan = NULL;
done:
    if (p->pd)
        dnnl_primitive_desc_destroy(p->pd);
    for (int s = 0; s < SLOT_COUNT; s++) {
        md_free(&p->given[s]);
        md_free(&p->wanted[s]);
    }
    if (plan)
        op_plan_free(&plan->base);
    return st;
}

/* The three op_kinds of convolution are in the order of enum pass; so are the three of linear. */
enum status onednn_plan_conv(struct device *dev, const struct op_desc *desc, struct op_plan **plan)
{
    const struct conv_attr *a = &desc->attr.conv;
    struct planning p = {.desc = desc, .groups = a->groups};
    p.g = (struct gemm_like){.pass = (enum pass)(desc->kind - OP_CONV_FWD),
                             .relu = a->relu,
                             .is_conv = true,
                             .stride = {a->stride[0], a->stride[1]},
                             .pad = {a->pad[0], a->pad[1]}};
    return plan_gemm_like(dev, &p, plan);
}

/* Describes a linear layer as a convolution, and the layouts that its tensors then have. */
static enum status view_as_conv(struct onednn_engine *e, struct op_desc *d, struct planning *p)
{
    struct md m = {0};
    struct tensor_desc *w = &d->t[slot_role(p, SLOT_WEIGHTS)], blocked = *w;
    const dnnl_dims_t dims = {w->dim[0], w->dim[1], 1, 1};
    enum status st = md_make(&m, 4, dims, dnnl_f32, dnnl_OIhw8i8o);
    st = st == STATUS_OK ? md_to_tensor(e, &m, 1, &blocked) : st;
    md_free(&m);
    TRY(st);
    if (w->layout == LAYOUT_ANY)
        *w = blocked;
    for (struct tensor_desc *t = d->t; t < d->t + ROLE_COUNT; t++) {
        t->layout = t->layout == LAYOUT_ANY ? LAYOUT_PLAIN : t->layout;
        bool known = t->layout == LAYOUT_PLAIN || (t == w && t->opaque == blocked.opaque);
        if (t->ndim != 0 && (t->type != DTYPE_F32 || !known))
            return STATUS_UNSUPPORTED;
    }
    p->desc = d;
    p->as_conv = true;
    p->g.is_conv = true;
    p->g.stride[0] = p->g.stride[1] = 1;
    return STATUS_OK;
}

enum status onednn_plan_linear(struct device *dev, const struct op_desc *desc,
                               struct op_plan **plan)
{
    struct planning p = {.desc = desc, .groups = 1};
    p.g = (struct gemm_like){.pass = (enum pass)(desc->kind - OP_LINEAR_FWD),
                             .relu = desc->attr.linear.relu};
    struct planning conv = p;
    struct op_desc d = *desc;
    if (onednn_vector_bits() == 256 && view_as_conv(onednn_engine_of(dev), &d, &conv) == STATUS_OK)
        return plan_gemm_like(dev, &conv, plan);
    d = *desc;
    p.desc = &d;
    struct tensor_desc *w = &d.t[slot_role(&p, SLOT_WEIGHTS)];
    if (p.g.pass != PASS_FORWARD && w->layout == LAYOUT_ANY && w->type == DTYPE_F32)
        w->layout = LAYOUT_PLAIN;
    return plan_gemm_like(dev, &p, plan);
}

enum status onednn_plan_reorder(struct device *dev, const struct op_desc *desc,
                                struct op_plan **out)
{
    enum status st;
    struct onednn_engine *e = onednn_engine_of(dev);
    struct op_desc d = *desc;
    struct tensor_desc *x = &d.t[ROLE_X], *y = &d.t[ROLE_Y];
    struct md from, to;
    memset(&from, 0, sizeof from);
    memset(&to, 0, sizeof to);
    struct onednn_plan *plan = NULL;
    dnnl_primitive_desc_t pd = NULL;
    if (y->layout == LAYOUT_ANY) {
        y->layout = x->layout;
        y->opaque = x->opaque;
    }
    CHECK(md_from_tensor(e, x, 1, &from));
    CHECK(md_from_tensor(e, y, 1, &to));
    if (x->layout == LAYOUT_OPAQUE && y->layout == LAYOUT_PLAIN)
        CHECK(md_plain_like(&from, y->type, &to));
    else if (y->layout == LAYOUT_OPAQUE && x->layout == LAYOUT_PLAIN)
        CHECK(md_plain_like(&to, x->type, &from));
    y->raw = x->raw;
    x->bytes = md_bytes(&from);
    y->bytes = md_bytes(&to);
    CHECK(onednn_plan_new(dev, &d, &plan));
    CHECK(pd_make_reorder(&pd, e->engine, &from, &to));
    CHECK(onednn_plan_bind(plan, DNNL_ARG_FROM, ROLE_X, false, &from, &from));
    CHECK(onednn_plan_bind(plan, DNNL_ARG_TO, ROLE_Y, true, &to, &to));
    CHECK(onednn_plan_finish(plan, pd));
    *out = &plan->base;
    plan = NULL;
done:
    if (pd)
        dnnl_primitive_desc_destroy(pd);
    md_free(&from);
    md_free(&to);
    if (plan)
        op_plan_free(&plan->base);
    return st;
}
