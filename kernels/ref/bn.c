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

void ref_bn_fwd_train(const struct ref_args *a)
{
    const struct bn_attr *attr = &a->d->attr.bn;
    const double *x = a->t[ROLE_X];
    for (int64_t c = 0; c < a->d->t[ROLE_X].dim[1]; c++) {
        struct channel ch = channel_of(&a->d->t[ROLE_X], c);
        double sum = 0, squares = 0;
        for (int64_t i = 0; i < ch.count; i++)
            sum += x[channel_at(&ch, i)];
        double mean = sum / (double)ch.count;
        for (int64_t i = 0; i < ch.count; i++) {
            double centred = x[channel_at(&ch, i)] - mean;
            squares += centred * centred;
        }
        double biased = squares / (double)ch.count, unbiased = squares / (double)(ch.count - 1);
        double m = (double)attr->momentum;
        a->t[ROLE_MEAN][c] = mean;
        a->t[ROLE_INVSTD][c] = 1 / sqrt(biased + (double)attr->eps);
        a->t[ROLE_RMEAN][c] = (1 - m) * a->t[ROLE_RMEAN][c] + m * mean;
        a->t[ROLE_RVAR][c] = (1 - m) * a->t[ROLE_RVAR][c] + m * unbiased;
        bn_apply(a, &ch, mean, a->t[ROLE_INVSTD][c]);
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

void ref_bn_bwd(const struct ref_args *a)
{
    for (int64_t c = 0; c < a->d->t[ROLE_X].dim[1]; c++) {
        struct channel ch = channel_of(&a->d->t[ROLE_X], c);
        double mean = a->t[ROLE_MEAN][c], invstd = a->t[ROLE_INVSTD][c];
        double dgamma = 0, dbeta = 0, count = (double)ch.count;
        for (int64_t i = 0; i < ch.count; i++) {
            int64_t at = channel_at(&ch, i);
            double d = bn_incoming(a, at);
            dbeta += d;
            dgamma += d * (a->t[ROLE_X][at] - mean) * invstd;
        }
        for (int64_t i = 0; i < ch.count; i++) {
            int64_t at = channel_at(&ch, i);
            double d = bn_incoming(a, at);
            double normalised = (a->t[ROLE_X][at] - mean) * invstd;
            a->t[ROLE_DX][at] =
                a->t[ROLE_GAMMA][c] * invstd * (d - dbeta / count - normalised * dgamma / count);
            if (a->t[ROLE_DZ])
                a->t[ROLE_DZ][at] = d;
        }
        a->t[ROLE_DGAMMA][c] = dgamma;
        a->t[ROLE_DBETA][c] = dbeta;
    }
}
