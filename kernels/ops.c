/* Defines the names, roles and costs of the operations. */
#include "kernels/ops.h"

#include "kernels/op_roles.h"

const char *role_str(enum role role)
{
    static const char *const name[ROLE_COUNT] = {
        [ROLE_X] = "X",
        [ROLE_W] = "W",
        [ROLE_B] = "B",
        [ROLE_Y] = "Y",
        [ROLE_Z] = "Z",
        [ROLE_DX] = "DX",
        [ROLE_DW] = "DW",
        [ROLE_DB] = "DB",
        [ROLE_DY] = "DY",
        [ROLE_DY2] = "DY2",
        [ROLE_DZ] = "DZ",
        [ROLE_MEAN] = "MEAN",
        [ROLE_INVSTD] = "INVSTD",
        [ROLE_RMEAN] = "RMEAN",
        [ROLE_RVAR] = "RVAR",
        [ROLE_INDEX] = "INDEX",
        [ROLE_LABEL] = "LABEL",
        [ROLE_MOMENTUM] = "MOMENTUM",
        [ROLE_WCOPY] = "WCOPY",
        [ROLE_MASK] = "MASK",
        [ROLE_SUMS] = "SUMS",
        [ROLE_AFFINE] = "AFFINE",
        [ROLE_EQ] = "EQ",
        [ROLE_BN_GAMMA] = "BN_GAMMA",
        [ROLE_BN_BETA] = "BN_BETA",
        [ROLE_Z_AFFINE] = "Z_AFFINE",
        [ROLE_Z_GAMMA] = "Z_GAMMA",
        [ROLE_Z_BETA] = "Z_BETA",
        [ROLE_Z_MEAN] = "Z_MEAN",
        [ROLE_Z_INVSTD] = "Z_INVSTD",
        [ROLE_Z_DGAMMA] = "Z_DGAMMA",
        [ROLE_Z_DBETA] = "Z_DBETA",
        [ROLE_Z_EQ] = "Z_EQ",
        [ROLE_APPLIED] = "APPLIED",
        [ROLE_PARTNER] = "PARTNER",
        [ROLE_DW_HALF] = "DW_HALF",
        [ROLE_STATE] = "STATE",
        [ROLE_METRICS] = "METRICS",
        [ROLE_SCALER] = "SCALER",
        [ROLE_WORKSPACE] = "WORKSPACE",
    };
    return name[role];
}

double op_gradient_bytes(const struct op_desc *d, enum role role)
{
    const struct sgd_attr *a = &d->attr.sgd;
    int64_t n = 0;
    for (int i = 0; i < a->n_segments; i++)
        if (a->segment[i].half == (role == ROLE_DW_HALF))
            n += a->segment[i].end - a->segment[i].begin;
    return (double)n * (double)dtype_size(d->t[role].type);
}

double op_flops(const struct op_desc *d)
{
    const struct tensor_desc *y = d->t[ROLE_Y].ndim ? &d->t[ROLE_Y] : &d->t[ROLE_DY];
    const struct tensor_desc *w = d->t[ROLE_W].ndim ? &d->t[ROLE_W] : &d->t[ROLE_DW];
    double each = (double)w->dim[1];
    if (op_in(d->kind, OPS_CONV | OPS_CONV_FUSED))
        each *= (double)(w->dim[2] * w->dim[3]);
    else if (!op_in(d->kind, OPS_LINEAR))
        return 0.0;
    return 2.0 * (double)tensor_count(y) * each;
}

static const struct kind {
    const char *name;
    struct op_roles roles; /* reads, writes, optional */
} kinds[OP_KIND_COUNT] = {
    [OP_CONV_FWD] = {"conv_fwd", {BIT(X) | BIT(W) | BIT(B), BIT(Y), BIT(B)}},
    [OP_CONV_BWD_DATA] = {"conv_bwd_data", {BIT(DY) | BIT(W), BIT(DX), 0}},
    [OP_CONV_BWD_WEIGHTS] = {"conv_bwd_weights", {BIT(X) | BIT(DY), BIT(DW) | BIT(DB), BIT(DB)}},
    [OP_BN_FWD_TRAIN] = {"bn_fwd_train",
                         {BN_INPUTS | BIT(Z_AFFINE), BIT(Y) | BIT(MASK) | BN_STATISTICS,
                          BIT(Z) | BIT(Z_AFFINE) | BIT(MASK)}},
    [OP_BN_FWD_EVAL] = {"bn_fwd_eval", {BN_INPUTS, BIT(Y), BIT(Z)}},
    [OP_BN_BWD] = {"bn_bwd",
                   {BIT(DY) | BIT(DY2) | BIT(X) | BIT(Y) | BIT(MASK) | BIT(GAMMA) | BIT(MEAN) |
                        BIT(INVSTD) | BIT(Z) | Z_BN_READ,
                    BIT(DX) | BIT(DZ) | BIT(DGAMMA) | BIT(DBETA) | Z_BN_WRITTEN,
                    BIT(DY2) | BIT(Y) | BIT(MASK) | BIT(DZ) | BIT(Z) | Z_BN_READ | Z_BN_WRITTEN}},
    [OP_CONV_STATS_FWD] = {"conv_stats_fwd",
                           {BIT(X) | BIT(AFFINE) | BIT(Z) | BIT(Z_AFFINE) | BIT(W),
                            BIT(Y) | BIT(SUMS) | BIT(APPLIED),
                            BIT(AFFINE) | BIT(Z) | BIT(Z_AFFINE) | BIT(APPLIED)}},
    [OP_CONV_APPLY_BWD_WEIGHTS] = {"conv_apply_bwd_weights",
                                   {BIT(X) | BIT(AFFINE) | BIT(DY), BIT(DW), 0}},
    [OP_BN_FINALIZE] = {"bn_finalize",
                        {BIT(SUMS) | BIT(GAMMA) | BIT(BETA) | BIT(RMEAN) | BIT(RVAR),
                         BN_STATISTICS | BIT(AFFINE), BIT(AFFINE)}},
    [OP_BN_APPLY] = {"bn_apply",
                     {BIT(X) | BIT(GAMMA) | BIT(BETA) | BIT(MEAN) | BIT(INVSTD) | BIT(Z) |
                          BIT(Z_AFFINE),
                      BIT(Y) | BIT(MASK), BIT(Z) | BIT(Z_AFFINE) | BIT(MASK)}},
    [OP_CONV_BWD_DATA_BN] =
        {"conv_bwd_data_bn",
         {BIT(DY) | BIT(W) | BIT(DY2) | BIT(X) | BIT(Z) | BIT(MEAN) | BIT(INVSTD) | BIT(BN_GAMMA) |
              BIT(BN_BETA) | Z_BN_READ | BIT(Z_BETA),
          BIT(DX) | BIT(DGAMMA) | BIT(DBETA) | BIT(EQ) | Z_BN_WRITTEN | BIT(Z_EQ),
          BIT(DY2) | BIT(Z) | Z_BN_READ | BIT(Z_BETA) | Z_BN_WRITTEN | BIT(Z_EQ)}},
    [OP_BN_BWD_APPLY] = {"bn_bwd_apply",
                         {BIT(DY) | BIT(X) | BIT(EQ) | BIT(Z) | BIT(Z_EQ), BIT(DX) | BIT(DZ),
                          BIT(Z) | BIT(Z_EQ) | BIT(DZ)}},
    [OP_BN_STATISTICS] = {"bn_statistics", {BIT(X) | BIT(RMEAN) | BIT(RVAR), BN_STATISTICS, 0}},
    [OP_BN_POOL_FWD] = {"bn_pool_fwd",
                        {BIT(X) | BIT(GAMMA) | BIT(BETA) | BIT(MEAN) | BIT(INVSTD),
                         BIT(Y) | BIT(INDEX), 0}},
    [OP_BN_POOL_BWD] = {"bn_pool_bwd",
                        {BIT(DY) | BIT(DY2) | BIT(INDEX) | BIT(X) | BIT(GAMMA) | BIT(MEAN) |
                             BIT(INVSTD),
                         BIT(DX) | BIT(DGAMMA) | BIT(DBETA), BIT(DY2)}},
    [OP_RELU_FWD] = {"relu_fwd", {BIT(X), BIT(Y), 0}},
    [OP_RELU_BWD] = {"relu_bwd", {BIT(DY) | BIT(DY2) | BIT(Y), BIT(DX), BIT(DY2)}},
    [OP_ADD] = {"add", {BIT(X) | BIT(Z), BIT(Y), 0}},
    [OP_ADD_STRIDED] = {"add_strided", {BIT(X) | BIT(Y), BIT(Y), 0}},
    [OP_MAXPOOL_FWD] = {"maxpool_fwd", {BIT(X), BIT(Y) | BIT(INDEX), BIT(INDEX)}},
    [OP_MAXPOOL_BWD] = {"maxpool_bwd", {BIT(DY) | BIT(DY2) | BIT(INDEX), BIT(DX), BIT(DY2)}},
    [OP_AVGPOOL_FWD] = {"avgpool_fwd", {BIT(X), BIT(Y), 0}},
    [OP_AVGPOOL_BWD] = {"avgpool_bwd", {BIT(DY), BIT(DX), 0}},
    [OP_LINEAR_FWD] = {"linear_fwd", {BIT(X) | BIT(W) | BIT(B), BIT(Y), BIT(B)}},
    [OP_LINEAR_BWD_DATA] = {"linear_bwd_data", {BIT(DY) | BIT(W), BIT(DX), 0}},
    [OP_LINEAR_BWD_WEIGHTS] = {"linear_bwd_weights",
                               {BIT(X) | BIT(DY), BIT(DW) | BIT(DB), BIT(DB)}},
    [OP_DROPOUT_FWD] = {"dropout_fwd", {BIT(X) | BIT(STATE), BIT(Y), 0}},
    [OP_DROPOUT_BWD] = {"dropout_bwd", {BIT(DY) | BIT(STATE), BIT(DX), 0}},
    [OP_SOFTMAX_XENT] = {"softmax_xent",
                         {BIT(X) | BIT(LABEL) | BIT(PARTNER) | BIT(STATE), BIT(DX) | BIT(METRICS),
                          BIT(DX) | BIT(PARTNER)}},
    /* WCOPY counts as read, since a skipped step must leave it unchanged. */
    [OP_SGD] = {"sgd",
                {BIT(W) | BIT(DW) | BIT(DW_HALF) | BIT(MOMENTUM) | BIT(WCOPY) | BIT(STATE),
                 BIT(W) | BIT(MOMENTUM) | BIT(WCOPY), BIT(WCOPY) | BIT(DW_HALF)}},
    [OP_CHECK_FINITE] = {"check_finite",
                         {BIT(DW) | BIT(DW_HALF) | BIT(STATE), BIT(STATE), BIT(DW_HALF)}},
    [OP_SCALE_SET] = {"scale_set", {BIT(STATE) | BIT(SCALER), BIT(STATE), 0}},
    [OP_SCALE_UPDATE] = {"scale_update", {BIT(STATE) | BIT(SCALER), BIT(SCALER), 0}},
    [OP_ROUND] = {"round", {BIT(X), BIT(Y), 0}},
    [OP_NORMALIZE] = {"normalize", {BIT(X) | BIT(PARTNER) | BIT(STATE), BIT(Y), BIT(PARTNER)}},
    [OP_REORDER] = {"reorder", {BIT(X), BIT(Y), 0}},
};

const char *op_str(enum op_kind kind)
{
    return kinds[kind].name;
}

struct op_roles op_roles(enum op_kind kind)
{
    return kinds[kind].roles;
}

enum status bn_sync_sum(const struct bn_sync *sync, double *values, int64_t channels)
{
    TRY(sync->sum(sync->context, values, 2 * channels + 1));
    if (!(values[2 * channels] > 1))
        return status_fail(STATUS_INVALID,
                           "batch norm over all ranks needs more than one value "
                           "per channel when training; use a larger batch or image");
    return STATUS_OK;
}
