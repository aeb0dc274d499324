/* Convolutions fused with the batch norm and ReLU around them. */
#include "kernels/ref/formulas.h"

/* Replaces X by "X applied" (ops.h), in the formula's own copy of X; writes APPLIED, if present. */
static void apply_to_x(const struct ref_args *a)
{
    const struct tensor_desc *x = &a->d->t[ROLE_X];
    const double *affine = a->t[ROLE_AFFINE], *z_affine = a->t[ROLE_Z_AFFINE];
    for (int64_t c = 0; affine && c < x->dim[1]; c++) {
        struct ref_channel ch = ref_channel_of(x, c);
        for (int64_t i = 0; i < ch.count; i++) {
            int64_t at = ref_channel_at(&ch, i);
            double *value = &a->t[ROLE_X][at];
            double v = *value * affine[c] + affine[x->dim[1] + c];
            if (a->t[ROLE_Z] && z_affine)
                v += a->t[ROLE_Z][at] * z_affine[c] + z_affine[x->dim[1] + c];
            else if (a->t[ROLE_Z])
                v += a->t[ROLE_Z][at];
            *value = ref_stored(x, ref_relu(v));
            if (a->t[ROLE_APPLIED])
                a->t[ROLE_APPLIED][at] = *value;
        }
    }
}

void ref_conv_stats_fwd(const struct ref_args *a)
{
    const struct tensor_desc *y = &a->d->t[ROLE_Y];
    apply_to_x(a);
    ref_conv_fwd(a);
    for (int64_t c = 0; c < y->dim[1]; c++) {
        struct ref_channel ch = ref_channel_of(y, c);
        for (int64_t i = 0; i < ch.count; i++) {
            double value = ref_stored(y, a->t[ROLE_Y][ref_channel_at(&ch, i)]);
            a->t[ROLE_SUMS][c] += value;
            a->t[ROLE_SUMS][y->dim[1] + c] += value * value;
        }
    }
}

void ref_conv_apply_bwd_weights(const struct ref_args *a)
{
    apply_to_x(a);
    ref_conv_bwd_weights(a);
}

/* The tensors of a batch norm with a ReLU: the tensors that its backward pass reads and writes. */
struct bn_tensors {
    const double *x, *mean, *invstd, *gamma, *beta;
    double *dgamma, *dbeta, *eq;
};

static double bn_of(const struct bn_tensors *t, int64_t c, int64_t at)
{
    return (t->x[at] - t->mean[c]) * t->invstd[c] * t->gamma[c] + t->beta[c];
}

/* Applies the ReLU's mask to one channel's gradient. `z` is the residual's batch norm; its `gamma`
 * is NULL if the residual has no batch norm. */
static void relu_gradient(const struct ref_args *a, const struct ref_channel *ch,
                          const struct bn_tensors *bn, const struct bn_tensors *z)
{
    const struct tensor_desc *t = &a->d->t[ROLE_DX];
    double *dx = a->t[ROLE_DX];
    for (int64_t i = 0; i < ch->count; i++) {
        int64_t at = ref_channel_at(ch, i);
        double before = bn_of(bn, ch->c, at), d = ref_stored(t, dx[at]);
        if (z->gamma)
            before += bn_of(z, ch->c, at);
        else if (z->x)
            before += z->x[at];
        if (a->t[ROLE_DY2])
            d += a->t[ROLE_DY2][at];
        dx[at] = before > 0 ? ref_stored(t, d) : 0;
    }
}

/* Computes one channel of DGAMMA, DBETA and EQ from DX. */
static void sum_gradient(const struct ref_args *a, const struct ref_channel *ch,
                         const struct bn_tensors *t)
{
    int64_t c = ch->c;
    double sum = 0, centred = 0, count = (double)ch->count;
    for (int64_t i = 0; i < ch->count; i++) {
        int64_t at = ref_channel_at(ch, i);
        sum += a->t[ROLE_DX][at];
        centred += a->t[ROLE_DX][at] * (t->x[at] - t->mean[c]);
    }
    t->dbeta[c] = sum;
    t->dgamma[c] = centred * t->invstd[c];
    double of_dx = t->gamma[c] * t->invstd[c];
    double of_x = -of_dx * t->invstd[c] * t->dgamma[c] / count;
    t->eq[c] = of_dx;
    t->eq[ch->channels + c] = of_x;
    t->eq[2 * ch->channels + c] = -of_dx * sum / count - of_x * t->mean[c];
}

void ref_conv_bwd_data_bn(const struct ref_args *a)
{
    const struct tensor_desc *x = &a->d->t[ROLE_X];
    const struct bn_tensors bn = {a->t[ROLE_X],        a->t[ROLE_MEAN],    a->t[ROLE_INVSTD],
                                  a->t[ROLE_BN_GAMMA], a->t[ROLE_BN_BETA], a->t[ROLE_DGAMMA],
                                  a->t[ROLE_DBETA],    a->t[ROLE_EQ]};
    const struct bn_tensors z = {a->t[ROLE_Z],       a->t[ROLE_Z_MEAN], a->t[ROLE_Z_INVSTD],
                                 a->t[ROLE_Z_GAMMA], a->t[ROLE_Z_BETA], a->t[ROLE_Z_DGAMMA],
                                 a->t[ROLE_Z_DBETA], a->t[ROLE_Z_EQ]};
    ref_conv_bwd_data(a);
    for (int64_t c = 0; c < x->dim[1]; c++) {
        struct ref_channel ch = ref_channel_of(x, c);
        relu_gradient(a, &ch, &bn, &z);
        sum_gradient(a, &ch, &bn);
        if (z.gamma)
            sum_gradient(a, &ch, &z);
    }
}
