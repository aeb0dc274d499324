/* The operations of training, as descriptions that a backend turns into plans.
 *
 * An operation has one role for each tensor that it may read or write. A description gives the
 * shapes of the tensors present (ndim > 0). For a tensor of layout ANY the plan chooses the layout
 * and writes it to its own copy of the description. All values that change from step to step
 * (learning rate, loss scale, seed) are in device memory as `struct step_state`, so that the
 * arguments of a captured step (a CUDA graph) never change.
 *
 * A gradient is named after its tensor: ROLE_DX is dLoss/dX.
 *
 * Precision. An operation computes in fp32 (or better) on tensors of F32, F16 or BF16, and rounds
 * its result once, to nearest even, to Y's type. The activations of an operation and their
 * gradients have the same type. The weights and biases of a convolution or linear layer have the
 * same type, too. DW is F32, or F16 or BF16 where a backend supports that. The following tensors
 * are always F32: DB; batch norm's parameters, their gradients, its statistics and its sums; the
 * flat buffers of the optimizer except DW, DW_HALF and WCOPY. A result too large for the type
 * becomes infinite; a NaN stays a NaN.
 *
 * Emulated precision (tensor_desc.rounds). An operation computes in fp32 (or better) on rounded
 * values: it rounds the values that it loads from an unrounded tensor (tensor_desc.raw), and rounds
 * to nearest even the values that it stores to a tensor whose `rounds` is not F32. A fused
 * operation rounds once, at its end. A result that is computed from another result uses the stored
 * values of that result (batch norm's DX uses DZ). A plan that cannot round its result sets `raw`
 * for it in its copy of the description; if an operation cannot round its inputs, planning it with
 * an unrounded input fails with STATUS_UNSUPPORTED. Rounding twice changes nothing, so an operation
 * may also round the values that it loads from a tensor that is rounded already. */
#pragma once

#include "base/status.h"
#include "kernels/scaler.h"
#include "kernels/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

enum op_kind {
    /* Y = conv(X, W) [+ B] [then ReLU]. W is (O, I/groups, KH, KW). */
    OP_CONV_FWD,
    /* DX = conv_transpose(DY, W). DY is the gradient of the result before any ReLU. */
    OP_CONV_BWD_DATA,
    /* Computes DW [, DB] from X, DY; overwrites the old values. */
    OP_CONV_BWD_WEIGHTS,

    /* Training batch norm over (N, H, W) per channel:
     *   MEAN = mean(X); INVSTD = 1/sqrt(var_biased(X) + eps); Y = (X - MEAN)*INVSTD*GAMMA + BETA
     *   [Y += Z] [Y = max(Y, 0)]
     *   RMEAN = (1-m)*RMEAN + m*MEAN; RVAR = (1-m)*RVAR + m*var_unbiased(X)      (PyTorch)
     * Z (the residual) may be absent; attr.bn.relu says whether there is a ReLU. MEAN and INVSTD
     * are stored in f32 for the backward pass. If N*H*W is 1 and attr.bn.sync is NULL, planning
     * fails with STATUS_INVALID; PyTorch refuses such a batch norm too. MASK, when present, is u8
     * (N*H*W, ceil(C/8)). It has a bit per element of Y, which is 1 if Y as stored is above 0. The
     * bit of element (n, c, h, w) is bit c % 8 of byte c / 8 in the row of (n, h, w); bits beyond C
     * are 0. A backend may give a MASK of layout ANY an order of its own (OPAQUE). Only OP_BN_BWD
     * of the same backend can read such a MASK, and X of OP_BN_BWD must have the layout of X here.
     * With attr.bn.sync, mean and var are computed over the values of all ranks.
     *
     * With Z_AFFINE, which is F32 in these operations, Z is the input of another batch norm. The
     * residual is the result of that batch norm, which is not stored: Y += Z*scale[c] + shift[c] in
     * place of Y += Z, with scale and shift from Z_AFFINE (2C: all scales, then all shifts;
     * OP_BN_FINALIZE). The residual is added in fp32. (A residual that is stored is first rounded
     * to Z's type.) */
    OP_BN_FWD_TRAIN,
    /* Batch norm with RMEAN and RVAR in place of the batch's statistics. Writes no statistics and
     * sums nothing over ranks. */
    OP_BN_FWD_EVAL,
    /* The gradients of OP_BN_FWD_TRAIN, from DY [+ DY2], X, GAMMA, MEAN, INVSTD and, under ReLU,
     * the forward result Y or its MASK:
     *   d = (DY [+ DY2]) * (Y > 0 if relu), rounded to DZ's precision if DZ is present
     *   DBETA = sum(d); DGAMMA = sum(d * (X-MEAN)*INVSTD)
     *   DX = GAMMA*INVSTD * (d - DBETA/M - (X-MEAN)*INVSTD*DGAMMA/M),  M = N*H*W
     *   DZ = d, when present (the residual's gradient).
     * With attr.bn.sync the sums and M in DX are those over all ranks; DGAMMA and DBETA are those
     * of this rank alone, as in torch.nn.SyncBatchNorm, and are averaged over ranks later, like all
     * other gradients. DX or DZ, but not both, may share the memory of DY or of DY2.
     *
     * With Z, Z_GAMMA, Z_MEAN and Z_INVSTD the residual was a batch norm of Z (Z_AFFINE above). DZ
     * must be present, and attr.bn.sync NULL. After d is rounded to DZ's precision:
     *   Z_DBETA = sum(d); Z_DGAMMA = sum(d * (Z-Z_MEAN)*Z_INVSTD)
     *   DZ = Z_GAMMA*Z_INVSTD * (d - Z_DBETA/M - (Z-Z_MEAN)*Z_INVSTD*Z_DGAMMA/M)
     * Both gradients may be computed as multiply-adds of d (EQ of OP_CONV_BWD_DATA_BN). */
    OP_BN_BWD,

    /* The following operations compute a convolution and the batch norm before or after it in fewer
     * passes over memory, in the forms that cuDNN supports. A training batch norm that follows a
     * convolution is then split. The convolution sums its result while it writes it
     * (CONV_STATS_FWD), and BN_FINALIZE computes the statistics from the sums. What remains is a
     * multiply-add per channel. Either BN_APPLY computes it, or the next convolution does so when
     * it reads its input; in this case the normalised tensor is never stored. In the backward pass
     * the data gradient of that next convolution also computes batch norm's sums
     * (CONV_BWD_DATA_BN), and BN_BWD_APPLY is again a multiply-add. In an operation whose W is the
     * convolution's weights, batch norm's parameters are BN_GAMMA and BN_BETA.
     *
     * "X applied" means relu(X * scale[c] + shift[c]), rounded to X's precision, with scale and
     * shift from AFFINE. AFFINE has 2C values, all scales and then all shifts; libraries need it in
     * X's type. Without AFFINE, "X applied" means X itself. */

    /* Y = conv(X applied, W); SUMS (2*O) = the O sums per channel of Y as stored, then the O sums
     * of its squares. (A library may sum the values before it rounds them.) attr.conv.relu is
     * false. With Z and AFFINE, "X applied" is relu(X*scale[c] + shift[c] + z), rounded to X's
     * precision and stored in APPLIED: the end of a residual block. z is Z or, with Z_AFFINE,
     * Z*scale[c] + shift[c] with scale and shift from Z_AFFINE, which has the type of AFFINE. */
    OP_CONV_STATS_FWD,
    /* Computes DW from X applied, DY; overwrites the old values. AFFINE must be present. */
    OP_CONV_APPLY_BWD_WEIGHTS,
    /* Computes MEAN, INVSTD, RMEAN and RVAR as OP_BN_FWD_TRAIN does, but from SUMS (2C). Each sum
     * is over count = attr.bn.count values:
     *
     *     mean = sum / count
     *     var_biased = max((sum of squares) / count - mean^2, 0)
     *
     * Also computes AFFINE, when present: scale = GAMMA*INVSTD, shift = BETA - mean*scale. The
     * formula for shift uses scale as stored in AFFINE, so that the mean maps to
     * BETA although scale was rounded. With attr.bn.sync, sums and count are first summed over all
     * ranks.
     *
     * Let u be the unit roundoff of AFFINE's type (fp16: 2^-11). The error of X*scale + shift is
     * then at most
     *   u * |GAMMA| * (|X - mean| + |mean|) * INVSTD + u * |BETA|
     * plus terms in u^2. That is no more than the error from the rounding of X to the same type,
     * and is small unless |mean| is hundreds of standard deviations. */
    OP_BN_FINALIZE,
    /* Y = (X - MEAN)*INVSTD*GAMMA + BETA [+ Z] [then ReLU], and MASK, when present, as in
     * OP_BN_FWD_TRAIN. The tensors other than X, Z, Y and MASK are those of BN_FINALIZE. */
    OP_BN_APPLY,
    /* The gradient of bn's result, for a convolution whose input was relu(bn(X) [+ Z]):
     *   bn(X) = (X - MEAN)*INVSTD*BN_GAMMA + BN_BETA
     *   DX = (conv_transpose(DY, W) [+ DY2]) * (bn(X) [+ Z] > 0)
     *   DBETA = sum(DX); DGAMMA = sum(DX * (X-MEAN)*INVSTD), of DX as stored
     * conv_transpose may be rounded to DX's type before DY2 is added. DX is also the gradient of Z.
     * The gradient of X is a*DX + b*X + c per channel, where M = N*H*W. EQ (3C) contains all a,
     * then all b, then all c:
     *   a = BN_GAMMA*INVSTD;  b = -a*INVSTD*DGAMMA/M;  c = -a*DBETA/M - b*MEAN
     * With Z_GAMMA, Z_BETA, Z_MEAN and Z_INVSTD the residual was a batch norm of Z: bn_z(Z), with
     * these parameters and the formula of bn, replaces Z. DX is then the gradient of bn_z's result,
     * and Z_DBETA, Z_DGAMMA and Z_EQ are DBETA, DGAMMA and EQ of bn_z. */
    OP_CONV_BWD_DATA_BN,
    /* DX = a*DY + b*X + c with a, b, c per channel from EQ. With Z and Z_EQ also
     * DZ = a*DY + b*Z + c with a, b, c from Z_EQ.
     * DX or DZ, but not both, may be the memory of DY. */
    OP_BN_BWD_APPLY,

    /* The next three operations fuse a training batch norm, a ReLU and a max pooling: they do not
     * store the results of the batch norm and the ReLU. In a network's first layers these tensors
     * are the largest. Not available with attr.bn.sync. */

    /* Computes MEAN, INVSTD, RMEAN and RVAR from X, as OP_BN_FWD_TRAIN does. */
    OP_BN_STATISTICS,
    /* With v = relu((X - MEAN)*INVSTD*GAMMA + BETA), rounded to Y's precision:
     *   Y = max of v over each window of attr.bn.pool; INDEX as in OP_MAXPOOL_FWD.
     * Since v is rounded before the comparison, Y and INDEX equal the results of OP_BN_APPLY and
     * OP_MAXPOOL_FWD, with one exception: INDEX is POOL_NO_INDEX where Y is not above 0 (or is a
     * NaN), because the ReLU passes no gradient there. A window has at most 255 elements. */
    OP_BN_POOL_FWD,
    /* Batch norm's gradient, from the gradient of the pooled tensor. For each pixel, d begins as 0.
     * DY [+ DY2] of each window whose INDEX refers to the pixel is added to d, in the row order of
     * the windows. Then d is rounded to DX's precision:
     *   DBETA = sum(d); DGAMMA = sum(d * (X-MEAN)*INVSTD)
     *   DX = GAMMA*INVSTD * (d - DBETA/M - (X-MEAN)*INVSTD*DGAMMA/M),  M = N*H*W of X
     * OP_MAXPOOL_BWD and OP_BN_BWD would store d; here it is computed twice and not stored. */
    OP_BN_POOL_BWD,

    /* Y = max(X, 0); Y may be the memory of X. A NaN stays a NaN, here and in batch norm, so that a
     * diverging run is detected; a library's ReLU within conv or linear may turn a NaN into 0. */
    OP_RELU_FWD,
    /* DX = (DY [+ DY2]) * (Y > 0); DX may be the memory of DY. */
    OP_RELU_BWD,
    /* Y = X + Z; Y may be the memory of X or of Z. */
    OP_ADD,
    /* Adds X to the pixels of Y in every attr.grid.stride[0]-th row and every stride[1]-th column,
     * beginning with the first row and the first column. The other pixels of Y do not change. Y is
     * (N, C, H, W), and X is (N, C, ceil(H / stride[0]), ceil(W / stride[1])). */
    OP_ADD_STRIDED,

    /* Y = max over a window; INDEX (u8, shape of Y) is kh*KW + kw of the first maximum in row
     * order, or of the last NaN if there is one, as in PyTorch. Padding is never the maximum. INDEX
     * may be absent outside training. */
    OP_MAXPOOL_FWD,
    /* Computes DX from DY [+ DY2] and INDEX; overwrites the old values. */
    OP_MAXPOOL_BWD,
    /* Adaptive average pooling to Y's height and width: output i covers rows
     * floor(i*H/OH) .. ceil((i+1)*H/OH)-1 (PyTorch). OH = OW = 1 is the global form. */
    OP_AVGPOOL_FWD,
    OP_AVGPOOL_BWD,

    /* Y (N, O) = X (N, I) * W (O, I)^T + B [then ReLU]. */
    OP_LINEAR_FWD,
    /* DX (N, I) = DY (N, O) W. */
    OP_LINEAR_BWD_DATA,
    /* DW (O, I) = DY^T X; DB (O) = column sums of DY. Overwrites the old values. */
    OP_LINEAR_BWD_WEIGHTS,

    /* Y = X * keep/(1-p), where keep is 0 or 1. Row n has the random generator
     *   rng_at(state.seed, RNG_DROPOUT, state.step, attr.dropout.layer << 40 | state.sample0 + n).
     * Element f of row n is kept when the f-th rng_float() of this generator is not below p. The
     * mask does not depend on how a batch is split. X is (N, F) or plain NCHW. Backward draws the
     * same mask again. With p = 0 the operation copies. Y may be the memory of X. */
    OP_DROPOUT_FWD,
    OP_DROPOUT_BWD,

    /* Cross entropy with label smoothing e over K classes (PyTorch's definition):
     *   loss_n = -(1-e)*logp[label] - e/K * sum_k logp[k]
     *   DX = state.loss_scale / N * d(sum of loss_n)/dX     (absent in validation)
     * LABEL is i32 (N). A negative label excludes its row: the row has no loss, is not counted, and
     * its row of DX is 0. N remains the planned number of rows. If a label is K or more, execution
     * fails with STATUS_INVALID before it writes anything. METRICS (struct loss_metrics) is
     * overwritten. A row counts for top-k if fewer than k logits rank above the label's logit (an
     * equal logit at a lower index ranks above), but never if the label's logit is NaN.
     * With PARTNER the rows are mixed (mixup: Zhang, Cisse, Dauphin and Lopez-Paz, ICLR 2018). The
     * row's own label then has the weight m = state.mix, and other = LABEL[PARTNER[n]] has 1 - m:
     *   loss_n = -(1-e)*(m*logp[label] + (1-m)*logp[other]) - e/K * sum_k logp[k]
     * where a label of weight 0 adds nothing. A row with a negative `label` or `other` is excluded.
     * The row counts for top-k by `label` if m is at least 1/2, else by `other`. */
    OP_SOFTMAX_XENT,

    /* torch.optim.SGD over one flat buffer: with g = DW*state.grad_scale + wd*W,
     *   V = momentum*V + g;  W -= state.lr * (nesterov ? g + momentum*V : V)
     * W, DW and MOMENTUM (V, which is 0 before the first step) have the same length and layout. The
     * segments (attr.sgd) cover the buffer in order; each gives the weight decay and the precisions
     * of its range. A segment with `half` has its gradient in DW_HALF, and its range of DW is not
     * read; everything said of DW below is then true of DW_HALF. A backend that reads DW_HALF of a
     * type also computes a convolution's DW in that type.
     * DW is rounded to segment.gradient when it is read. W and V are rounded to
     * segment.master when they are written; W is computed from V before V is rounded. WCOPY, when
     * present, becomes the written W rounded to segment.copy, for the next forward pass. `rounds`
     * of the tensors themselves is F32. If state.found_inf is not 0, nothing is written.
     *
     * A segment with trust > 0 is one parameter tensor under LARS. With g' = DW*state.grad_scale
     * and norms over the segment,
     *   local = trust * |W| / (|g'| + wd*|W|), or 1 when either norm is 0;
     *   g = local * (g' + wd*W), and V and W as above.
     * That is NVIDIA Apex's LARC without its clip (and without the 1e-8 that it adds to the
     * denominator) around torch.optim.SGD. The paper (Y. You, I. Gitman and B. Ginsburg, "Large
     * batch training of convolutional networks", 2017) has the learning rate inside V. That gives
     * the same result as long as the learning rate does not change.
     *
     * With attr.clip > 0, DW*state.grad_scale is multiplied by min(1, clip / (norm + 1e-6)), where
     * norm is the 2-norm of DW*state.grad_scale over the whole buffer.
     * torch.nn.utils.clip_grad_norm_ before the step has the same effect. With attr.clip > 0 no
     * segment may have trust > 0. */
    OP_SGD,

    /* state.found_inf = 1 if any value of DW or DW_HALF, rounded to the gradient type of its
     * segment, is infinite or NaN; else 0. The segments are those of OP_SGD. The rest of STATE does
     * not change. */
    OP_CHECK_FINITE,

    /* Loss scaling with the scale in device memory (SCALER). Before a batch:
     *   state.loss_scale = SCALER.scale * state.share
     *   state.grad_scale = 1 / (SCALER.scale * state.divisor)
     * as scaler_loss_scale and scaler_grad_scale compute them. The rest of STATE does not
     * change. */
    OP_SCALE_SET,
    /* After the optimizer: adjusts SCALER according to state.found_inf, as scaler_advance does.
     * STATE is only read. */
    OP_SCALE_UPDATE,

    /* Y = X rounded to Y's `rounds`; fp32, same shape and layout (OPAQUE too). Y may be the memory
     * of X. The values of Y are always rounded. */
    OP_ROUND,

    /* Y (N,3,H,W) = (X/255 - mean[c]) / std[c] from u8 pixels X, dims (N,3,H,W), LAYOUT_NHWC. With
     * PARTNER, for the normalised images Xn and m = state.mix,
     *   Y[n] = m * Xn[n] + (1-m) * Xn[PARTNER[n]],
     * and the result is rounded once. Without PARTNER, STATE is not read. */
    OP_NORMALIZE,

    /* Copies X to Y, same shape, between any layouts (OPAQUE too) and floating types. A plan may
     * copy unrounded values as they are; Y is then unrounded too. */
    OP_REORDER,

    OP_KIND_COUNT
};

/* A set of kinds has a bit for each kind. */
#define OP_SET(kind) (UINT64_C(1) << OP_##kind)
#define OPS_CONV     (OP_SET(CONV_FWD) | OP_SET(CONV_BWD_DATA) | OP_SET(CONV_BWD_WEIGHTS))
#define OPS_LINEAR   (OP_SET(LINEAR_FWD) | OP_SET(LINEAR_BWD_DATA) | OP_SET(LINEAR_BWD_WEIGHTS))
#define OPS_BN       (OP_SET(BN_FWD_TRAIN) | OP_SET(BN_FWD_EVAL) | OP_SET(BN_BWD))
#define OPS_MAXPOOL  (OP_SET(MAXPOOL_FWD) | OP_SET(MAXPOOL_BWD))
#define OPS_AVGPOOL  (OP_SET(AVGPOOL_FWD) | OP_SET(AVGPOOL_BWD))
#define OPS_DROPOUT  (OP_SET(DROPOUT_FWD) | OP_SET(DROPOUT_BWD))
#define OPS_SGD      (OP_SET(SGD) | OP_SET(CHECK_FINITE))
#define OPS_SCALE    (OP_SET(SCALE_SET) | OP_SET(SCALE_UPDATE))
/* The kinds that sum values over all ranks if attr.bn.sync is set. */
#define OPS_BN_SUMS (OP_SET(BN_FWD_TRAIN) | OP_SET(BN_FINALIZE) | OP_SET(BN_BWD))
#define OPS_BN_POOL (OP_SET(BN_STATISTICS) | OP_SET(BN_POOL_FWD) | OP_SET(BN_POOL_BWD))
#define OPS_CONV_FUSED                                                                             \
    (OP_SET(CONV_STATS_FWD) | OP_SET(CONV_APPLY_BWD_WEIGHTS) | OP_SET(CONV_BWD_DATA_BN))

static inline bool op_in(enum op_kind kind, uint64_t set)
{
    return set >> kind & 1;
}

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
    ROLE_MASK,   /* signs of batch norm's result: OP_BN_FWD_TRAIN */
    ROLE_SUMS,   /* sums per channel, for batch norm: OP_CONV_STATS_FWD */
    ROLE_AFFINE, /* batch norm as scale and shift: OP_BN_FINALIZE */
    ROLE_EQ,     /* batch norm's gradient as a multiply-add: OP_CONV_BWD_DATA_BN */
    ROLE_BN_GAMMA,
    ROLE_BN_BETA,
    /* Tensors of the residual's batch norm, whose input is Z: OP_BN_FWD_TRAIN, OP_BN_BWD. */
    ROLE_Z_AFFINE,
    ROLE_Z_GAMMA,
    ROLE_Z_BETA,
    ROLE_Z_MEAN,
    ROLE_Z_INVSTD,
    ROLE_Z_DGAMMA,
    ROLE_Z_DBETA,
    ROLE_Z_EQ,
    ROLE_APPLIED,   /* X applied: OP_CONV_STATS_FWD */
    ROLE_PARTNER,   /* i32 (N): the row that is mixed into each row. The caller guarantees that all
                     * values are numbers of rows, 0..N-1 */
    ROLE_STATE,     /* struct step_state in device memory; its desc needs no shape */
    ROLE_METRICS,   /* struct loss_metrics in device memory; its desc needs no shape */
    ROLE_SCALER,    /* struct scaler_state in device memory; its desc needs no shape */
    ROLE_DW_HALF,   /* the gradient of segments with `half`: OP_SGD, OP_CHECK_FINITE */
    ROLE_WORKSPACE, /* plan->workspace bytes, contents undefined between calls; aligned like memory
                     * that the device allocates (struct backend) */
    ROLE_COUNT,
    /* Batch norm's names for the same roles. */
    ROLE_GAMMA = ROLE_W,
    ROLE_BETA = ROLE_B,
    ROLE_DGAMMA = ROLE_DW,
    ROLE_DBETA = ROLE_DB,
};

/* A set of roles has a bit for each role. */
#define ROLE_SET(role) (UINT64_C(1) << ROLE_##role)

/* The values that change from step to step, in device memory; the trainer writes them before a
 * step. If the loss scale is kept in device memory, the trainer writes only the members before
 * loss_scale; OP_SCALE_SET and OP_CHECK_FINITE write the others. */
struct step_state {
    uint64_t seed;
    uint64_t step;    /* optimizer steps begun before this one */
    uint64_t sample0; /* index of this device's first row among the images of the step */
    double divisor;   /* for OP_SCALE_SET: the number by which summed gradients are divided */
    float share;      /* for OP_SCALE_SET: fraction of the loss's rows that this device computes */
    float lr;
    float mix; /* if rows are mixed (ROLE_PARTNER): weight of a row's own image and label, 0 to 1 */
    float loss_scale;  /* multiplies the loss's gradient; 1 without scaling */
    float grad_scale;  /* multiplies gradients before use: 1 / (loss_scale * divisor) */
    int32_t found_inf; /* not 0: the optimizer changes nothing */
};

/* Result of one evaluation of the loss: sums over the rows with a label. */
struct loss_metrics {
    double loss_sum;
    int64_t count;
    int64_t top1;
    int64_t top5; /* rows that count for top-k with k = min(5, K) */
};

struct conv_attr {
    int stride[2]; /* h, w */
    int pad[2];    /* h, w; the same on both sides */
    int groups;
    bool relu; /* OP_CONV_FWD: ReLU on the result */
};

/* How training batch norm computes statistics over several ranks (torch.nn.SyncBatchNorm). Each
 * execution of OP_BN_FWD_TRAIN, OP_BN_FINALIZE and OP_BN_BWD calls `sum` once, from the thread that
 * executes the plan, with 2C + 1 values of this rank: for each channel the sum of x (backward: of
 * d), for each channel the sum of x^2 (backward: of d * (x - MEAN)), and the count N*H*W. `sum`
 * replaces them by the sums over all ranks; if it fails, the operation fails. Ranks may have
 * different counts, even 1, if the sum of all counts is above 1. All ranks must execute the same
 * operations in the same order. */
struct bn_sync {
    enum status (*sum)(void *context, double *values, int64_t n);
    void *context;
};

struct pool_attr {
    int kernel[2];
    int stride[2];
    int pad[2];
};

/* INDEX of OP_BN_POOL_FWD where no element of the window gets a gradient. */
enum { POOL_NO_INDEX = 255 };

struct bn_attr {
    float eps;
    float momentum;             /* PyTorch's meaning: the weight of the new value (0.1) */
    bool relu;                  /* unused in OPS_BN_POOL, which always have a ReLU */
    const struct bn_sync *sync; /* must outlive the plan; NULL: statistics of this rank alone */
    int64_t count;              /* OP_BN_FINALIZE: N*H*W of the summed tensor */
    struct pool_attr pool;      /* OP_BN_POOL_FWD, OP_BN_POOL_BWD */
};

struct grid_attr {
    int stride[2]; /* h, w */
};

struct linear_attr {
    bool relu;
};

struct dropout_attr {
    float p;   /* probability of zeroing, 0 <= p < 1 */
    int layer; /* number of the layer; each layer draws its own masks */
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
    bool half;   /* the gradient is in DW_HALF instead of DW */
};

/* Attributes of OP_SGD, and of OP_CHECK_FINITE, which uses only the segments. */
struct sgd_attr {
    float momentum;
    bool nesterov;
    int n_segments;
    const struct sgd_segment *segment; /* copied by the plan */
    float clip;                        /* limit of the gradient's norm; 0: no limit */
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

/* The tensors that a kind reads and writes, as sets of roles. */
struct op_roles {
    uint64_t reads;
    uint64_t writes;
    uint64_t optional; /* the tensors that may be absent */
};

struct op_roles op_roles(enum op_kind kind);

const char *op_str(enum op_kind kind);
const char *role_str(enum role role); /* "X", "DW" ...; batch norm's GAMMA is "W" */

/* For OP_SGD and OP_CHECK_FINITE: number of bytes of `role` (ROLE_DW or ROLE_DW_HALF) in one pass
 * over the segments. */
double op_gradient_bytes(const struct op_desc *desc, enum role role);

/* Floating-point operations, two per multiply-add; 0 for kinds other than convolution and
 * linear. */
double op_flops(const struct op_desc *desc);

/* Checks the conditions that backends rely on: roles present, shapes that fit together, attributes
 * in range. STATUS_INVALID with a message otherwise. op_plan calls it. */
MUST_CHECK enum status op_check(const struct op_desc *desc);

/* For backends: sums the 2C + 1 values of a batch norm over all ranks (see struct bn_sync).
 * STATUS_INVALID if the count over all ranks is 1, because a channel then has only one value. */
MUST_CHECK enum status bn_sync_sum(const struct bn_sync *sync, double *values, int64_t channels);

#ifdef __cplusplus
}
#endif
