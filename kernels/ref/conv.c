/* Convolution and its two gradients. All three sum the same terms: weight (o, i, kh, kw) connects
 * output (n, o, oh, ow) with input (n, c, oh*stride + kh - pad, ow*stride + kw - pad), where c is
 * the i-th input channel of o's group. Forward adds w*x into y, backward-data adds w*dy into dx,
 * and backward-weights adds x*dy into dw. */
#include "kernels/ref/formulas.h"

/* Adds the terms of one weight for n adjacent outputs of a row: the weight connects y[j] with
 * x[j*step] for j < n. */
static void row_fwd(double *x, double *w, double *y, int64_t step, int64_t n)
{
    for (int64_t j = 0; j < n; j++)
        y[j] += *w * x[j * step];
}

static void row_bwd_data(double *dx, double *w, double *dy, int64_t step, int64_t n)
{
    for (int64_t j = 0; j < n; j++)
        dx[j * step] += *w * dy[j];
}

static void row_bwd_weights(double *x, double *dw, double *dy, int64_t step, int64_t n)
{
    double sum = 0;
    for (int64_t j = 0; j < n; j++)
        sum += x[j * step] * dy[j];
    *dw += sum;
}

struct conv_operands {
    const struct tensor_desc *xd, *wd, *yd; /* the shapes of input, weights and output */
    double *x, *w, *y;                      /* values or gradients */
    void (*row)(double *x, double *w, double *y, int64_t step, int64_t n);
};

/* Adds the terms of weight (o, i, kh, kw) for all outputs (oh, ow) of one (n, o); c is the input
 * channel. */
static void conv_plane(const struct conv_attr *a, const struct conv_operands *p, int64_t n,
                       int64_t o, int64_t c, const int64_t w_at[3])
{
    int64_t i = w_at[0], kh = w_at[1], kw = w_at[2];
    int64_t height = p->xd->dim[2], width = p->xd->dim[3];
    int64_t first = 0, end = p->yd->dim[3]; /* output columns whose input is not padding */
    while (first < end && first * a->stride[1] + kw - a->pad[1] < 0)
        first++;
    while (first < end && (end - 1) * a->stride[1] + kw - a->pad[1] >= width)
        end--;
    if (first == end)
        return;
    double *w = &p->w[ref_at(p->wd, o, i, kh, kw)];
    for (int64_t oh = 0; oh < p->yd->dim[2]; oh++) {
        int64_t ih = oh * a->stride[0] + kh - a->pad[0];
        int64_t iw = first * a->stride[1] + kw - a->pad[1];
        if (ih >= 0 && ih < height)
            p->row(&p->x[ref_at(p->xd, n, c, ih, iw)], w, &p->y[ref_at(p->yd, n, o, oh, first)],
                   a->stride[1], end - first);
    }
}

static void conv_sum(const struct conv_attr *a, const struct conv_operands *p)
{
    const int64_t *k = p->wd->dim; /* outputs, inputs per group, kernel height, kernel width */
    int64_t outputs_per_group = k[0] / a->groups;
    for (int64_t n = 0; n < p->yd->dim[0]; n++)
        for (int64_t o = 0; o < k[0]; o++)
            for (int64_t i = 0; i < k[1]; i++)
                for (int64_t kh = 0; kh < k[2]; kh++)
                    for (int64_t kw = 0; kw < k[3]; kw++)
                        conv_plane(a, p, n, o, o / outputs_per_group * k[1] + i,
                                   (int64_t[3]){i, kh, kw});
}

void ref_conv_fwd(const struct ref_args *a)
{
    const struct tensor_desc *t = a->d->t, *yd = &t[ROLE_Y];
    double *y = a->t[ROLE_Y];
    conv_sum(&a->d->attr.conv, &(struct conv_operands){&t[ROLE_X], &t[ROLE_W], yd, a->t[ROLE_X],
                                                       a->t[ROLE_W], y, row_fwd});
    int64_t count = tensor_count(yd), plane = yd->dim[2] * yd->dim[3];
    for (int64_t i = 0; i < count; i++) {
        if (a->t[ROLE_B])
            y[i] += a->t[ROLE_B][i / plane % yd->dim[1]];
        if (a->d->attr.conv.relu)
            y[i] = ref_relu(y[i]);
    }
}

void ref_conv_bwd_data(const struct ref_args *a)
{
    const struct tensor_desc *t = a->d->t;
    conv_sum(&a->d->attr.conv,
             &(struct conv_operands){&t[ROLE_DX], &t[ROLE_W], &t[ROLE_DY], a->t[ROLE_DX],
                                     a->t[ROLE_W], a->t[ROLE_DY], row_bwd_data});
}

void ref_conv_bwd_weights(const struct ref_args *a)
{
    const struct tensor_desc *t = a->d->t, *yd = &t[ROLE_DY];
    conv_sum(&a->d->attr.conv,
             &(struct conv_operands){&t[ROLE_X], &t[ROLE_DW], yd, a->t[ROLE_X], a->t[ROLE_DW],
                                     a->t[ROLE_DY], row_bwd_weights});
    if (!a->t[ROLE_DB])
        return;
    int64_t count = tensor_count(yd), plane = yd->dim[2] * yd->dim[3];
    for (int64_t i = 0; i < count; i++)
        a->t[ROLE_DB][i / plane % yd->dim[1]] += a->t[ROLE_DY][i];
}
