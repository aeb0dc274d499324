/* The kernels of each operation, in one table: a row is a launch, with the tensors that it reads
 * and writes. tests/kernels/cuda/test_traffic.c executes operations and compares the launches with
 * the table. Add a row here for a new operation, and for a new launch in an operation. */
#include "kernels/cuda/traffic.h"

#include "kernels/cuda/conv_problem.h"
#include "kernels/cuda/plan.h"

#include <stdio.h>

/* Sets of tensors. A row may name tensors that a description lacks; they have no bytes. */
#define R(role) (UINT64_C(1) << ROLE_##role)
/* The activation or the weights as the library gets them: the operation's own copy in the workspace
 * if it makes one, else the tensor itself. */
enum { COPIED_IMAGE = ROLE_COUNT, COPIED_WEIGHTS };
#define IMAGE      (UINT64_C(1) << COPIED_IMAGE)
#define WEIGHTS    (UINT64_C(1) << COPIED_WEIGHTS)
#define STATISTICS (R(MEAN) | R(INVSTD) | R(RMEAN) | R(RVAR))
#define GRADIENTS  (R(DW) | R(DW_HALF))
#define PARAMETERS (R(GAMMA) | R(BETA) | R(MEAN) | R(INVSTD))

typedef bool condition(const struct op_plan *plan);

/* --- conditions of rows --- */

static bool copies_image(const struct op_plan *p)
{
    return cuda_conv_copies(p).image > 0;
}

static bool pads_weights(const struct op_plan *p)
{
    return cuda_conv_copies(p).rest & CONV_REST_PAD;
}

static bool casts_weights(const struct op_plan *p)
{
    return p->desc.t[ROLE_DW].type != p->desc.t[ROLE_X].type && !pads_weights(p);
}

static bool casts_bias(const struct op_plan *p)
{
    return cuda_conv_copies(p).bias;
}

static bool adds_bias(const struct op_plan *p)
{
    return cuda_conv_copies(p).rest & CONV_REST_BIAS;
}

static bool adds_relu(const struct op_plan *p)
{
    return (cuda_conv_copies(p).rest & (CONV_REST_BIAS | CONV_REST_RELU)) == CONV_REST_RELU;
}

static bool sums_bias(const struct op_plan *p)
{
    return p->desc.t[ROLE_DB].ndim;
}

static bool sums_ranks(const struct op_plan *p)
{
    return p->desc.attr.bn.sync;
}

static bool masked(const struct op_plan *p)
{
    return p->desc.attr.bn.relu && p->desc.t[ROLE_MASK].ndim;
}

/* Whether the plan has a second batch norm: that of the residual. */
static bool two(const struct op_plan *p)
{
    return p->desc.t[ROLE_Z_GAMMA].ndim || p->desc.t[ROLE_Z_EQ].ndim;
}

static bool one(const struct op_plan *p)
{
    return !two(p);
}

static bool one_masked(const struct op_plan *p)
{
    return one(p) && masked(p);
}

static bool one_unmasked(const struct op_plan *p)
{
    return one(p) && !masked(p);
}

static bool two_masked(const struct op_plan *p)
{
    return two(p) && masked(p);
}

static bool two_unmasked(const struct op_plan *p)
{
    return two(p) && !masked(p);
}

static bool keeps_dz(const struct op_plan *p)
{
    return one(p) && p->desc.t[ROLE_DZ].ndim;
}

static bool masked_again(const struct op_plan *p)
{
    return one_masked(p) && !keeps_dz(p);
}

static bool unmasked_again(const struct op_plan *p)
{
    return one_unmasked(p) && !keeps_dz(p);
}

/* Whether the plan of a pooling, normalize or reorder operation copies the activation to its
 * workspace. */
static bool copies(const struct op_plan *p)
{
    return p->workspace > 0;
}

static bool same_order(const struct op_plan *p)
{
    const struct tensor_desc *x = &p->desc.t[ROLE_X], *y = &p->desc.t[ROLE_Y];
    return cuda_lies(y, x->layout) && (x->ndim != 4 || cuda_channels(x) == cuda_channels(y));
}

static bool reorder_casts(const struct op_plan *p)
{
    return same_order(p) && p->desc.t[ROLE_X].type != p->desc.t[ROLE_Y].type;
}

static bool from_plain(const struct op_plan *p)
{
    return p->desc.t[ROLE_X].layout == LAYOUT_PLAIN;
}

static bool reorder_transposes(const struct op_plan *p)
{
    return !same_order(p) && !copies(p) &&
           (from_plain(p) || p->desc.t[ROLE_Y].layout == LAYOUT_PLAIN);
}

static bool reorder_resizes(const struct op_plan *p)
{
    return !same_order(p) && !copies(p) && !reorder_transposes(p);
}

static bool plain_to_padded(const struct op_plan *p)
{
    return copies(p) && from_plain(p);
}

static bool padded_to_plain(const struct op_plan *p)
{
    return copies(p) && !from_plain(p);
}

static bool has_lars(const struct op_plan *p)
{
    const struct sgd_attr *a = &p->desc.attr.sgd;
    bool lars = false;
    for (int i = 0; i < a->n_segments; i++)
        lars = lars || a->segment[i].trust > 0;
    return lars;
}

static bool clips(const struct op_plan *p)
{
    return p->desc.attr.sgd.clip > 0 && !has_lars(p);
}

/* --- the table --- */

#define LIBRARY  NULL
#define BN_TRAIN OP_SET(BN_FWD_TRAIN)
#define BN_ALL   (BN_TRAIN | OP_SET(BN_FWD_EVAL) | OP_SET(BN_APPLY))
#define FWD      OP_SET(CONV_FWD)
#define BWD_DATA OP_SET(CONV_BWD_DATA)
#define BWD_W    OP_SET(CONV_BWD_WEIGHTS)
#define APPLY_W  OP_SET(CONV_APPLY_BWD_WEIGHTS)
#define BIAS_W   (BWD_W | OP_SET(LINEAR_BWD_WEIGHTS))
#define LOSS     OP_SET(SOFTMAX_XENT)

static const struct row {
    uint64_t kinds;
    const char *kernel; /* the kernel's name in launch(); LIBRARY: a call of cuDNN or cuBLASLt */
    uint64_t reads, writes;
    condition *when; /* NULL: always */
} rows[] = {
    {FWD, "resize_rows", R(X), IMAGE, copies_image},
    {FWD | BWD_DATA, "resize_rows", R(W), WEIGHTS, pads_weights},
    {FWD, "cast", R(B), 0, casts_bias},
    {FWD, LIBRARY, IMAGE | WEIGHTS, R(Y), NULL},
    {FWD, "add_bias", R(Y) | R(B), R(Y), adds_bias},
    {FWD, "relu_fwd", R(Y), R(Y), adds_relu},
    {BWD_DATA, LIBRARY, R(DY) | WEIGHTS, IMAGE, NULL},
    {BWD_DATA, "resize_rows", IMAGE, R(DX), copies_image},
    {BWD_W, "resize_rows", R(X), IMAGE, copies_image},
    {BWD_W, LIBRARY, IMAGE | R(DY), WEIGHTS, NULL},
    {BWD_W, "resize_rows", WEIGHTS, R(DW), pads_weights},
    {BWD_W, "cast", WEIGHTS, R(DW), casts_weights},

    {OP_SET(CONV_STATS_FWD), LIBRARY, R(X) | R(AFFINE) | R(Z) | R(Z_AFFINE) | R(W),
     R(Y) | R(SUMS) | R(APPLIED), NULL},
    {APPLY_W, LIBRARY, R(X) | R(AFFINE) | R(DY), WEIGHTS, NULL},
    {APPLY_W, "cast", WEIGHTS, R(DW), casts_weights},
    {OP_SET(CONV_BWD_DATA_BN), LIBRARY,
     R(DY) | R(W) | R(DY2) | R(X) | R(Z) | R(MEAN) | R(INVSTD) | R(BN_GAMMA) | R(BN_BETA) |
         R(Z_MEAN) | R(Z_INVSTD) | R(Z_GAMMA) | R(Z_BETA),
     R(DX) | R(DGAMMA) | R(DBETA) | R(EQ) | R(Z_DGAMMA) | R(Z_DBETA) | R(Z_EQ), NULL},

    {OP_SET(LINEAR_FWD), LIBRARY, R(X) | R(W) | R(B), R(Y), NULL},
    {OP_SET(LINEAR_BWD_DATA), LIBRARY, R(DY) | R(W), R(DX), NULL},
    {OP_SET(LINEAR_BWD_WEIGHTS), LIBRARY, R(X) | R(DY), R(DW), NULL},
    {BIAS_W, "bn_sums", R(DY), 0, sums_bias},
    {BIAS_W, "bn_combine", 0, 0, sums_bias},
    {BIAS_W, "take_sums", 0, R(DB), sums_bias},

    {BN_TRAIN, "bn_sums", R(X), 0, NULL},
    {BN_TRAIN, "bn_combine", 0, STATISTICS, NULL},
    {BN_TRAIN, "bn_finalize", 0, STATISTICS, sums_ranks},
    {BN_ALL, "bn_apply", R(X) | R(Z) | R(Z_AFFINE) | PARAMETERS, R(Y) | R(MASK), NULL},
    {OP_SET(BN_BWD), "bn_bwd_sums", R(DY) | R(DY2) | R(X) | R(MASK) | R(MEAN), R(DZ), one_masked},
    {OP_SET(BN_BWD), "bn_bwd_sums", R(DY) | R(DY2) | R(X) | R(Y) | R(MEAN), R(DZ), one_unmasked},
    {OP_SET(BN_BWD), "bn_bwd_combine", R(INVSTD), R(DGAMMA) | R(DBETA), one},
    {OP_SET(BN_BWD), "bn_bwd_sums_two",
     R(DY) | R(DY2) | R(X) | R(Z) | R(MASK) | R(MEAN) | R(Z_MEAN), R(DZ), two_masked},
    {OP_SET(BN_BWD), "bn_bwd_sums_two", R(DY) | R(DY2) | R(X) | R(Z) | R(Y) | R(MEAN) | R(Z_MEAN),
     R(DZ), two_unmasked},
    {OP_SET(BN_BWD), "bn_bwd_combine_two", R(INVSTD) | R(Z_INVSTD) | R(GAMMA) | R(Z_GAMMA),
     R(DGAMMA) | R(DBETA) | R(Z_DGAMMA) | R(Z_DBETA), two},
    {OP_SET(BN_BWD), "bn_bwd_lines", R(DZ) | R(X) | R(Z), R(DX) | R(DZ), two},
    {OP_SET(BN_BWD), "bn_bwd_apply", R(DZ) | R(X) | PARAMETERS, R(DX), keeps_dz},
    {OP_SET(BN_BWD), "bn_bwd_apply", R(DY) | R(DY2) | R(X) | R(MASK) | PARAMETERS, R(DX),
     masked_again},
    {OP_SET(BN_BWD), "bn_bwd_apply", R(DY) | R(DY2) | R(X) | R(Y) | PARAMETERS, R(DX),
     unmasked_again},
    {OP_SET(BN_FINALIZE), "bn_from_sums", R(SUMS) | R(GAMMA) | R(BETA) | R(RMEAN) | R(RVAR),
     STATISTICS | R(AFFINE), NULL},
    {OP_SET(BN_BWD_APPLY), "bn_bwd_line", R(DY) | R(X) | R(EQ), R(DX), one},
    {OP_SET(BN_BWD_APPLY), "bn_bwd_lines", R(DY) | R(X) | R(Z) | R(EQ) | R(Z_EQ), R(DX) | R(DZ),
     two},

    {OP_SET(BN_STATISTICS), "bn_sums", R(X), 0, NULL},
    {OP_SET(BN_STATISTICS), "bn_combine", 0, STATISTICS, NULL},
    {OP_SET(BN_POOL_FWD), "bn_pool_fwd", R(X) | PARAMETERS, R(Y) | R(INDEX), NULL},
    {OP_SET(BN_POOL_BWD), "bn_pool_bwd_sums", R(DY) | R(DY2) | R(INDEX) | R(X) | R(MEAN), 0, NULL},
    {OP_SET(BN_POOL_BWD), "bn_pool_bwd_combine", R(GAMMA) | R(MEAN) | R(INVSTD),
     R(DGAMMA) | R(DBETA), NULL},
    {OP_SET(BN_POOL_BWD), "bn_pool_bwd_apply", R(DY) | R(DY2) | R(INDEX) | R(X), R(DX), NULL},

    {OP_SET(RELU_FWD), "relu_fwd", R(X), R(Y), NULL},
    {OP_SET(RELU_BWD), "relu_bwd", R(DY) | R(DY2) | R(Y), R(DX), NULL},
    {OP_SET(ADD), "add", R(X) | R(Z), R(Y), NULL},
    {OP_SET(ADD_STRIDED), "add_strided", R(X) | R(Y), R(Y), NULL},
    {OP_SET(MAXPOOL_FWD), "maxpool_fwd", R(X), R(Y) | R(INDEX), NULL},
    {OP_SET(MAXPOOL_BWD), "maxpool_bwd", R(DY) | R(DY2) | R(INDEX), R(DX), NULL},
    {OP_SET(AVGPOOL_FWD), "avgpool_fwd", R(X), IMAGE, NULL},
    {OP_SET(AVGPOOL_FWD), "transpose", IMAGE, R(Y), copies},
    {OP_SET(AVGPOOL_BWD), "transpose", R(DY), IMAGE, copies},
    {OP_SET(AVGPOOL_BWD), "avgpool_bwd", IMAGE, R(DX), NULL},
    {OPS_DROPOUT, "dropout", R(X) | R(DY), R(Y) | R(DX), NULL},

    {OP_SET(NORMALIZE), "normalize", R(X) | R(PARTNER), IMAGE, NULL},
    {OP_SET(NORMALIZE), "transpose", IMAGE, R(Y), copies},
    {OP_SET(REORDER), "cast", R(X), R(Y), reorder_casts},
    {OP_SET(REORDER), "transpose", R(X), R(Y), reorder_transposes},
    {OP_SET(REORDER), "resize_rows", R(X), R(Y), reorder_resizes},
    {OP_SET(REORDER), "transpose", R(X), IMAGE, plain_to_padded},
    {OP_SET(REORDER), "resize_rows", IMAGE, R(Y), plain_to_padded},
    {OP_SET(REORDER), "resize_rows", R(X), IMAGE, padded_to_plain},
    {OP_SET(REORDER), "transpose", IMAGE, R(Y), padded_to_plain},
    {OP_SET(ROUND), "round", R(X), R(Y), NULL},

    {LOSS, "check_labels", R(LABEL), 0, NULL},
    {LOSS, "softmax_xent", R(X) | R(LABEL) | R(PARTNER), R(DX), NULL},
    {LOSS, "sum_rows", 0, R(METRICS), NULL},
    {OP_SET(SGD), "chunk_squares", R(W) | GRADIENTS, 0, has_lars},
    {OP_SET(SGD), "local_rates", 0, 0, has_lars},
    {OP_SET(SGD), "chunk_squares", GRADIENTS, 0, clips},
    {OP_SET(SGD), "clip_factor", 0, 0, clips},
    {OP_SET(SGD), "sgd", R(W) | GRADIENTS | R(MOMENTUM), R(W) | R(MOMENTUM) | R(WCOPY), NULL},
    {OP_SET(CHECK_FINITE), "check_begin", 0, R(STATE), NULL},
    {OP_SET(CHECK_FINITE), "check_finite", GRADIENTS, R(STATE), NULL},
    {OP_SET(SCALE_SET), "scale_set", R(SCALER), R(STATE), NULL},
    {OP_SET(SCALE_UPDATE), "scale_update", R(STATE), R(SCALER), NULL},
};

/* The operations that call cuda_round_written at their end. */
#define ROUNDED                                                                                    \
    (BIAS_W | BN_ALL | OP_SET(BN_BWD) | OP_SET(BN_FINALIZE) | OP_SET(CONV_BWD_DATA_BN) |           \
     OP_SET(BN_STATISTICS) | OP_SET(BN_POOL_BWD))

/* --- one plan --- */

/* Returns the role that a bit of a row's set stands for. */
static enum role role_of(const struct op_plan *p, int bit)
{
    const struct op_desc *d = &p->desc;
    if (bit == COPIED_WEIGHTS) {
        bool copied = op_in(d->kind, OPS_CONV) ? cuda_conv_copies(p).weights > 0 : casts_weights(p);
        return copied ? ROLE_WORKSPACE : d->t[ROLE_DW].ndim ? ROLE_DW : ROLE_W;
    }
    if (bit != COPIED_IMAGE)
        return (enum role)bit;
    if (op_in(d->kind, OPS_CONV) ? copies_image(p) : copies(p))
        return ROLE_WORKSPACE;
    if (op_in(d->kind, OPS_CONV))
        return d->kind == OP_CONV_BWD_DATA ? ROLE_DX : ROLE_X;
    return d->t[ROLE_DY].ndim ? ROLE_DY : ROLE_Y;
}

/* Bytes of a copy in the workspace. */
static double copy_bytes(const struct op_plan *p, int bit)
{
    const struct op_desc *d = &p->desc;
    if (!op_in(d->kind, OPS_CONV | OPS_CONV_FUSED))
        return (double)p->workspace;
    if (bit == COPIED_IMAGE)
        return (double)cuda_conv_copies(p).image;
    if (op_in(d->kind, OPS_CONV))
        return (double)cuda_conv_copies(p).weights;
    return (double)tensor_count(&d->t[ROLE_DW]) * (double)dtype_size(d->t[ROLE_X].type);
}

/* Whether a convolution has a stride and a window of one pixel. It then reads only some of X's
 * pixels: one for each result. The channels of a pixel are contiguous, so the other pixels need not
 * be transferred. */
static bool skips_pixels(const struct op_desc *d)
{
    const struct tensor_desc *w = &d->t[d->t[ROLE_W].ndim ? ROLE_W : ROLE_DW];
    return op_in(d->kind, FWD | BWD_W | APPLY_W | OP_SET(CONV_STATS_FWD)) && w->dim[2] == 1 &&
           w->dim[3] == 1;
}

static double role_bytes(const struct op_desc *d, enum role role)
{
    const struct tensor_desc *t = &d->t[role];
    const struct tensor_desc *y = &d->t[d->t[ROLE_Y].ndim ? ROLE_Y : ROLE_DY];
    double bytes = t->ndim ? (double)t->bytes : 0;
    if (t->ndim && op_in(d->kind, OPS_SGD) && (role == ROLE_DW || role == ROLE_DW_HALF))
        return op_gradient_bytes(d, role);
    /* Y is larger than X, but the operation accesses only as many pixels of Y as X has. */
    if (d->kind == OP_ADD_STRIDED)
        return (double)d->t[ROLE_X].bytes;
    if (role == ROLE_X && skips_pixels(d))
        return bytes * (double)(y->dim[2] * y->dim[3]) / (double)(t->dim[2] * t->dim[3]);
    return bytes;
}

static void add_accesses(const struct op_plan *p, uint64_t set, bool writes,
                         struct traffic_kernel *k)
{
    for (int bit = 0; bit <= COPIED_WEIGHTS; bit++) {
        if (!(set >> bit & 1))
            continue;
        enum role role = role_of(p, bit);
        double bytes = role == ROLE_WORKSPACE ? copy_bytes(p, bit) : role_bytes(&p->desc, role);
        if (bytes > 0)
            k->access[k->n++] = (struct traffic_access){role, writes, bytes};
    }
}

static struct traffic_kernel *add_kernel(struct traffic *t, const char *name)
{
    struct traffic_kernel *k = &t->kernel[t->n++];
    *k = (struct traffic_kernel){.n = 0};
    snprintf(k->name, sizeof k->name, "%s", name);
    return k;
}

static void add_row(const struct op_plan *p, const struct row *row, struct traffic *t)
{
    struct traffic_kernel *k = add_kernel(t, row->kernel ? row->kernel : p->impl);
    k->library = row->kernel == LIBRARY;
    k->flops = k->library ? op_flops(&p->desc) : 0;
    k->copies = k->library ? (double)cuda_conv_copies(p).library : 0;
    add_accesses(p, row->reads, false, k);
    add_accesses(p, row->writes, true, k);
}

void cuda_traffic(const struct op_plan *p, struct traffic *t)
{
    const struct op_desc *d = &p->desc;
    t->n = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (op_in(d->kind, rows[i].kinds) && (!rows[i].when || rows[i].when(p)))
            add_row(p, &rows[i], t);
    for (int r = 0; r < ROLE_COUNT && op_in(d->kind, ROUNDED); r++)
        if (op_roles(d->kind).writes >> r & 1 && cuda_rounds_result(&d->t[r])) {
            struct traffic_kernel *k = add_kernel(t, "round");
            add_accesses(p, UINT64_C(1) << r, false, k);
            add_accesses(p, UINT64_C(1) << r, true, k);
        }
}
