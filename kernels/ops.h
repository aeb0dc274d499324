/* The operations of training, as descriptions that a backend turns into plans.
 *
 * An operation has one role per tensor it may touch. A description names the tensors present
 * (ndim > 0) with their shapes; a layout of ANY asks the plan to choose, and the plan's own copy of
 * the description holds the choice. Everything that changes from step to step (learning rate, loss
 * scale, seed) lies in device memory as `struct step_state`, so that a recorded step (a CUDA graph)
 * needs no argument changed.
 *
 * Gradients bear the name of what they belong to: ROLE_DX is dLoss/dX.
 *
 * Precision. An operation computes in fp32 (or better) on tensors of F32, F16 or BF16, and rounds
 * its result once, to nearest even, to what Y can hold. The activations of an operation and their
 * gradients have one type, and convolution's and linear's weights and biases that too. What is
 * always F32: DW and DB, batch norm's parameters, statistics, sums and their gradients, and the
 * flat buffers of the optimizer but for WCOPY. A result too large for the type becomes infinite, a
 * NaN stays one.
 *
 * Emulated precision (tensor_desc.rounds). An operation computes in fp32 (or better) on values as
 * their tensors hold them: what it reads from a tensor that is `raw` it rounds as it loads, what it
 * writes to a tensor that `rounds` it rounds to nearest even as it stores; a fused operation rounds
 * once, at its end, and computes what depends on another of its results from that as stored (batch
 * norm's DX from DZ). A plan that cannot round its result says so by setting `raw` on it in its
 * copy of the description; one that cannot round what it reads is STATUS_UNSUPPORTED for a raw
 * tensor. Rounding twice changes nothing, so that an operation may round every load of a tensor
 * that `rounds`. */
#ifndef KERNELS_OPS_H
#define KERNELS_OPS_H

#include "base/status.h"
#include "kernels/scaler.h"
#include "kernels/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

enum op_kind {
    /* Y = conv(X, W) [+ B] [then ReLU]. W is (O, I/groups, KH, KW). */
    OP_CONV_FWD,
    /* DX = conv_transpose(DY, W). DY is the gradient before any ReLU. */
    OP_CONV_BWD_DATA,
    /* DW [, DB] from X, DY. Overwrites. */
    OP_CONV_BWD_WEIGHTS,

    /* Training batch norm over (N, H, W) per channel:
     *   MEAN = mean(X); INVSTD = 1/sqrt(var_biased(X) + eps); Y = (X - MEAN)*INVSTD*GAMMA + BETA
     *   [Y += Z] [Y = max(Y, 0)]
     *   RMEAN = (1-m)*RMEAN + m*MEAN; RVAR = (1-m)*RVAR + m*var_unbiased(X)      (PyTorch)
     * Z (the residual) is present or not; the ReLU is attr.bn.relu. MEAN, INVSTD are saved f32
     * for backward. When N*H*W is 1 PyTorch refuses; so does the plan (STATUS_INVALID).
     * MASK, when present, keeps where Y (as stored) is above 0, a bit for each element: u8 of
     * (N*H*W, ceil(C/8)), bit c % 8 of byte c / 8 in the row of (n, h, w); bits beyond C are 0.
     * With attr.bn.sync mean and var are those of the values of all ranks together. */
    OP_BN_FWD_TRAIN,
    /* The same with RMEAN, RVAR in place of the batch's statistics; neither is written, and nothing
     * is synchronised. */
    OP_BN_FWD_EVAL,
    /* From DY [+ DY2], X, GAMMA, MEAN, INVSTD and, under ReLU, the forward result Y or its MASK:
     *   d = (DY [+ DY2]) * (Y > 0 if relu), rounded to what DZ can hold where there is a DZ
     *   DBETA = sum(d); DGAMMA = sum(d * (X-MEAN)*INVSTD)
     *   DX = GAMMA*INVSTD * (d - DBETA/M - (X-MEAN)*INVSTD*DGAMMA/M),  M = N*H*W
     *   DZ = d, when present (the residual's gradient).
     * With attr.bn.sync the sums and M in DX are those over all ranks; DGAMMA and DBETA stay this
     * rank's own, as torch.nn.SyncBatchNorm leaves them: averaged over ranks like all other
     * gradients, they come out right.
     * DX or DZ, not both, may be the memory of DY or of DY2. */
    OP_BN_BWD,

    /* Convolution and the batch norm around it in fewer passes over memory, in the forms that cuDNN
     * has. A training batch norm that follows a convolution is then cut up: the convolution adds up
     * its result as it writes it (CONV_STATS_FWD), BN_FINALIZE makes statistics of the sums, and
     * what is left is a multiply-add per channel, carried out by BN_APPLY or by the next
     * convolution as it reads, so that the normalised tensor is never stored. In the backward pass
     * the data gradient of that next convolution brings the sums along (CONV_BWD_DATA_BN), and
     * BN_BWD_APPLY is again a multiply-add. Batch norm's parameters here are BN_GAMMA and BN_BETA
     * where W is a convolution's.
     *
     * "X applied" stands for relu(X * scale[c] + shift[c]), rounded to what X can hold, with scale
     * and shift from AFFINE (2C: all scales, then all shifts; libraries want it in X's type); where
     * AFFINE is absent, for X itself. */

    /* Y = conv(X applied, W); SUMS (2*O) = per channel the sums of Y as stored, then those of its
     * squares. (A library may add up what it has before rounding.) attr.conv.relu is false. */
    OP_CONV_STATS_FWD,
    /* DW from X applied, DY. Overwrites. AFFINE is present. */
    OP_CONV_APPLY_BWD_WEIGHTS,
    /* From SUMS (2C) of attr.bn.count values per channel, mean = sum / count and var_biased =
     * max(sum of squares / count - mean^2, 0): MEAN, INVSTD, RMEAN, RVAR as OP_BN_FWD_TRAIN has
     * them, and AFFINE, when present: scale = GAMMA*INVSTD, shift = BETA - mean*scale, with scale
     * as AFFINE holds it, so that the mean is carried to BETA whatever scale lost in rounding. With
     * attr.bn.sync sums and count become those over all ranks.
     *
     * With u AFFINE's unit roundoff (fp16: 2^-11), X*scale + shift is then off by at most
     *   u * |GAMMA| * (|X - mean| + |mean|) * INVSTD + u * |BETA|
     * plus terms in u^2: no more than the rounding of X in the same type has moved it already,
     * and small unless |mean| is hundreds of standard deviations. */
    OP_BN_FINALIZE,
    /* Y = (X - MEAN)*INVSTD*GAMMA + BETA [+ Z] [then ReLU], and MASK, when present, as
     * OP_BN_FWD_TRAIN; all but X, Z, Y and MASK as BN_FINALIZE left it. */
    OP_BN_APPLY,
    /* The data gradient of a convolution whose input was relu(bn(X) [+ Z]), up to bn's result:
     *   bn(X) = (X - MEAN)*INVSTD*BN_GAMMA + BN_BETA
     *   DX = (conv_transpose(DY, W) [+ DY2]) * (bn(X) [+ Z] > 0)
     *   DBETA = sum(DX); DGAMMA = sum(DX * (X-MEAN)*INVSTD), of DX as stored
     * conv_transpose may be rounded to DX's type before DY2 is added. DX is also the gradient of Z.
     * The gradient of X is a*DX + b*X + c per channel, M being N*H*W; EQ (3C) is all a, b, c:
     *   a = BN_GAMMA*INVSTD;  b = -a*INVSTD*DGAMMA/M;  c = -a*DBETA/M - b*MEAN */
    OP_CONV_BWD_DATA_BN,
    /* DX = a*DY + b*X + c with a, b, c per channel from EQ. DX may be the memory of DY. */
    OP_BN_BWD_APPLY,

    /* Y = max(X, 0); Y may be the memory of X. A NaN stays a NaN, here and in batch norm, so that
     * a run that diverges shows it; a library's ReLU within conv or linear may lose it. */
    OP_RELU_FWD,
    /* DX = (DY [+ DY2]) * (Y > 0); DX may be the memory of DY. */
    OP_RELU_BWD,
    /* Y = A + B over roles X and Z; Y may be the memory of either. */
    OP_ADD,
    /* Y += X, whose pixels are those of Y in every attr.grid.stride[0]-th row and stride[1]-th
     * column, from the first on: Y is (N, C, H, W), X (N, C, ceil(H / stride[0]),
     * ceil(W / stride[1])). The other pixels of Y stay. */
    OP_ADD_STRIDED,

    /* Y = max over a window; INDEX (u8, shape of Y) keeps kh*KW + kw of the first maximum in row
     * order, as PyTorch takes it. A NaN wins; padding never does. INDEX may be absent outside
     * training. */
    OP_MAXPOOL_FWD,
    /* DX from DY [+ DY2] and INDEX. Overwrites. */
    OP_MAXPOOL_BWD,
    /* Adaptive average pooling to Y's height and width: output i covers rows
     * floor(i*H/OH) .. ceil((i+1)*H/OH)-1 (PyTorch). OH = OW = 1 is the global form. */
    OP_AVGPOOL_FWD,
    OP_AVGPOOL_BWD,

    /* Y (N, O) = X (N, I) W^T (O, I) + B [then ReLU]. */
    OP_LINEAR_FWD,
    /* DX (N, I) = DY (N, O) W. */
    OP_LINEAR_BWD_DATA,
    /* DW (O, I) = DY^T X; DB (O) = column sums of DY. Overwrites. */
    OP_LINEAR_BWD_WEIGHTS,

    /* Y = X * keep/(1-p), keep drawn per element from
     * rng_at(state.seed, RNG_DROPOUT, state.step, attr.dropout.layer << 40 | state.sample0 + n):
     * element f of row n is kept when the f-th rng_float() of its row is not below p. The mask
     * does not depend on how a batch is split.
     * X is (N, F) or plain NCHW. Backward draws the same mask again. p = 0 copies. In place is
     * fine. */
    OP_DROPOUT_FWD,
    OP_DROPOUT_BWD,

    /* Cross entropy with label smoothing e over K classes (PyTorch's definition):
     *   loss_n = -(1-e)*logp[label] - e/K * sum_k logp[k]
     *   DX = state.loss_scale / N * d(sum of loss_n)/dX     (absent in validation)
     * LABEL is i32 (N); a negative label leaves its row out: no loss, no count, DX row 0; one of K
     * or more is STATUS_INVALID when executed, before anything is written. N stays the planned row
     * count. METRICS (struct loss_metrics) is overwritten. A row counts for top-k
     * when fewer than k logits are above the label's (an equal logit at a lower index counts as
     * above), and never when the label's logit is NaN. */
    OP_SOFTMAX_XENT,

    /* torch.optim.SGD over one flat buffer: with g = DW*state.grad_scale + wd*W,
     *   V = momentum*V + g;  W -= state.lr * (nesterov ? g + momentum*V : V)
     * W, DW, MOMENTUM (V, zero before the first step) are f32 of one length and one layout.
     * Segments (attr.sgd) give the weight decay and the precisions per range; they cover the
     * buffer in order: DW is rounded to segment.gradient as it is read, W and V to segment.master
     * as they are written (W is computed from V before that), and WCOPY, when present, becomes the
     * written W rounded to segment.copy: what the next forward pass computes with. The tensors
     * themselves do not round. Nothing is written when state.found_inf is not 0.
     *
     * A segment with trust > 0 is one parameter tensor under LARS. With norms over the segment, of
     * W and of g' = DW*state.grad_scale, local = trust * |W| / (|g'| + wd*|W|),  1 when either norm
     * is 0 g = local * (g' + wd*W) and V and W as above: NVIDIA Apex's LARC without its clip (and
     * without the 1e-8 that it adds below) around torch.optim.SGD. You, Gitman and Ginsburg, "Large
     * batch training of convolutional networks", 2017, have the learning rate inside V, which is
     * the same as long as it does not change. */
    OP_SGD,

    /* state.found_inf = 1 when a value of DW (f32, flat, segments as OP_SGD), rounded to its
     * segment's gradient type, is infinite or NaN; else 0. The rest of STATE stays. */
    OP_CHECK_FINITE,

    /* Loss scaling where the device keeps the scale (SCALER): before a batch
     *   state.loss_scale = SCALER.scale * state.share
     *   state.grad_scale = 1 / (SCALER.scale * state.divisor)
     * as scaler_loss_scale and scaler_grad_scale compute them; the rest of STATE stays. */
    OP_SCALE_SET,
    /* After the optimizer: SCALER moves on by state.found_inf (scaler_advance). STATE stays. */
    OP_SCALE_UPDATE,

    /* Y = X rounded to Y's `rounds`; fp32, same shape and layout (OPAQUE too). Y may be the memory
     * of X. Y is never raw. */
    OP_ROUND,

    /* Y (N,3,H,W) = (X/255 - mean[c]) / std[c] from u8 pixels X, dims (N,3,H,W), LAYOUT_NHWC. */
    OP_NORMALIZE,

    /* Copies X to Y, same shape, between any layouts (OPAQUE too) and floating types. Raw values
     * may be copied as they are: the plan's Y is then raw too. */
    OP_REORDER,

    OP_KIND_COUNT
};

enum role {
    ROLE_X,
    ROLE_W,
    ROLE_B,
    ROLE_Y,
    ROLE_Z,
    ROLE_DX,
    ROLE_DW,
    ROLE_DB,
    ROLE_DY,
    ROLE_DY2,
    ROLE_DZ,
    ROLE_MEAN,
    ROLE_INVSTD,
    ROLE_RMEAN,
    ROLE_RVAR,
    ROLE_INDEX,
    ROLE_LABEL,
    ROLE_MOMENTUM,
    ROLE_WCOPY,
    ROLE_MASK,   /* of batch norm's ReLU: OP_BN_FWD_TRAIN */
    ROLE_SUMS,   /* per channel, for batch norm: OP_CONV_STATS_FWD */
    ROLE_AFFINE, /* batch norm as scale and shift: OP_BN_FINALIZE */
    ROLE_EQ,     /* batch norm's gradient as a multiply-add: OP_CONV_BWD_DATA_BN */
    ROLE_BN_GAMMA,
    ROLE_BN_BETA,
    ROLE_STATE,     /* struct step_state in device memory; its desc needs no shape */
    ROLE_METRICS,   /* struct loss_metrics in device memory; its desc needs no shape */
    ROLE_SCALER,    /* struct scaler_state in device memory; its desc needs no shape */
    ROLE_WORKSPACE, /* plan->workspace bytes, contents undefined between calls; aligned as memory
                       that the device allocates is (struct backend) */
    ROLE_COUNT,
    /* Batch norm's names for the same places. */
    ROLE_GAMMA = ROLE_W,
    ROLE_BETA = ROLE_B,
    ROLE_DGAMMA = ROLE_DW,
    ROLE_DBETA = ROLE_DB,
};

/* What changes from step to step; lives in device memory, written by the trainer before a step.
 * Where the device keeps the loss scale the trainer writes what comes before loss_scale, and
 * OP_SCALE_SET and OP_CHECK_FINITE the rest. */
struct step_state {
    uint64_t seed;
    uint64_t step;    /* optimizer steps begun before this one */
    uint64_t sample0; /* place in the global batch of this device's first row */
    double divisor;   /* for OP_SCALE_SET: what the sums of gradients are to be divided by */
    float share;      /* for OP_SCALE_SET: this device's part of the rows that the loss is over */
    float lr;
    float loss_scale;  /* multiplies the loss's gradient; 1 without scaling */
    float grad_scale;  /* multiplies gradients before use: 1 / (loss_scale * divisor) */
    int32_t found_inf; /* not 0: the optimizer leaves everything as it is */
};

/* What one evaluation of the loss says; sums over the rows with a label. */
struct loss_metrics {
    double loss_sum;
    int64_t count;
    int64_t top1;
    int64_t top5; /* top-min(5, K) */
};

struct conv_attr {
    int stride[2]; /* h, w */
    int pad[2];    /* h, w; the same on both sides */
    int groups;
    bool relu; /* OP_CONV_FWD: ReLU on the result */
};

/* How training batch norm takes its statistics over several ranks (torch.nn.SyncBatchNorm). Each
 * execution of OP_BN_FWD_TRAIN, OP_BN_FINALIZE and OP_BN_BWD calls `sum` once, from the thread that
 * executes the plan, with 2C + 1 values of this rank: for each channel the sum of x (backward: of
 * d), for each channel the sum of x^2 (backward: of d * (x - MEAN)), and the count N*H*W. It puts
 * the sums over all ranks in their place; a failure of it fails the operation. Ranks may have
 * different counts, 1 included as long as there is more than one value among them. All ranks must
 * execute the same operations in the same order. */
struct bn_sync {
    enum status (*sum)(void *context, double *values, int64_t n);
    void *context;
};

struct bn_attr {
    float eps;
    float momentum; /* PyTorch's meaning: the weight of the new value (0.1) */
    bool relu;
    const struct bn_sync *sync; /* outlives the plan; NULL: this rank alone */
    int64_t count;              /* OP_BN_FINALIZE: N*H*W of what was added up */
};

struct pool_attr {
    int kernel[2];
    int stride[2];
    int pad[2];
};

struct grid_attr {
    int stride[2]; /* h, w */
};

struct linear_attr {
    bool relu;
};

struct dropout_attr {
    float p;   /* probability of zeroing, 0 <= p < 1 */
    int layer; /* draws its own masks */
};

struct xent_attr {
    float label_smoothing;
};

struct sgd_segment {
    int64_t begin; /* elements [begin, end) of the flat buffer */
    int64_t end;
    float weight_decay;
    /* F32: not rounded. See OP_SGD. */
    enum dtype gradient, master, copy;
    float trust; /* LARS's trust coefficient; 0: plain SGD */
};

/* OP_SGD and OP_CHECK_FINITE, which looks at the segments alone. */
struct sgd_attr {
    float momentum;
    bool nesterov;
    int n_segments;
    const struct sgd_segment *segment; /* copied by the plan */
};

struct normalize_attr {
    float mean[3]; /* of pixel/255 */
    float std[3];
};

struct op_desc {
    enum op_kind kind;
    struct tensor_desc t[ROLE_COUNT];
    union {
        struct conv_attr conv;
        struct bn_attr bn;
        struct pool_attr pool;
        struct grid_attr grid; /* OP_ADD_STRIDED */
        struct linear_attr linear;
        struct dropout_attr dropout;
        struct xent_attr xent;
        struct sgd_attr sgd;
        struct normalize_attr normalize;
        struct scaler_rule scaler; /* OP_SCALE_UPDATE */
    } attr;
};

/* Which tensors a kind touches, as sets of 1u << role. */
struct op_roles {
    unsigned reads;
    unsigned writes;
    unsigned optional; /* those that may be absent */
};

struct op_roles op_roles(enum op_kind kind);

const char *op_str(enum op_kind kind);
const char *role_str(enum role role); /* "X", "DW" ...; batch norm's GAMMA is "W" */

/* Multiply-adds counted as two; 0 for kinds that are not convolution or linear. */
double op_flops(const struct op_desc *desc);

/* Checks what every backend may rely on: roles present, shapes that fit together, attributes in
 * range. STATUS_INVALID with a message otherwise. op_plan calls it. */
MUST_CHECK enum status op_check(const struct op_desc *desc);

/* For backends: has the 2C + 1 values of a batch norm summed over all ranks (see struct bn_sync).
 * STATUS_INVALID when they make up one value per channel. */
MUST_CHECK enum status bn_sync_sum(const struct bn_sync *sync, double *values, int64_t channels);

#ifdef __cplusplus
}
#endif
#endif
