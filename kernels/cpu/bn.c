/* Batch norm: forward in training and evaluation, and backward.
 *
 * All three operations have the same steps: sums over a panel's images, coefficients from the sums,
 * and a pass that writes the results. The values of an image are summed in small groups, in float.
 * The sums of the groups are added in double. Last, the sums of the images are added in order.
 *
 * Forward computes the sums of (x - shift) and of its square in one pass. If shift is the mean of m
 * of the channel's n values,
 *   n * (mean - shift)^2 <= (n / m) * sum((x - mean)^2).
 * Subtracting the left side from sum((x - shift)^2) gives sum((x - mean)^2). This loses at most a
 * factor n / m of precision, however large the channel's mean is; in practice it loses no
 * precision.
 *
 * With statistics over several ranks (struct bn_sync), all threads wait between the sums and the
 * coefficients while the ranks exchange their sums.
 *
 * All activations have the same kind of element. Parameters and running statistics are stored as
 * fp32, but their values may be rounded to another type. If there is a DZ, the first backward pass
 * writes it, and the second backward pass reads DZ in place of DY, DY2 and Y.
 *
 * A MASK has this backend's own order: bit i % 16 of its 16-bit word i / 16 belongs to the element
 * at offset i of X. */
#include "kernels/cpu/internal.h"
#include "kernels/cpu/kernels.h"

#include <math.h>

/* --- patches --- */

/* How batch norm cuts activations of any layout into patches (see struct bn_patch).
 *
 * A unit is the channels that a line contains: one channel of a plain tensor, one block of a
 * blocked tensor, sixteen adjacent channels of an NHWC tensor. A panel is a few units, and the
 * steps of an operation are executed for a panel, or for its part of an image. Results do not
 * depend on the number of threads, because sums have a fixed order, and the sizes of units and
 * panels are the same for any number of threads. */
enum { PANEL_UNITS = 16, PANEL_LANES = PANEL_UNITS * LINE };

struct bn_shape {
    int64_t images;
    int64_t channels;
    int64_t spatial;     /* H * W */
    int64_t width;       /* number of channels of a unit: 1, 8 or 16 */
    int64_t units;       /* number of units of all channels */
    int64_t panel_units; /* number of units of one panel, at most PANEL_UNITS */
    int64_t panels;
    bool contiguous; /* a unit of one image is contiguous in memory; false: NHWC */
    int64_t strip;   /* pixels of a patch */
};

/* Number of floats that a panel has in one image; this is several pages of memory, because only
 * inside such a run are lines prefetched in time. Units with fewer floats share a panel. */
enum { PANEL_FLOATS = 12800 };

/* In an NHWC panel, sixteen channels of STRIP_PIXELS pixels are read before the next sixteen
 * channels. The reads of each pixel are one stream, and the hardware prefetchers can track
 * STRIP_PIXELS streams. */
enum { STRIP_PIXELS = 32 };

static int64_t clamp(int64_t v, int64_t low, int64_t high)
{
    return v < low ? low : v > high ? high : v;
}

static struct bn_shape bn_shape_of(const struct tensor_desc *x)
{
    int64_t block = tensor_block(x);
    struct bn_shape s = {
        .images = x->dim[0],
        .channels = x->dim[1],
        .spatial = x->dim[2] * x->dim[3],
        .contiguous = LINE % block == 0,
    };
    if (s.contiguous) {
        s.width = block;
        s.panel_units = clamp(PANEL_FLOATS / (s.spatial * block), 1, PANEL_UNITS);
        s.strip = s.spatial;
    } else {
        s.width = LINE;
        s.panel_units = PANEL_UNITS;
        /* If the last unit is partial, each of its lines is a tail. A patch has at most one tail,
         * so each patch is then a single pixel. */
        s.strip = block % LINE == 0 ? STRIP_PIXELS : 1;
    }
    s.units = (s.channels + s.width - 1) / s.width;
    s.panels = (s.units + s.panel_units - 1) / s.panel_units;
    return s;
}

/* The patches of a panel in the first `pixels` pixels of an image, in memory order if the layout
 * allows that:
 *     for (struct bn_cursor c = bn_cursor_at(shape, panel, image, pixels); bn_cursor_next(&c);) */
struct bn_cursor {
    struct bn_patch patch;
    int64_t offset; /* offset of the patch in the tensor, elements */
    int64_t lane;   /* index of the patch's first lane in arrays of PANEL_LANES */

    const struct bn_shape *shape;
    int64_t image, pixels;
    int64_t first, count; /* the panel's units */
    int64_t unit, pixel;  /* where the next patch begins; `unit` counts from `first` */
};

static struct bn_cursor bn_cursor_at(const struct bn_shape *s, int64_t panel, int64_t image,
                                     int64_t pixels)
{
    int64_t first = panel * s->panel_units;
    return (struct bn_cursor){
        .shape = s,
        .image = image,
        .pixels = pixels,
        .first = first,
        .count = clamp(s->units - first, 0, s->panel_units),
    };
}

static bool bn_cursor_next(struct bn_cursor *c)
{
    const struct bn_shape *s = c->shape;
    if (c->unit == c->count) {
        c->unit = 0;
        c->pixel += s->strip;
    }
    if (c->pixel >= c->pixels)
        return false;
    int64_t unit = c->first + c->unit;
    if (s->contiguous) {
        int64_t floats = c->pixels * s->width;
        c->patch = (struct bn_patch){floats / LINE, LINE, (int)(floats % LINE)};
        c->offset = (c->image * s->units + unit) * s->spatial * s->width;
    } else {
        int64_t left = s->channels - unit * LINE;
        int64_t lines = clamp(c->pixels - c->pixel, 1, s->strip);
        c->patch = left >= LINE ? (struct bn_patch){lines, s->channels, 0}
                                : (struct bn_patch){0, s->channels, (int)left};
        c->offset = (c->image * s->spatial + c->pixel) * s->channels + unit * LINE;
    }
    c->lane = c->unit * LINE;
    c->unit++;
    return true;
}

/* Sets [*first, *end) to the panel's channels. */
static void bn_panel_channels(const struct bn_shape *s, int64_t panel, int64_t *first, int64_t *end)
{
    *first = clamp(panel * s->panel_units * s->width, 0, s->channels);
    *end = clamp((panel + 1) * s->panel_units * s->width, 0, s->channels);
}

/* Sets lane[i] to the value of its channel, for all lanes of a panel; `of_channel` has a value per
 * channel of the tensor. Lanes without a channel become 0. */
static void bn_panel_spread(const struct bn_shape *s, int64_t panel, const float *of_channel,
                            float lane[PANEL_LANES])
{
    int64_t first, end;
    bn_panel_channels(s, panel, &first, &end);
    for (int64_t begin = first; begin < end; begin += s->width)
        for (int again = 0; again < LINE; again += (int)s->width)
            for (int64_t c = begin; c < begin + s->width; c++)
                *lane++ = c < end ? of_channel[c] : 0;
}

/* The reverse of bn_panel_spread: of_channel[c] = sum of the lanes that belong to channel c. */
static void bn_panel_fold(const struct bn_shape *s, int64_t panel, const double lane[PANEL_LANES],
                          double *of_channel)
{
    int64_t first, end;
    bn_panel_channels(s, panel, &first, &end);
    for (int64_t begin = first; begin < end; begin += s->width, lane += LINE)
        for (int64_t c = begin; c < end && c < begin + s->width; c++) {
            double sum = 0;
            for (int64_t i = c - begin; i < LINE; i += s->width)
                sum += lane[i];
            of_channel[c] = sum;
        }
}

/* --- the steps on a panel of channels --- */

struct bn_plan {
    struct op_plan base;
    const struct bn_kernels *kernels;
    const struct bn_steps *steps;
    struct bn_shape shape;
    bool stream;          /* stores of results bypass the caches */
    enum element element; /* of activations */
    int64_t round;        /* panels of a round: see bn_execute */
};

/* One execution: the plan, its tensors, and the parts of its workspace. */
struct bn_run {
    const struct bn_plan *plan;
    void *const *arg;
    double *sum[2]; /* (images, channels) */
    double *total;  /* (2 * channels + 1), totals over all ranks (struct bn_sync); NULL: statistics
                     * of this rank alone */
    float *shift;   /* (channels), like the arrays below */
    float *mean, *scale, *bias, *slope;
};

/* The steps of one kind of operation. `shift` and `sums` may be NULL. `gather` writes this rank's
 * sums to the totals; it is NULL for kinds without sums. */
struct bn_steps {
    void (*shift)(const struct bn_run *r, int64_t panel);
    void (*sums)(const struct bn_run *r, int64_t panel, int64_t image);
    void (*gather)(const struct bn_run *r, int64_t panel);
    void (*finish)(const struct bn_run *r, int64_t panel);
    void (*write)(const struct bn_run *r, int64_t panel, int64_t image);
};

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
        /* Uses the stored mean and invstd, as the backward pass does. */
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

static const struct bn_steps bn_train_steps = {
    .shift = forward_shift,
    .sums = forward_sums,
    .gather = forward_gather,
    .finish = forward_finish,
    .write = forward_write,
};

static const struct bn_steps bn_eval_steps = {
    .finish = eval_finish,
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

static const struct bn_steps bn_backward_steps = {
    .sums = backward_sums,
    .gather = backward_gather,
    .finish = backward_finish,
    .write = backward_write,
};

/* --- execution --- */

/* Executes the steps up to the sums, for panels [first, end). Every thread of the parallel region
 * must call it, because each loop ends in a barrier. */
static void run_sums(const struct bn_run *r, int64_t first, int64_t end)
{
    const struct bn_steps *steps = r->plan->steps;
    int64_t panels = end - first, pieces = panels * r->plan->shape.images;
    if (steps->shift) {
#pragma omp for
        for (int64_t p = first; p < end; p++)
            steps->shift(r, p);
    }
    if (steps->sums) {
#pragma omp for
        for (int64_t i = 0; i < pieces; i++)
            steps->sums(r, first + i % panels, i / panels);
    }
}

/* Does the same from the coefficients on. */
static void run_results(const struct bn_run *r, int64_t first, int64_t end)
{
    const struct bn_steps *steps = r->plan->steps;
    int64_t panels = end - first, pieces = panels * r->plan->shape.images;
#pragma omp for
    for (int64_t p = first; p < end; p++)
        steps->finish(r, p);
#pragma omp for
    for (int64_t i = 0; i < pieces; i++)
        steps->write(r, first + i % panels, i / panels);
}

/* Executes a batch norm with statistics over several ranks: the steps up to the sums, the sum over
 * ranks, then the other steps. */
static enum status run_with_others(const struct bn_run *r)
{
    const struct op_plan *base = &r->plan->base;
    const struct bn_shape *s = &r->plan->shape;
#pragma omp parallel num_threads(base->device->threads)
    {
        run_sums(r, 0, s->panels);
#pragma omp for
        for (int64_t p = 0; p < s->panels; p++)
            r->plan->steps->gather(r, p);
    }
    r->total[2 * s->channels] = (double)(s->images * s->spatial);
    TRY(bn_sync_sum(base->desc.attr.bn.sync, r->total, s->channels));
#pragma omp parallel num_threads(base->device->threads)
    run_results(r, 0, s->panels);
    return STATUS_OK;
}

/* Sizes of the workspace's pieces in bytes. */
static size_t sum_bytes(const struct bn_shape *s)
{
    return cpu_align((size_t)(s->images * s->channels) * sizeof(double));
}

static size_t channel_bytes(const struct bn_shape *s)
{
    return cpu_align((size_t)s->channels * sizeof(float));
}

/* Bytes of the totals; 0 without sums over ranks. */
static size_t total_bytes(const struct bn_plan *p)
{
    if (!p->steps->gather || !p->base.desc.attr.bn.sync)
        return 0;
    return cpu_align((size_t)(2 * p->shape.channels + 1) * sizeof(double));
}

static struct bn_run bn_run_of(const struct bn_plan *p, void *const arg[ROLE_COUNT])
{
    char *w = arg[ROLE_WORKSPACE];
    size_t sums = sum_bytes(&p->shape), channels = channel_bytes(&p->shape);
    float *f = (float *)(w + 2 * sums);
    size_t step = channels / sizeof(float);
    return (struct bn_run){
        .plan = p,
        .arg = arg,
        .sum = {(double *)w, (double *)(w + sums)},
        .total = total_bytes(p) ? (double *)(w + 2 * sums + 5 * channels) : NULL,
        .shift = f,
        .mean = f + step,
        .scale = f + 2 * step,
        .bias = f + 3 * step,
        .slope = f + 4 * step,
    };
}

/* All threads share each step: each has some images, as in convolutions, because a processor reads
 * what it wrote itself faster than what another wrote. All steps of a round of panels come before
 * the next round, so that the second pass finds the panels in the caches. */
static enum status bn_execute(struct op_plan *base, void *const arg[ROLE_COUNT], struct stream *s)
{
    (void)s;
    const struct bn_plan *p = (const struct bn_plan *)base;
    struct bn_run run = bn_run_of(p, arg);
    if (run.total)
        return run_with_others(&run);
#pragma omp parallel num_threads(base->device->threads)
    for (int64_t i = 0; i < p->shape.panels; i += p->round) {
        int64_t end = clamp(i + p->round, 0, p->shape.panels);
        run_sums(&run, i, end);
        run_results(&run, i, end);
    }
    return STATUS_OK;
}

/* Predicts the time from the memory traffic, at a nominal bandwidth. A plan that reads Y and a plan
 * that reads the signs of Y differ only in this traffic. The time is not measured, because measured
 * times could make two runs choose different plans. */
static enum status bn_seconds(struct op_plan *plan, double *seconds)
{
    const double bytes_per_second = 20e9;
    double bytes = 0;
    for (int r = 0; r < ROLE_COUNT; r++)
        if (plan->desc.t[r].ndim)
            bytes += (double)plan->desc.t[r].bytes;
    *seconds = bytes / bytes_per_second;
    return STATUS_OK;
}

static enum status bn_plan_new(struct device *dev, const struct op_desc *desc,
                               const struct bn_steps *steps, struct op_plan **plan)
{
    TRY(cpu_plan_new(dev, desc, sizeof(struct bn_plan), bn_execute, plan));
    struct bn_plan *p = (struct bn_plan *)*plan;
    p->element = element_of(&desc->t[ROLE_X]);
    p->kernels = cpu_device_of(dev)->kernels->bn[p->element];
    p->steps = steps;
    p->shape = bn_shape_of(&desc->t[ROLE_X]);
    int64_t panels = p->shape.panels, bytes = (int64_t)desc->t[ROLE_X].bytes;
    int64_t cached = (int64_t)cpu_device_of(dev)->stream_bytes;
    p->stream = bytes >= cached;
    p->round = clamp(cached / 2 * dev->threads * panels / (bytes + 1), 1, panels);
    p->base.seconds = bn_seconds;
    p->base.workspace = 2 * sum_bytes(&p->shape) + 5 * channel_bytes(&p->shape) + total_bytes(p);
    return STATUS_OK;
}

static enum status take_all(struct op_desc *d)
{
    static const enum role like_x[] = {ROLE_X, ROLE_Y, ROLE_Z, ROLE_DX, ROLE_DY, ROLE_DY2, ROLE_DZ};
    static const enum role of_channels[] = {ROLE_GAMMA, ROLE_BETA,   ROLE_RMEAN,
                                            ROLE_RVAR,  ROLE_DGAMMA, ROLE_DBETA};
    struct bn_shape shape = bn_shape_of(&d->t[ROLE_X]);
    /* every patch must begin at a multiple of LINE elements, and have no tail */
    int64_t row = shape.contiguous ? shape.spatial * shape.width : shape.channels;
    if (d->t[ROLE_MASK].ndim && row % LINE != 0)
        return status_fail(STATUS_UNSUPPORTED, "batch norm on the CPU has no mask for this shape");
    TRY(cpu_take(d, ROLE_MASK, DTYPE_U8, LAYOUT_OPAQUE));
    if (d->t[ROLE_Z_AFFINE].ndim || d->t[ROLE_Z_GAMMA].ndim)
        return status_fail(STATUS_UNSUPPORTED,
                           "batch norm on the CPU cannot include the residual's batch norm");
    for (size_t i = 0; i < sizeof like_x / sizeof *like_x; i++)
        TRY(cpu_take_like(d, like_x[i], d->t[ROLE_X].layout, &d->t[ROLE_X]));
    for (size_t i = 0; i < sizeof of_channels / sizeof *of_channels; i++)
        TRY(cpu_take_rounded(d, of_channels[i], LAYOUT_PLAIN, d->t[of_channels[i]].rounds));
    TRY(cpu_take(d, ROLE_MEAN, DTYPE_F32, LAYOUT_PLAIN));
    return cpu_take(d, ROLE_INVSTD, DTYPE_F32, LAYOUT_PLAIN);
}

enum status cpu_plan_bn_fwd(struct device *dev, const struct op_desc *desc, struct op_plan **plan)
{
    struct op_desc d = *desc;
    TRY(take_all(&d));
    return bn_plan_new(dev, &d, d.kind == OP_BN_FWD_TRAIN ? &bn_train_steps : &bn_eval_steps, plan);
}

enum status cpu_plan_bn_bwd(struct device *dev, const struct op_desc *desc, struct op_plan **plan)
{
    struct op_desc d = *desc;
    TRY(take_all(&d));
    return bn_plan_new(dev, &d, &bn_backward_steps, plan);
}
