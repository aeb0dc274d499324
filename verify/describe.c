/* Functions that make operation descriptions. */
#include "verify/describe.h"

static struct tensor_desc retyped(struct tensor_desc t, enum dtype type)
{
    t.type = type;
    t.bytes = (size_t)tensor_count(&t) * dtype_size(type);
    return t;
}

struct op_desc describe(enum op_kind kind, struct tensor_desc x, struct tensor_desc w,
                        struct tensor_desc y, uint64_t with)
{
    struct tensor_desc bias = tensor_1d(DTYPE_F32, w.dim[0]);
    struct tensor_desc of_x = tensor_1d(DTYPE_F32, x.dim[1]);
    int64_t rows = x.dim[0] * x.dim[2] * x.dim[3];
    struct tensor_desc shape[ROLE_COUNT] = {
        [ROLE_X] = x,
        [ROLE_DX] = x,
        [ROLE_Z] = x,
        [ROLE_DZ] = x,
        [ROLE_Y] = y,
        [ROLE_DY] = y,
        [ROLE_DY2] = y,
        [ROLE_W] = w,
        [ROLE_DW] = w,
        [ROLE_DW_HALF] = w,
        [ROLE_MOMENTUM] = w,
        [ROLE_MEAN] = w,
        [ROLE_INVSTD] = w,
        [ROLE_RMEAN] = w,
        [ROLE_RVAR] = w,
        [ROLE_B] = bias,
        [ROLE_DB] = bias,
        [ROLE_INDEX] = retyped(y, DTYPE_U8),
        [ROLE_MASK] = tensor_2d(DTYPE_U8, rows, (x.dim[1] + 7) / 8),
        [ROLE_SUMS] = tensor_1d(DTYPE_F32, 2 * w.dim[0]),
        [ROLE_AFFINE] = tensor_1d(DTYPE_F32, 2 * x.dim[1]),
        [ROLE_EQ] = tensor_1d(DTYPE_F32, 3 * x.dim[1]),
        [ROLE_BN_GAMMA] = of_x,
        [ROLE_BN_BETA] = of_x,
        [ROLE_Z_AFFINE] = tensor_1d(DTYPE_F32, 2 * x.dim[1]),
        [ROLE_Z_GAMMA] = of_x,
        [ROLE_Z_BETA] = of_x,
        [ROLE_Z_MEAN] = of_x,
        [ROLE_Z_INVSTD] = of_x,
        [ROLE_Z_DGAMMA] = of_x,
        [ROLE_Z_DBETA] = of_x,
        [ROLE_Z_EQ] = tensor_1d(DTYPE_F32, 3 * x.dim[1]),
        [ROLE_APPLIED] = x,
        [ROLE_LABEL] = tensor_1d(DTYPE_I32, x.dim[0]),
        [ROLE_PARTNER] = tensor_1d(DTYPE_I32, x.dim[0]),
    };
    if (kind == OP_CONV_BWD_DATA_BN) {
        shape[ROLE_DY2] = x;
        shape[ROLE_MEAN] = shape[ROLE_INVSTD] = shape[ROLE_DGAMMA] = shape[ROLE_DBETA] = of_x;
    }
    struct op_roles roles = op_roles(kind);
    uint64_t present = ((roles.reads | roles.writes) & ~roles.optional) | with;
    struct op_desc d = {.kind = kind};
    for (int r = 0; r < ROLE_COUNT; r++)
        if (present >> r & 1)
            d.t[r] = shape[r];
    return d;
}

struct op_desc describe_conv(enum op_kind kind, const struct conv_shape *s, uint64_t with)
{
    int64_t oh = (s->h + 2 * s->pad[0] - s->kernel[0]) / s->stride[0] + 1;
    int64_t ow = (s->w + 2 * s->pad[1] - s->kernel[1]) / s->stride[1] + 1;
    struct op_desc d = describe(kind, plain_4d(s->n, s->c, s->h, s->w),
                                plain_4d(s->o, s->c / s->groups, s->kernel[0], s->kernel[1]),
                                plain_4d(s->n, s->o, oh, ow), with);
    d.attr.conv = (struct conv_attr){
        .stride = {s->stride[0], s->stride[1]}, .pad = {s->pad[0], s->pad[1]}, .groups = s->groups};
    return d;
}

struct op_desc describe_bn(enum op_kind kind, int n, int c, int h, int w, bool relu, uint64_t with)
{
    struct tensor_desc x = plain_4d(n, c, h, w);
    bool y = relu && kind == OP_BN_BWD && !(with & WITH(MASK));
    struct op_desc d = describe(kind, x, tensor_1d(DTYPE_F32, c), x, y ? with | WITH(Y) : with);
    d.attr.bn =
        (struct bn_attr){.eps = 1e-5f, .momentum = 0.1f, .relu = relu, .count = (int64_t)n * h * w};
    return d;
}

struct op_desc describe_bn_pool(enum op_kind kind, int n, int c, int h, int w,
                                const struct pool_attr *attr, uint64_t with)
{
    int64_t oh = (h + 2 * attr->pad[0] - attr->kernel[0]) / attr->stride[0] + 1;
    int64_t ow = (w + 2 * attr->pad[1] - attr->kernel[1]) / attr->stride[1] + 1;
    struct op_desc d =
        describe(kind, plain_4d(n, c, h, w), tensor_1d(DTYPE_F32, c), plain_4d(n, c, oh, ow), with);
    d.attr.bn = (struct bn_attr){.eps = 1e-5f, .momentum = 0.1f, .pool = *attr};
    return d;
}

struct op_desc describe_maxpool(enum op_kind kind, int n, int c, int h, int w,
                                const struct pool_attr *attr, uint64_t with)
{
    int64_t oh = (h + 2 * attr->pad[0] - attr->kernel[0]) / attr->stride[0] + 1;
    int64_t ow = (w + 2 * attr->pad[1] - attr->kernel[1]) / attr->stride[1] + 1;
    struct op_desc d =
        describe(kind, plain_4d(n, c, h, w), (struct tensor_desc){0}, plain_4d(n, c, oh, ow), with);
    d.attr.pool = *attr;
    return d;
}

struct op_desc describe_add_strided(int n, int c, int h, int w, const struct grid_attr *attr)
{
    int64_t rows = (h + attr->stride[0] - 1) / attr->stride[0];
    int64_t columns = (w + attr->stride[1] - 1) / attr->stride[1];
    struct op_desc d = describe(OP_ADD_STRIDED, plain_4d(n, c, rows, columns),
                                (struct tensor_desc){0}, plain_4d(n, c, h, w), 0);
    d.attr.grid = *attr;
    return d;
}

struct op_desc describe_avgpool(enum op_kind kind, int n, int c, int h, int w, int oh, int ow)
{
    return describe(kind, plain_4d(n, c, h, w), (struct tensor_desc){0}, plain_4d(n, c, oh, ow), 0);
}

struct op_desc describe_linear(enum op_kind kind, int n, int in, int out, uint64_t with)
{
    return describe(kind, tensor_2d(DTYPE_F32, n, in), tensor_2d(DTYPE_F32, out, in),
                    tensor_2d(DTYPE_F32, n, out), with);
}

struct op_desc describe_like(enum op_kind kind, struct tensor_desc t, uint64_t with)
{
    return describe(kind, t, (struct tensor_desc){0}, t, with);
}

struct op_desc describe_xent(int n, int classes, float smoothing, uint64_t with)
{
    struct tensor_desc x = tensor_2d(DTYPE_F32, n, classes);
    struct op_desc d = describe(OP_SOFTMAX_XENT, x, (struct tensor_desc){0}, x, with);
    d.attr.xent.label_smoothing = smoothing;
    return d;
}

struct op_desc describe_sgd(int64_t n, const struct sgd_attr *attr)
{
    struct tensor_desc w = tensor_1d(DTYPE_F32, n), none = {0};
    struct op_desc d = describe(OP_SGD, none, w, none, 0);
    d.attr.sgd = *attr;
    return d;
}

struct op_desc describe_check_finite(int64_t n, int n_segments, const struct sgd_segment *segment)
{
    struct tensor_desc w = tensor_1d(DTYPE_F32, n), none = {0};
    struct op_desc d = describe(OP_CHECK_FINITE, none, w, none, 0);
    d.attr.sgd = (struct sgd_attr){.n_segments = n_segments, .segment = segment};
    return d;
}

struct op_desc describe_normalize(int n, int h, int w, uint64_t with)
{
    struct tensor_desc x = plain_4d(n, 3, h, w), none = {0};
    struct op_desc d = describe(OP_NORMALIZE, x, none, x, with);
    d.t[ROLE_X] = retyped(in_layout(x, LAYOUT_NHWC), DTYPE_U8);
    d.attr.normalize =
        (struct normalize_attr){.mean = {0.485f, 0.456f, 0.406f}, .std = {0.229f, 0.224f, 0.225f}};
    return d;
}

struct tensor_desc plain_4d(int64_t n, int64_t c, int64_t h, int64_t w)
{
    return tensor_4d(DTYPE_F32, LAYOUT_PLAIN, n, c, h, w);
}

struct tensor_desc in_layout(struct tensor_desc t, enum layout layout)
{
    t.layout = layout;
    t.bytes = layout == LAYOUT_ANY ? 0 : (size_t)tensor_count(&t) * dtype_size(t.type);
    return t;
}

bool layout_fits(const struct tensor_desc *t, enum layout layout)
{
    struct tensor_desc s = in_layout(*t, layout);
    return layout == LAYOUT_ANY || layout == LAYOUT_PLAIN ||
           (t->ndim == 4 && t->dim[1] % tensor_block(&s) == 0);
}

bool is_fused(const struct op_desc *d)
{
    return (d->kind >= OP_CONV_STATS_FWD && d->kind <= OP_BN_POOL_BWD) || d->t[ROLE_MASK].ndim ||
           d->t[ROLE_Z_AFFINE].ndim || d->t[ROLE_Z_GAMMA].ndim;
}

struct op_desc plain_form(const struct op_desc *d)
{
    struct op_desc plain = *d;
    for (int r = 0; r < ROLE_COUNT; r++) {
        bool pixels = d->kind == OP_NORMALIZE && r == ROLE_X; /* NHWC by contract */
        if (plain.t[r].ndim && !pixels)
            plain.t[r] = in_layout(plain.t[r], LAYOUT_PLAIN);
    }
    return plain;
}

struct op_desc fused_of_type(struct op_desc d, enum dtype type)
{
    const uint64_t activations = (d.kind == OP_CONV_STATS_FWD ? WITH(Z_AFFINE) : 0) |
                                 WITH(APPLIED) | WITH(AFFINE) | WITH(X) | WITH(Y) | WITH(Z) |
                                 WITH(DX) | WITH(DY) | WITH(DY2) | WITH(DZ);
    for (int r = 0; r < ROLE_COUNT; r++) {
        struct tensor_desc *t = &d.t[r];
        bool weights = (r == ROLE_W || r == ROLE_DW) && t->ndim == 4;
        if (r == ROLE_DW && weights)
            t->rounds = type;
        else if (activations >> r & 1 || weights)
            t->type = type;
        if (t->ndim)
            *t = in_layout(*t, t->ndim == 4 ? LAYOUT_NHWC : t->layout);
    }
    return d;
}
