/* Batch norm: training, evaluation and gradients, with the residual and ReLU after it. */
#include "kernels/ref/formulas.h"

#include <math.h>
#include <string.h>

/* Sets the mask bit of value i of a channel. */
static void mask_set(const struct ref_args *a, const struct ref_channel *ch, int64_t i)
{
    int64_t stride = a->d->t[ROLE_MASK].dim[1];
    a->t[ROLE_MASK][i * stride + ch->c / 8] += 1 << ch->c % 8; /* bytes begin as 0 */
}

static bool mask_get(const struct ref_args *a, const struct ref_channel *ch, int64_t i)
{
    int64_t stride = a->d->t[ROLE_MASK].dim[1];
    return (int)a->t[ROLE_MASK][i * stride + ch->c / 8] >> ch->c % 8 & 1;
}

/* Returns the residual, which is added to the normalised value at index `at`; 0 if there is
 * no residual. */
static double residual(const struct ref_args *a, const struct ref_channel *ch, int64_t at)
{
    const double *z = a->t[ROLE_Z], *affine = a->t[ROLE_Z_AFFINE];
    if (!z)
        return 0;
    return affine ? z[at] * affine[ch->c] + affine[ch->channels + ch->c] : z[at];
}

static void bn_apply(const struct ref_args *a, const struct ref_channel *ch, double mean,
                     double invstd)
{
    double gamma = a->t[ROLE_GAMMA][ch->c], beta = a->t[ROLE_BETA][ch->c];
    for (int64_t i = 0; i < ch->count; i++) {
        int64_t at = ref_channel_at(ch, i);
        double y = (a->t[ROLE_X][at] - mean) * invstd * gamma + beta + residual(a, ch, at);
        a->t[ROLE_Y][at] = a->d->attr.bn.relu ? ref_relu(y) : y;
        if (a->t[ROLE_MASK] && ref_stored(&a->d->t[ROLE_Y], y) > 0)
            mask_set(a, ch, i);
    }
}

/* Mean, and sum of squared differences from the mean, over the values of this rank or of all
 * ranks. */
struct moments {
    double mean, squares, count;
};

static struct moments moments_from_sums(double sum, double sum_of_squares, double count)
{
    double squares = sum_of_squares - sum * sum / count;
    return (struct moments){sum / count, squares < 0 ? 0 : squares, count};
}

static struct moments moments_of(const struct ref_args *a, const struct ref_channel *ch)
{
    const double *x = a->t[ROLE_X];
    double sum = 0, squares = 0, count = (double)ch->count;
    if (a->sync)
        return moments_from_sums(a->sync[ch->c], a->sync[ch->channels + ch->c],
                                 a->sync[2 * ch->channels]);
    for (int64_t i = 0; i < ch->count; i++)
        sum += x[ref_channel_at(ch, i)];
    double mean = sum / count;
    for (int64_t i = 0; i < ch->count; i++) {
        double centred = x[ref_channel_at(ch, i)] - mean;
        squares += centred * centred;
    }
    return (struct moments){mean, squares, count};
}

/* Writes MEAN, INVSTD and the running statistics of one channel. */
static void keep_statistics(const struct ref_args *a, int64_t c, struct moments k)
{
    const struct bn_attr *attr = &a->d->attr.bn;
    double biased = k.squares / k.count, unbiased = k.squares / (k.count - 1);
    double m = (double)attr->momentum;
    a->t[ROLE_MEAN][c] = k.mean;
    a->t[ROLE_INVSTD][c] = 1 / sqrt(biased + (double)attr->eps);
    a->t[ROLE_RMEAN][c] = (1 - m) * a->t[ROLE_RMEAN][c] + m * k.mean;
    a->t[ROLE_RVAR][c] = (1 - m) * a->t[ROLE_RVAR][c] + m * unbiased;
}

void ref_bn_fwd(const struct ref_args *a)
{
    enum op_kind kind = a->d->kind;
    for (int64_t c = 0; c < a->d->t[ROLE_X].dim[1]; c++) {
        struct ref_channel ch = ref_channel_of(&a->d->t[ROLE_X], c);
        if (kind == OP_BN_FWD_TRAIN || kind == OP_BN_STATISTICS)
            keep_statistics(a, c, moments_of(a, &ch));
        if (kind == OP_BN_FWD_EVAL)
            bn_apply(a, &ch, a->t[ROLE_RMEAN][c],
                     1 / sqrt(a->t[ROLE_RVAR][c] + (double)a->d->attr.bn.eps));
        else if (kind != OP_BN_STATISTICS)
            bn_apply(a, &ch, a->t[ROLE_MEAN][c], a->t[ROLE_INVSTD][c]);
    }
}

void ref_bn_finalize(const struct ref_args *a)
{
    int64_t channels = ref_bn_channels(a->d);
    const double *sums = a->sync ? a->sync : a->t[ROLE_SUMS];
    double count = a->sync ? a->sync[2 * channels] : (double)a->d->attr.bn.count;
    for (int64_t c = 0; c < channels; c++) {
        keep_statistics(a, c, moments_from_sums(sums[c], sums[channels + c], count));
        if (!a->t[ROLE_AFFINE])
            continue;
        double exact = a->t[ROLE_GAMMA][c] * a->t[ROLE_INVSTD][c];
        double scale = ref_stored(&a->d->t[ROLE_AFFINE], exact);
        a->t[ROLE_AFFINE][c] = scale;
        a->t[ROLE_AFFINE][channels + c] = a->t[ROLE_BETA][c] - a->t[ROLE_MEAN][c] * scale;
    }
}

/* Whether the ReLU, if any, let value i pass. */
static bool bn_passed(const struct ref_args *a, const struct ref_channel *ch, int64_t i)
{
    if (!a->d->attr.bn.relu)
        return true;
    return a->t[ROLE_MASK] ? mask_get(a, ch, i) : a->t[ROLE_Y][ref_channel_at(ch, i)] > 0;
}

/* The gradient of the normalised value: DY [+ DY2], or 0 where the ReLU blocked it; rounded to DZ's
 * precision if DZ is present. */
static double bn_incoming(const struct ref_args *a, const struct ref_channel *ch, int64_t i)
{
    int64_t at = ref_channel_at(ch, i);
    double d = a->t[ROLE_DY][at];
    if (a->t[ROLE_DY2])
        d += a->t[ROLE_DY2][at];
    if (!bn_passed(a, ch, i))
        d = 0;
    return a->t[ROLE_DZ] ? ref_stored(&a->d->t[ROLE_DZ], d) : d;
}

/* Sums d and d * (x - mean) over the channel, where d is the value of bn_incoming. */
static void gradient_sums(const struct ref_args *a, const struct ref_channel *ch, double *sum,
                          double *centred)
{
    *sum = *centred = 0;
    for (int64_t i = 0; i < ch->count; i++) {
        int64_t at = ref_channel_at(ch, i);
        double d = bn_incoming(a, ch, i);
        *sum += d;
        *centred += d * (a->t[ROLE_X][at] - a->t[ROLE_MEAN][ch->c]);
    }
}

/* Replaces DZ, which is the gradient of the residual, by the gradient of Z through the residual's
 * batch norm. */
static void backward_of_z(const struct ref_args *a, const struct ref_channel *ch)
{
    double sum = 0, centred = 0, count = (double)ch->count, *dz = a->t[ROLE_DZ];
    double mean = a->t[ROLE_Z_MEAN][ch->c], invstd = a->t[ROLE_Z_INVSTD][ch->c];
    for (int64_t i = 0; i < ch->count; i++) {
        int64_t at = ref_channel_at(ch, i);
        sum += dz[at];
        centred += dz[at] * (a->t[ROLE_Z][at] - mean);
    }
    a->t[ROLE_Z_DBETA][ch->c] = sum;
    a->t[ROLE_Z_DGAMMA][ch->c] = centred * invstd;
    for (int64_t i = 0; i < ch->count; i++) {
        int64_t at = ref_channel_at(ch, i);
        double normalised = (a->t[ROLE_Z][at] - mean) * invstd;
        dz[at] = a->t[ROLE_Z_GAMMA][ch->c] * invstd *
                 (dz[at] - sum / count - normalised * centred * invstd / count);
    }
}

void ref_bn_bwd(const struct ref_args *a)
{
    for (int64_t c = 0; c < a->d->t[ROLE_X].dim[1]; c++) {
        struct ref_channel ch = ref_channel_of(&a->d->t[ROLE_X], c);
        double mean = a->t[ROLE_MEAN][c], invstd = a->t[ROLE_INVSTD][c];
        double sum, centred, count = (double)ch.count;
        gradient_sums(a, &ch, &sum, &centred);
        a->t[ROLE_DGAMMA][c] = centred * invstd;
        a->t[ROLE_DBETA][c] = sum;
        if (a->sync) {
            sum = a->sync[c];
            centred = a->sync[ch.channels + c];
            count = a->sync[2 * ch.channels];
        }
        for (int64_t i = 0; i < ch.count; i++) {
            int64_t at = ref_channel_at(&ch, i);
            double d = bn_incoming(a, &ch, i);
            double normalised = (a->t[ROLE_X][at] - mean) * invstd;
            a->t[ROLE_DX][at] = a->t[ROLE_GAMMA][c] * invstd *
                                (d - sum / count - normalised * centred * invstd / count);
            if (a->t[ROLE_DZ])
                a->t[ROLE_DZ][at] = d;
        }
        if (a->t[ROLE_Z_GAMMA])
            backward_of_z(a, &ch);
    }
}

/* Computes `dx` from DY, `x` and `eq`. `x` and `eq` are either X and EQ, or Z and Z_EQ. */
static void multiply_add(const struct ref_args *a, const double *x, const double *eq, double *dx)
{
    int64_t channels = a->d->t[ROLE_X].dim[1];
    for (int64_t c = 0; c < channels; c++) {
        struct ref_channel ch = ref_channel_of(&a->d->t[ROLE_X], c);
        for (int64_t i = 0; i < ch.count; i++) {
            int64_t at = ref_channel_at(&ch, i);
            dx[at] = eq[c] * a->t[ROLE_DY][at] + eq[channels + c] * x[at] + eq[2 * channels + c];
        }
    }
}

void ref_bn_bwd_apply(const struct ref_args *a)
{
    multiply_add(a, a->t[ROLE_X], a->t[ROLE_EQ], a->t[ROLE_DX]);
    if (a->t[ROLE_Z])
        multiply_add(a, a->t[ROLE_Z], a->t[ROLE_Z_EQ], a->t[ROLE_DZ]);
}

static void forward_sums(const struct ref_args *a, const struct ref_channel *ch, double *sum,
                         double *squares)
{
    *sum = *squares = 0;
    for (int64_t i = 0; i < ch->count; i++) {
        double x = a->t[ROLE_X][ref_channel_at(ch, i)];
        *sum += x;
        *squares += x * x;
    }
}

int64_t ref_bn_channels(const struct op_desc *d)
{
    return d->kind == OP_BN_FINALIZE ? d->t[ROLE_GAMMA].dim[0] : d->t[ROLE_X].dim[1];
}

/* Writes the sums and the count of this rank to a->sync. */
static void own_sums(const struct ref_args *a, int64_t channels)
{
    const struct tensor_desc *x = &a->d->t[ROLE_X];
    if (a->d->kind == OP_BN_FINALIZE) {
        memcpy(a->sync, a->t[ROLE_SUMS], 2 * (size_t)channels * sizeof *a->sync);
        a->sync[2 * channels] = (double)a->d->attr.bn.count;
        return;
    }
    for (int64_t c = 0; c < channels; c++) {
        struct ref_channel ch = ref_channel_of(x, c);
        double *first = a->sync + c, *second = a->sync + channels + c;
        if (a->d->kind == OP_BN_BWD)
            gradient_sums(a, &ch, first, second);
        else
            forward_sums(a, &ch, first, second);
        a->sync[2 * channels] = (double)ch.count;
    }
}

enum status ref_bn_sync(const struct ref_args *a)
{
    int64_t channels = ref_bn_channels(a->d);
    own_sums(a, channels);
    return bn_sync_sum(a->d->attr.bn.sync, a->sync, channels);
}
