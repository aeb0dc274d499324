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

typedef void row_sum(double *x, double *w, double *y, int64_t step, int64_t n);
struct conv_operands {
    const struct tensor_desc *xd, *wd, *yd; /* the shapes of input, weights and output */
    double *x, *w, *y;                      /* values or gradients */
    row_sum *row;
};

/* Adds the terms of weight (o, i, kh, kw) for all outputs (oh, ow) of one (n, o). */
static void conv_plane(const struct conv_attr *a, const struct conv_operands *p, int64_t n,
                       int64_t o, int64_t i, int64_t kh, int64_t kw)
{
    int64_t c = o / (p->wd->dim[0] / a->groups) * p->wd->dim[1] + i; /* the input channel */
    int64_t first = 0, end = p->yd->dim[3]; /* output columns whose input is not padding */
    while (first < end && first * a->stride[1] + kw - a->pad[1] < 0)
        first++;
    while (first < end && (end - 1) * a->stride[1] + kw - a->pad[1] >= p->xd->dim[3])
        end--;
    double *w = &p->w[ref_at(p->wd, o, i, kh, kw)];
    for (int64_t oh = 0; oh < p->yd->dim[2]; oh++) {
        int64_t ih = oh * a->stride[0] + kh - a->pad[0];
        int64_t iw = first * a->stride[1] + kw - a->pad[1];
        if (ih >= 0 && ih < p->xd->dim[2] && first < end)
            p->row(&p->x[ref_at(p->xd, n, c, ih, iw)], w, &p->y[ref_at(p->yd, n, o, oh, first)],
                   a->stride[1], end - first);
    }
}

static void conv_sum(const struct ref_args *a, enum role x, enum role w, enum role y, row_sum *row)
{
    const struct tensor_desc *t = a->d->t;
    const struct conv_operands p = {&t[x], &t[w], &t[y], a->t[x], a->t[w], a->t[y], row};
    const int64_t *k = t[w].dim; /* outputs, inputs per group, kernel height, kernel width */
    for (int64_t n = 0; n < t[y].dim[0]; n++)
        for (int64_t o = 0; o < k[0]; o++)
            for (int64_t i = 0; i < k[1]; i++)
                for (int64_t kh = 0; kh < k[2]; kh++)
                    for (int64_t kw = 0; kw < k[3]; kw++)
                        conv_plane(&a->d->attr.conv, &p, n, o, i, kh, kw);
}

void ref_conv_fwd(const struct ref_args *a)
{
    const struct tensor_desc *yd = &a->d->t[ROLE_Y];
    double *y = a->t[ROLE_Y];
    conv_sum(a, ROLE_X, ROLE_W, ROLE_Y, row_fwd);
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
    conv_sum(a, ROLE_DX, ROLE_W, ROLE_DY, row_bwd_data);
}

void ref_conv_bwd_weights(const struct ref_args *a)
{
    const struct tensor_desc *yd = &a->d->t[ROLE_DY];
    conv_sum(a, ROLE_X, ROLE_DW, ROLE_DY, row_bwd_weights);
    int64_t plane = yd->dim[2] * yd->dim[3];
    if (a->t[ROLE_DB])
        for (int64_t i = 0; i < tensor_count(yd); i++)
            a->t[ROLE_DB][i / plane % yd->dim[1]] += a->t[ROLE_DY][i];
}
