/* Convolutions fused with the batch norm and ReLU around them. */
#include "kernels/ref/formulas.h"

/* Replaces X by "X applied" (ops.h), in the formula's own copy of X. */
static void apply_to_x(const struct ref_args *a)
{
    const struct tensor_desc *x = &a->d->t[ROLE_X];
    const double *affine = a->t[ROLE_AFFINE];
    for (int64_t c = 0; affine && c < x->dim[1]; c++) {
        struct ref_channel ch = ref_channel_of(x, c);
        for (int64_t i = 0; i < ch.count; i++) {
            double *value = &a->t[ROLE_X][ref_channel_at(&ch, i)];
            *value = ref_stored(x, ref_relu(*value * affine[c] + affine[x->dim[1] + c]));
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

/* Applies the ReLU's mask to one channel's gradient; computes the sum of the gradient and the sum
 * of gradient times (X - MEAN). */
static void relu_gradient(const struct ref_args *a, const struct ref_channel *ch, double *sum,
                          double *centred)
{
    int64_t c = ch->c;
    double *dx = a->t[ROLE_DX];
    *sum = *centred = 0;
    for (int64_t i = 0; i < ch->count; i++) {
        int64_t at = ref_channel_at(ch, i);
        double x = a->t[ROLE_X][at] - a->t[ROLE_MEAN][c];
        double before = x * a->t[ROLE_INVSTD][c] * a->t[ROLE_BN_GAMMA][c] + a->t[ROLE_BN_BETA][c];
        if (a->t[ROLE_Z])
            before += a->t[ROLE_Z][at];
        double d = ref_stored(&a->d->t[ROLE_DX], dx[at]);
        if (a->t[ROLE_DY2])
            d += a->t[ROLE_DY2][at];
        dx[at] = before > 0 ? ref_stored(&a->d->t[ROLE_DX], d) : 0;
        *sum += dx[at];
        *centred += dx[at] * x;
    }
}

void ref_conv_bwd_data_bn(const struct ref_args *a)
{
    const struct tensor_desc *x = &a->d->t[ROLE_X];
    int64_t channels = x->dim[1];
    ref_conv_bwd_data(a);
    for (int64_t c = 0; c < channels; c++) {
        struct ref_channel ch = ref_channel_of(x, c);
        double sum, centred, count = (double)ch.count, invstd = a->t[ROLE_INVSTD][c];
        relu_gradient(a, &ch, &sum, &centred);
        a->t[ROLE_DBETA][c] = sum;
        a->t[ROLE_DGAMMA][c] = centred * invstd;
        double of_dx = a->t[ROLE_BN_GAMMA][c] * invstd;
        double of_x = -of_dx * invstd * a->t[ROLE_DGAMMA][c] / count;
        a->t[ROLE_EQ][c] = of_dx;
        a->t[ROLE_EQ][channels + c] = of_x;
        a->t[ROLE_EQ][2 * channels + c] = -of_dx * sum / count - of_x * a->t[ROLE_MEAN][c];
    }
}
