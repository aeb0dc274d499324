/* The steps of batch norm on a panel of channels: sums, coefficients, and writing the results; bn.c
 * says how they fit together. */
#include "kernels/cpu/bn_steps.h"

#include <math.h>

/* A channel's shift is the mean of at most this many values. */
enum { SHIFT_PIXELS = 1024 };

/* The address of element `offset` of an activation; NULL if the activation is absent. */
static void *activation_at(const struct bn_run *r, enum role role, int64_t offset)
{
    bool present = r->plan->base.desc.t[role].ndim != 0;
    return present ? element_at(r->arg[role], r->plan->element, offset) : NULL;
}

/* The signs of the ReLU's results from element `offset` on; NULL without a mask. */
static bn_signs *signs_at(const struct bn_run *r, int64_t offset)
{
    bool present = r->plan->base.desc.t[ROLE_MASK].ndim != 0;
    return present ? (bn_signs *)r->arg[ROLE_MASK] + offset / LINE : NULL;
}

/* Sets each channel's shift to the mean of the first pixels of the first image. */
static void forward_shift(const struct bn_run *r, int64_t panel)
{
    const struct bn_shape *s = &r->plan->shape;
    static const float zero[LINE];
    int64_t pixels = s->spatial < SHIFT_PIXELS ? s->spatial : SHIFT_PIXELS;
    double sum[PANEL_LANES] = {0}, squares[PANEL_LANES] = {0};
    for (struct bn_cursor c = bn_cursor_at(s, panel, 0, pixels); bn_cursor_next(&c);)
        r->plan->kernels->moments(c.patch, activation_at(r, ROLE_X, c.offset), zero, sum + c.lane,
                                  squares + c.lane);
    bn_panel_fold(s, panel, sum, r->sum[0]);
    int64_t first, end;
    bn_panel_channels(s, panel, &first, &end);
    for (int64_t c = first; c < end; c++)
        r->shift[c] = (float)(r->sum[0][c] / (double)pixels);
}

static void forward_sums(const struct bn_run *r, int64_t panel, int64_t image)
{
    const struct bn_shape *s = &r->plan->shape;
    float shift[PANEL_LANES];
    double s1[PANEL_LANES] = {0}, s2[PANEL_LANES] = {0};
    bn_panel_spread(s, panel, r->shift, shift);
    for (struct bn_cursor c = bn_cursor_at(s, panel, image, s->spatial); bn_cursor_next(&c);)
        r->plan->kernels->moments(c.patch, activation_at(r, ROLE_X, c.offset), shift + c.lane,
                                  s1 + c.lane, s2 + c.lane);
    bn_panel_fold(s, panel, s1, r->sum[0] + image * s->channels);
    bn_panel_fold(s, panel, s2, r->sum[1] + image * s->channels);
}

static double sum_over_images(const struct bn_run *r, int which, int64_t channel)
{
    const struct bn_shape *s = &r->plan->shape;
    double sum = 0;
    for (int64_t n = 0; n < s->images; n++)
        sum += r->sum[which][n * s->channels + channel];
    return sum;
}

/* Returns a channel's parameter or running statistic. */
static double channel_get(const struct bn_run *r, enum role role, int64_t c)
{
    return (double)dtype_round(r->plan->base.desc.t[role].rounds, ((const float *)r->arg[role])[c]);
}

static void channel_put(const struct bn_run *r, enum role role, int64_t c, double v)
{
    ((float *)r->arg[role])[c] = dtype_round(r->plan->base.desc.t[role].rounds, (float)v);
}

/* Sets the coefficients of y = (x - mean) * invstd * gamma + beta. The mean is rounded to float
 * before it is subtracted; the bias corrects the rounding. */
static void set_affine(const struct bn_run *r, int64_t c, double mean, double invstd)
{
    double scale = channel_get(r, ROLE_GAMMA, c) * invstd;
    r->mean[c] = (float)mean;
    r->scale[c] = (float)scale;
    r->bias[c] = (float)(channel_get(r, ROLE_BETA, c) - (mean - (double)r->mean[c]) * scale);
}

/* Writes this rank's sums of x and x^2 to the totals. It first removes the shift from the sums,
 * because ranks have different shifts. */
static void forward_gather(const struct bn_run *r, int64_t panel)
{
    const struct bn_shape *s = &r->plan->shape;
    double n = (double)(s->images * s->spatial);
    int64_t first, end;
    bn_panel_channels(s, panel, &first, &end);
    for (int64_t c = first; c < end; c++) {
        double shift = r->shift[c], s1 = sum_over_images(r, 0, c), s2 = sum_over_images(r, 1, c);
        r->total[c] = s1 + n * shift;
        r->total[s->channels + c] = s2 + shift * (2 * s1 + n * shift);
    }
}

/* The mean of the values, and the sum of the squared differences from this mean. The values are
 * those of this rank, or of all ranks. */
struct bn_moments {
    double mean, squares, count;
};

static struct bn_moments moments_of(const struct bn_run *r, int64_t c)
{
    const struct bn_shape *s = &r->plan->shape;
    double n = (double)(s->images * s->spatial), shift = r->shift[c], s1, s2;
    if (r->total) {
        n = r->total[2 * s->channels];
        shift = 0;
        s1 = r->total[c];
        s2 = r->total[s->channels + c];
    } else {
        s1 = sum_over_images(r, 0, c);
        s2 = sum_over_images(r, 1, c);
    }
    double squares = s2 - s1 * s1 / n;
    return (struct bn_moments){
        .mean = shift + s1 / n,
        .squares = squares < 0 ? 0 : squares, /* a NaN stays NaN */
        .count = n,
    };
}

static void forward_finish(const struct bn_run *r, int64_t panel)
{
    const struct bn_attr *attr = &r->plan->base.desc.attr.bn;
    float *mean_out = r->arg[ROLE_MEAN], *invstd_out = r->arg[ROLE_INVSTD];
    double m = attr->momentum;
    int64_t first, end;
    bn_panel_channels(&r->plan->shape, panel, &first, &end);
    for (int64_t c = first; c < end; c++) {
        struct bn_moments k = moments_of(r, c);
        double invstd = 1.0 / sqrt(k.squares / k.count + (double)attr->eps);
        mean_out[c] = (float)k.mean;
        invstd_out[c] = (float)invstd;
        channel_put(r, ROLE_RMEAN, c, (1.0 - m) * channel_get(r, ROLE_RMEAN, c) + m * k.mean);
        channel_put(r, ROLE_RVAR, c,
                    (1.0 - m) * channel_get(r, ROLE_RVAR, c) + m * k.squares / (k.count - 1.0));
        /* Uses the stored mean and invstd, so that OP_BN_APPLY computes the same coefficients. */
        set_affine(r, c, mean_out[c], invstd_out[c]);
    }
}

static void eval_finish(const struct bn_run *r, int64_t panel)
{
    double eps = r->plan->base.desc.attr.bn.eps;
    int64_t first, end;
    bn_panel_channels(&r->plan->shape, panel, &first, &end);
    for (int64_t c = first; c < end; c++)
        set_affine(r, c, channel_get(r, ROLE_RMEAN, c),
                   1.0 / sqrt(channel_get(r, ROLE_RVAR, c) + eps));
}

static void apply_finish(const struct bn_run *r, int64_t panel)
{
    const float *mean = r->arg[ROLE_MEAN], *invstd = r->arg[ROLE_INVSTD];
    int64_t first, end;
    bn_panel_channels(&r->plan->shape, panel, &first, &end);
    for (int64_t c = first; c < end; c++)
        set_affine(r, c, mean[c], invstd[c]);
}

static void forward_write(const struct bn_run *r, int64_t panel, int64_t image)
{
    const struct bn_shape *s = &r->plan->shape;
    bool relu = r->plan->base.desc.attr.bn.relu;
    float mean[PANEL_LANES], scale[PANEL_LANES], bias[PANEL_LANES];
    bn_panel_spread(s, panel, r->mean, mean);
    bn_panel_spread(s, panel, r->scale, scale);
    bn_panel_spread(s, panel, r->bias, bias);
    for (struct bn_cursor c = bn_cursor_at(s, panel, image, s->spatial); bn_cursor_next(&c);) {
        struct bn_affine k = {mean + c.lane, scale + c.lane, bias + c.lane};
        r->plan->kernels->apply(
            c.patch, activation_at(r, ROLE_X, c.offset), activation_at(r, ROLE_Z, c.offset),
            activation_at(r, ROLE_Y, c.offset), signs_at(r, c.offset), k, relu, r->plan->stream);
    }
}

const struct bn_steps bn_train_steps = {
    .shift = forward_shift,
    .sums = forward_sums,
    .gather = forward_gather,
    .finish = forward_finish,
    .write = forward_write,
};

const struct bn_steps bn_eval_steps = {
    .finish = eval_finish,
    .write = forward_write,
};

const struct bn_steps bn_apply_steps = {
    .finish = apply_finish,
    .write = forward_write,
};

static struct bn_grad grad_at(const struct bn_run *r, int64_t offset)
{
    bool relu = r->plan->base.desc.attr.bn.relu;
    bn_signs *signs = signs_at(r, offset);
    return (struct bn_grad){
        .dy = activation_at(r, ROLE_DY, offset),
        .dy2 = activation_at(r, ROLE_DY2, offset),
        .y = relu && !signs ? activation_at(r, ROLE_Y, offset) : NULL,
        .signs = relu ? signs : NULL,
    };
}

static void backward_sums(const struct bn_run *r, int64_t panel, int64_t image)
{
    const struct bn_shape *s = &r->plan->shape;
    float mean[PANEL_LANES];
    double sd[PANEL_LANES] = {0}, sdx[PANEL_LANES] = {0};
    bn_panel_spread(s, panel, r->arg[ROLE_MEAN], mean);
    for (struct bn_cursor c = bn_cursor_at(s, panel, image, s->spatial); bn_cursor_next(&c);)
        r->plan->kernels->grad_sums(
            c.patch, grad_at(r, c.offset), activation_at(r, ROLE_X, c.offset),
            activation_at(r, ROLE_DZ, c.offset), mean + c.lane, sd + c.lane, sdx + c.lane);
    bn_panel_fold(s, panel, sd, r->sum[0] + image * s->channels);
    bn_panel_fold(s, panel, sdx, r->sum[1] + image * s->channels);
}

static void backward_gather(const struct bn_run *r, int64_t panel)
{
    const struct bn_shape *s = &r->plan->shape;
    int64_t first, end;
    bn_panel_channels(s, panel, &first, &end);
    for (int64_t c = first; c < end; c++) {
        r->total[c] = sum_over_images(r, 0, c);
        r->total[s->channels + c] = sum_over_images(r, 1, c);
    }
}

/* d is the gradient of batch norm's result, and n is the number of values of the channel. With
 * xhat = (x - mean) * invstd and a = gamma * invstd,
 *   dx = a * (d - sum(d) / n - xhat * sum(d * xhat) / n) = a * d + (x - mean) * slope + bias. */
static void backward_finish(const struct bn_run *r, int64_t panel)
{
    const struct bn_shape *s = &r->plan->shape;
    const float *mean = r->arg[ROLE_MEAN], *invstd = r->arg[ROLE_INVSTD];
    double n = (double)(s->images * s->spatial);
    int64_t first, end;
    bn_panel_channels(s, panel, &first, &end);
    for (int64_t c = first; c < end; c++) {
        double sd = sum_over_images(r, 0, c);
        double sdxhat = sum_over_images(r, 1, c) * invstd[c];
        double scale = channel_get(r, ROLE_GAMMA, c) * invstd[c];
        channel_put(r, ROLE_DBETA, c, sd);
        channel_put(r, ROLE_DGAMMA, c, sdxhat);
        if (r->total) {
            sd = r->total[c];
            sdxhat = r->total[s->channels + c] * invstd[c];
            n = r->total[2 * s->channels];
        }
        r->mean[c] = mean[c];
        r->scale[c] = (float)scale;
        r->slope[c] = (float)(-scale * invstd[c] * sdxhat / n);
        r->bias[c] = (float)(-scale * sd / n);
    }
}

static void backward_write(const struct bn_run *r, int64_t panel, int64_t image)
{
    const struct bn_shape *s = &r->plan->shape;
    float mean[PANEL_LANES], scale[PANEL_LANES], slope[PANEL_LANES], bias[PANEL_LANES];
    bn_panel_spread(s, panel, r->mean, mean);
    bn_panel_spread(s, panel, r->scale, scale);
    bn_panel_spread(s, panel, r->slope, slope);
    bn_panel_spread(s, panel, r->bias, bias);
    for (struct bn_cursor c = bn_cursor_at(s, panel, image, s->spatial); bn_cursor_next(&c);) {
        void *dx = activation_at(r, ROLE_DX, c.offset);
        const void *dz = activation_at(r, ROLE_DZ, c.offset);
        struct bn_grad g = dz ? (struct bn_grad){.dy = dz} : grad_at(r, c.offset);
        struct bn_affine_grad k = {mean + c.lane, scale + c.lane, slope + c.lane, bias + c.lane};
        /* If DX shares memory with DY or DY2, this memory is already in the cache, so stores use
         * the cache. */
        bool stream = r->plan->stream && dx != g.dy && dx != g.dy2;
        r->plan->kernels->grad_apply(c.patch, g, activation_at(r, ROLE_X, c.offset), dx, k, stream);
    }
}

const struct bn_steps bn_backward_steps = {
    .sums = backward_sums,
    .gather = backward_gather,
    .finish = backward_finish,
    .write = backward_write,
};
