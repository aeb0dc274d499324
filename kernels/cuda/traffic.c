/* The kernels of each operation, in one table: a row is a launch, with the tensors that it reads
 * and writes. tests/kernels/cuda/test_traffic.c executes operations and compares the launches with
 * the table. Add a row here for a new operation, and for a new launch in an operation. */
#include "kernels/cuda/traffic.h"

#include "kernels/cuda/conv_problem.h"
#include "kernels/cuda/plan.h"

#include <stdio.h>
#include <string.h>

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

/* --- conditions of rows --- */

enum condition {
    ALWAYS,
    COPIES_IMAGE,
    PADS_WEIGHTS,
    CASTS_WEIGHTS,
    CASTS_BIAS,
    ADDS_BIAS,
    ADDS_RELU,
    SUMS_BIAS,
    SUMS_RANKS,
    ONE, /* no second batch norm, which is that of the residual */
    TWO,
    ONE_MASKED,
    ONE_UNMASKED,
    TWO_MASKED,
    TWO_UNMASKED,
    KEEPS_DZ,
    MASKED_AGAIN,
    UNMASKED_AGAIN,
    COPIES, /* a pooling, normalize or reorder operation copies the activation to its workspace */
    REORDER_CASTS,
    REORDER_TRANSPOSES,
    REORDER_RESIZES,
    PLAIN_TO_PADDED,
    PADDED_TO_PLAIN,
    HAS_LARS,
    CLIPS,
    CONDITIONS
};

static bool casts_weights(const struct op_plan *p)
{
    return p->desc.t[ROLE_DW].type != p->desc.t[ROLE_X].type &&
           !(cuda_conv_copies(p).rest & CONV_REST_PAD);
}

static bool has_lars(const struct op_desc *d)
{
    bool lars = false;
    for (int i = 0; op_in(d->kind, OPS_SGD) && i < d->attr.sgd.n_segments; i++)
        lars = lars || d->attr.sgd.segment[i].trust > 0;
    return lars;
}

/* Sets which conditions hold for a plan; for those of other kinds of operations, any values. */
static void find_conditions(const struct op_plan *p, bool holds[CONDITIONS])
{
    const struct op_desc *d = &p->desc;
    const struct tensor_desc *x = &d->t[ROLE_X], *y = &d->t[ROLE_Y];
    const struct cuda_copies made = cuda_conv_copies(p);
    bool bias = made.rest & CONV_REST_BIAS, lars = has_lars(d);
    bool two = d->t[ROLE_Z_GAMMA].ndim || d->t[ROLE_Z_EQ].ndim;
    bool masked = d->t[ROLE_MASK].ndim && d->attr.bn.relu, dz = !two && d->t[ROLE_DZ].ndim;
    bool copies = p->workspace > 0, from_plain = x->layout == LAYOUT_PLAIN;
    bool same = cuda_lies(y, x->layout) && (x->ndim != 4 || cuda_channels(x) == cuda_channels(y));
    bool transposes = !same && !copies && (from_plain || y->layout == LAYOUT_PLAIN);
    const bool all[CONDITIONS] = {
        [ALWAYS] = true,
        [COPIES_IMAGE] = made.image > 0,
        [PADS_WEIGHTS] = made.rest & CONV_REST_PAD,
        [CASTS_WEIGHTS] = casts_weights(p),
        [CASTS_BIAS] = made.bias,
        [ADDS_BIAS] = bias,
        [ADDS_RELU] = !bias && made.rest & CONV_REST_RELU,
        [SUMS_BIAS] = d->t[ROLE_DB].ndim,
        [SUMS_RANKS] = d->attr.bn.sync,
        [ONE] = !two,
        [TWO] = two,
        [ONE_MASKED] = !two && masked,
        [ONE_UNMASKED] = !two && !masked,
        [TWO_MASKED] = two && masked,
        [TWO_UNMASKED] = two && !masked,
        [KEEPS_DZ] = dz,
        [MASKED_AGAIN] = !two && masked && !dz,
        [UNMASKED_AGAIN] = !two && !masked && !dz,
        [COPIES] = copies,
        [REORDER_CASTS] = same && x->type != y->type,
        [REORDER_TRANSPOSES] = transposes,
        [REORDER_RESIZES] = !same && !copies && !transposes,
        [PLAIN_TO_PADDED] = copies && from_plain,
        [PADDED_TO_PLAIN] = copies && !from_plain,
        [HAS_LARS] = lars,
        [CLIPS] = op_in(d->kind, OPS_SGD) && d->attr.sgd.clip > 0 && !lars,
    };
    memcpy(holds, all, sizeof all);
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
    enum condition when;
} rows[] = {
    {FWD, "resize_rows", R(X), IMAGE, COPIES_IMAGE},
    {FWD | BWD_DATA, "resize_rows", R(W), WEIGHTS, PADS_WEIGHTS},
    {FWD, "cast", R(B), 0, CASTS_BIAS},
    {FWD, LIBRARY, IMAGE | WEIGHTS, R(Y), ALWAYS},
    {FWD, "add_bias", R(Y) | R(B), R(Y), ADDS_BIAS},
    {FWD, "relu_fwd", R(Y), R(Y), ADDS_RELU},
    {BWD_DATA, LIBRARY, R(DY) | WEIGHTS, IMAGE, ALWAYS},
    {BWD_DATA, "resize_rows", IMAGE, R(DX), COPIES_IMAGE},
    {BWD_W, "resize_rows", R(X), IMAGE, COPIES_IMAGE},
    {BWD_W, LIBRARY, IMAGE | R(DY), WEIGHTS, ALWAYS},
    {BWD_W, "resize_rows", WEIGHTS, R(DW), PADS_WEIGHTS},
    {BWD_W, "cast", WEIGHTS, R(DW), CASTS_WEIGHTS},

    {OP_SET(CONV_STATS_FWD), LIBRARY, R(X) | R(AFFINE) | R(Z) | R(Z_AFFINE) | R(W),
     R(Y) | R(SUMS) | R(APPLIED), ALWAYS},
    {APPLY_W, LIBRARY, R(X) | R(AFFINE) | R(DY), WEIGHTS, ALWAYS},
    {APPLY_W, "cast", WEIGHTS, R(DW), CASTS_WEIGHTS},
    {OP_SET(CONV_BWD_DATA_BN), LIBRARY,
     R(DY) | R(W) | R(DY2) | R(X) | R(Z) | R(MEAN) | R(INVSTD) | R(BN_GAMMA) | R(BN_BETA) |
         R(Z_MEAN) | R(Z_INVSTD) | R(Z_GAMMA) | R(Z_BETA),
     R(DX) | R(DGAMMA) | R(DBETA) | R(EQ) | R(Z_DGAMMA) | R(Z_DBETA) | R(Z_EQ), ALWAYS},

    {OP_SET(LINEAR_FWD), LIBRARY, R(X) | R(W) | R(B), R(Y), ALWAYS},
    {OP_SET(LINEAR_BWD_DATA), LIBRARY, R(DY) | R(W), R(DX), ALWAYS},
    {OP_SET(LINEAR_BWD_WEIGHTS), LIBRARY, R(X) | R(DY), R(DW), ALWAYS},
    {BIAS_W, "bn_sums", R(DY), 0, SUMS_BIAS},
    {BIAS_W, "bn_combine", 0, 0, SUMS_BIAS},
    {BIAS_W, "take_sums", 0, R(DB), SUMS_BIAS},

    {BN_TRAIN, "bn_sums", R(X), 0, ALWAYS},
    {BN_TRAIN, "bn_combine", 0, STATISTICS, ALWAYS},
    {BN_TRAIN, "bn_finalize", 0, STATISTICS, SUMS_RANKS},
    {BN_ALL, "bn_apply", R(X) | R(Z) | R(Z_AFFINE) | PARAMETERS, R(Y) | R(MASK), ALWAYS},
    {OP_SET(BN_BWD), "bn_bwd_sums", R(DY) | R(DY2) | R(X) | R(MASK) | R(MEAN), R(DZ), ONE_MASKED},
    {OP_SET(BN_BWD), "bn_bwd_sums", R(DY) | R(DY2) | R(X) | R(Y) | R(MEAN), R(DZ), ONE_UNMASKED},
    {OP_SET(BN_BWD), "bn_bwd_combine", R(INVSTD), R(DGAMMA) | R(DBETA), ONE},
    {OP_SET(BN_BWD), "bn_bwd_sums_two",
     R(DY) | R(DY2) | R(X) | R(Z) | R(MASK) | R(MEAN) | R(Z_MEAN), R(DZ), TWO_MASKED},
    {OP_SET(BN_BWD), "bn_bwd_sums_two", R(DY) | R(DY2) | R(X) | R(Z) | R(Y) | R(MEAN) | R(Z_MEAN),
     R(DZ), TWO_UNMASKED},
    {OP_SET(BN_BWD), "bn_bwd_combine_two", R(INVSTD) | R(Z_INVSTD) | R(GAMMA) | R(Z_GAMMA),
     R(DGAMMA) | R(DBETA) | R(Z_DGAMMA) | R(Z_DBETA), TWO},
    {OP_SET(BN_BWD), "bn_bwd_lines", R(DZ) | R(X) | R(Z), R(DX) | R(DZ), TWO},
    {OP_SET(BN_BWD), "bn_bwd_apply", R(DZ) | R(X) | PARAMETERS, R(DX), KEEPS_DZ},
    {OP_SET(BN_BWD), "bn_bwd_apply", R(DY) | R(DY2) | R(X) | R(MASK) | PARAMETERS, R(DX),
     MASKED_AGAIN},
    {OP_SET(BN_BWD), "bn_bwd_apply", R(DY) | R(DY2) | R(X) | R(Y) | PARAMETERS, R(DX),
     UNMASKED_AGAIN},
    {OP_SET(BN_FINALIZE), "bn_from_sums", R(SUMS) | R(GAMMA) | R(BETA) | R(RMEAN) | R(RVAR),
     STATISTICS | R(AFFINE), ALWAYS},
    {OP_SET(BN_BWD_APPLY), "bn_bwd_line", R(DY) | R(X) | R(EQ), R(DX), ONE},
    {OP_SET(BN_BWD_APPLY), "bn_bwd_lines", R(DY) | R(X) | R(Z) | R(EQ) | R(Z_EQ), R(DX) | R(DZ),
     TWO},

    {OP_SET(BN_STATISTICS), "bn_sums", R(X), 0, ALWAYS},
    {OP_SET(BN_STATISTICS), "bn_combine", 0, STATISTICS, ALWAYS},
    {OP_SET(BN_POOL_FWD), "bn_pool_fwd", R(X) | PARAMETERS, R(Y) | R(INDEX), ALWAYS},
    {OP_SET(BN_POOL_BWD), "bn_pool_bwd_sums", R(DY) | R(DY2) | R(INDEX) | R(X) | R(MEAN), 0,
     ALWAYS},
    {OP_SET(BN_POOL_BWD), "bn_pool_bwd_combine", R(GAMMA) | R(MEAN) | R(INVSTD),
     R(DGAMMA) | R(DBETA), ALWAYS},
    {OP_SET(BN_POOL_BWD), "bn_pool_bwd_apply", R(DY) | R(DY2) | R(INDEX) | R(X), R(DX), ALWAYS},

    {OP_SET(RELU_FWD), "relu_fwd", R(X), R(Y), ALWAYS},
    {OP_SET(RELU_BWD), "relu_bwd", R(DY) | R(DY2) | R(Y), R(DX), ALWAYS},
    {OP_SET(ADD), "add", R(X) | R(Z), R(Y), ALWAYS},
    {OP_SET(ADD_STRIDED), "add_strided", R(X) | R(Y), R(Y), ALWAYS},
    {OP_SET(MAXPOOL_FWD), "maxpool_fwd", R(X), R(Y) | R(INDEX), ALWAYS},
    {OP_SET(MAXPOOL_BWD), "maxpool_bwd", R(DY) | R(DY2) | R(INDEX), R(DX), ALWAYS},
    {OP_SET(AVGPOOL_FWD), "avgpool_fwd", R(X), IMAGE, ALWAYS},
    {OP_SET(AVGPOOL_FWD), "transpose", IMAGE, R(Y), COPIES},
    {OP_SET(AVGPOOL_BWD), "transpose", R(DY), IMAGE, COPIES},
    {OP_SET(AVGPOOL_BWD), "avgpool_bwd", IMAGE, R(DX), ALWAYS},
    {OPS_DROPOUT, "dropout", R(X) | R(DY), R(Y) | R(DX), ALWAYS},

    {OP_SET(NORMALIZE), "normalize", R(X) | R(PARTNER), IMAGE, ALWAYS},
    {OP_SET(NORMALIZE), "transpose", IMAGE, R(Y), COPIES},
    {OP_SET(REORDER), "cast", R(X), R(Y), REORDER_CASTS},
    {OP_SET(REORDER), "transpose", R(X), R(Y), REORDER_TRANSPOSES},
    {OP_SET(REORDER), "resize_rows", R(X), R(Y), REORDER_RESIZES},
    {OP_SET(REORDER), "transpose", R(X), IMAGE, PLAIN_TO_PADDED},
    {OP_SET(REORDER), "resize_rows", IMAGE, R(Y), PLAIN_TO_PADDED},
    {OP_SET(REORDER), "resize_rows", R(X), IMAGE, PADDED_TO_PLAIN},
    {OP_SET(REORDER), "transpose", IMAGE, R(Y), PADDED_TO_PLAIN},
    {OP_SET(ROUND), "round", R(X), R(Y), ALWAYS},

    {LOSS, "check_labels", R(LABEL), 0, ALWAYS},
    {LOSS, "softmax_xent", R(X) | R(LABEL) | R(PARTNER), R(DX), ALWAYS},
    {LOSS, "sum_rows", 0, R(METRICS), ALWAYS},
    {OP_SET(SGD), "chunk_squares", R(W) | GRADIENTS, 0, HAS_LARS},
    {OP_SET(SGD), "local_rates", 0, 0, HAS_LARS},
    {OP_SET(SGD), "chunk_squares", GRADIENTS, 0, CLIPS},
    {OP_SET(SGD), "clip_factor", 0, 0, CLIPS},
    {OP_SET(SGD), "sgd", R(W) | GRADIENTS | R(MOMENTUM), R(W) | R(MOMENTUM) | R(WCOPY), ALWAYS},
    {OP_SET(CHECK_FINITE), "check_begin", 0, R(STATE), ALWAYS},
    {OP_SET(CHECK_FINITE), "check_finite", GRADIENTS, R(STATE), ALWAYS},
    {OP_SET(SCALE_SET), "scale_set", R(SCALER), R(STATE), ALWAYS},
    {OP_SET(SCALE_UPDATE), "scale_update", R(STATE), R(SCALER), ALWAYS},
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
    if (op_in(d->kind, OPS_CONV) ? cuda_conv_copies(p).image > 0 : p->workspace > 0)
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
    bool holds[CONDITIONS];
    find_conditions(p, holds);
    t->n = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (op_in(d->kind, rows[i].kinds) && holds[rows[i].when])
            add_row(p, &rows[i], t);
    for (int r = 0; r < ROLE_COUNT && op_in(d->kind, ROUNDED); r++)
        if (op_roles(d->kind).writes >> r & 1 && cuda_rounds_result(&d->t[r])) {
            struct traffic_kernel *k = add_kernel(t, "round");
            add_accesses(p, UINT64_C(1) << r, false, k);
            add_accesses(p, UINT64_C(1) << r, true, k);
        }
}
