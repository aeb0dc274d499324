/* Batch norm: training, evaluation, gradients; with the residual and ReLU that follow it. */
#include "kernels/ref/formulas.h"

#include <math.h>

/* The values of one channel, numbered 0..count-1 over (n, h, w). */
struct channel {
    int64_t c, channels, plane, count;
};

static struct channel channel_of(const struct tensor_desc *x, int64_t c)
{
    int64_t plane = x->dim[2] * x->dim[3];
    return (struct channel){c, x->dim[1], plane, x->dim[0] * plane};
}

static int64_t channel_at(const struct channel *ch, int64_t i)
{
    return (i / ch->plane * ch->channels + ch->c) * ch->plane + i % ch->plane;
}

static void bn_apply(const struct ref_args *a, const struct channel *ch, double mean, double invstd)
{
    double gamma = a->t[ROLE_GAMMA][ch->c], beta = a->t[ROLE_BETA][ch->c];
    for (int64_t i = 0; i < ch->count; i++) {
        int64_t at = channel_at(ch, i);
        double y = (a->t[ROLE_X][at] - mean) * invstd * gamma + beta;
        if (a->t[ROLE_Z])
            y += a->t[ROLE_Z][at];
        a->t[ROLE_Y][at] = a->d->attr.bn.relu ? ref_relu(y) : y;
    }
}

/* Mean and sum of squares about it, of this rank's values or of those of all ranks. */
struct moments {
    double mean, squares, count;
};

static struct moments moments_of(const struct ref_args *a, const struct channel *ch)
{
    const double *x = a->t[ROLE_X];
    double sum = 0, squares = 0, count = (double)ch->count;
    if (a->sync) {
        sum = a->sync[ch->c];
        count = a->sync[2 * ch->channels];
        squares = a->sync[ch->channels + ch->c] - sum * sum / count;
        return (struct moments){sum / count, squares < 0 ? 0 : squares, count};
    }
    for (int64_t i = 0; i < ch->count; i++)
        sum += x[channel_at(ch, i)];
    double mean = sum / count;
    for (int64_t i = 0; i < ch->count; i++) {
        double centred = x[channel_at(ch, i)] - mean;
        squares += centred * centred;
    }
    return (struct moments){mean, squares, count};
}

void ref_bn_fwd_train(const struct ref_args *a)
{
    const struct bn_attr *attr = &a->d->attr.bn;
    for (int64_t c = 0; c < a->d->t[ROLE_X].dim[1]; c++) {
        struct channel ch = channel_of(&a->d->t[ROLE_X], c);
        struct moments k = moments_of(a, &ch);
        double biased = k.squares / k.count, unbiased = k.squares / (k.count - 1);
        double m = (double)attr->momentum;
        a->t[ROLE_MEAN][c] = k.mean;
        a->t[ROLE_INVSTD][c] = 1 / sqrt(biased + (double)attr->eps);
        a->t[ROLE_RMEAN][c] = (1 - m) * a->t[ROLE_RMEAN][c] + m * k.mean;
        a->t[ROLE_RVAR][c] = (1 - m) * a->t[ROLE_RVAR][c] + m * unbiased;
        bn_apply(a, &ch, k.mean, a->t[ROLE_INVSTD][c]);
    }
}

void ref_bn_fwd_eval(const struct ref_args *a)
{
    for (int64_t c = 0; c < a->d->t[ROLE_X].dim[1]; c++) {
        struct channel ch = channel_of(&a->d->t[ROLE_X], c);
        double invstd = 1 / sqrt(a->t[ROLE_RVAR][c] + (double)a->d->attr.bn.eps);
        bn_apply(a, &ch, a->t[ROLE_RMEAN][c], invstd);
    }
}

/* The gradient that reaches the normalised value: DY [+ DY2], cut off where ReLU was. */
static double bn_incoming(const struct ref_args *a, int64_t at)
{
    double d = a->t[ROLE_DY][at];
    if (a->t[ROLE_DY2])
        d += a->t[ROLE_DY2][at];
    return a->d->attr.bn.relu && !(a->t[ROLE_Y][at] > 0) ? 0 : d;
}

/* Adds up d and d * (x - mean). */
static void gradient_sums(const struct ref_args *a, const struct channel *ch, double *sum,
                          double *centred)
{
    *sum = *centred = 0;
    for (int64_t i = 0; i < ch->count; i++) {
        int64_t at = channel_at(ch, i);
        double d = bn_incoming(a, at);
        *sum += d;
        *centred += d * (a->t[ROLE_X][at] - a->t[ROLE_MEAN][ch->c]);
    }
}

void ref_bn_bwd(const struct ref_args *a)
{
    for (int64_t c = 0; c < a->d->t[ROLE_X].dim[1]; c++) {
        struct channel ch = channel_of(&a->d->t[ROLE_X], c);
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
            int64_t at = channel_at(&ch, i);
            double d = bn_incoming(a, at);
            double normalised = (a->t[ROLE_X][at] - mean) * invstd;
            a->t[ROLE_DX][at] = a->t[ROLE_GAMMA][c] * invstd *
                                (d - sum / count - normalised * centred * invstd / count);
            if (a->t[ROLE_DZ])
                a->t[ROLE_DZ][at] = d;
        }
    }
}

static void forward_sums(const struct ref_args *a, const struct channel *ch, double *sum,
                         double *squares)
{
    *sum = *squares = 0;
    for (int64_t i = 0; i < ch->count; i++) {
        double x = a->t[ROLE_X][channel_at(ch, i)];
        *sum += x;
        *squares += x * x;
    }
}

enum status ref_bn_sync(const struct ref_args *a)
{
    int64_t channels = a->d->t[ROLE_X].dim[1];
    for (int64_t c = 0; c < channels; c++) {
        struct channel ch = channel_of(&a->d->t[ROLE_X], c);
        double *first = a->sync + c, *second = a->sync + channels + c;
        if (a->d->kind == OP_BN_BWD)
            gradient_sums(a, &ch, first, second);
        else
            forward_sums(a, &ch, first, second);
        a->sync[2 * channels] = (double)ch.count;
    }
    return bn_sync_sum(a->d->attr.bn.sync, a->sync, channels);
}
