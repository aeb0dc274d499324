/* Maximum pooling over fixed windows and average pooling to a given size. */
#include "kernels/ref/formulas.h"

#include <math.h>

/* Finds the first maximum, in row order, of the window of output (oh, ow) in one plane of X;
 * returns its index kh*KW + kw, and its value in *max. A NaN counts as larger than everything, and
 * the last of several NaNs is the maximum. */
static int64_t window_max(const struct ref_args *a, int64_t plane, int64_t oh, int64_t ow,
                          double *max)
{
    const struct pool_attr *p = &a->d->attr.pool;
    int64_t height = a->d->t[ROLE_X].dim[2], width = a->d->t[ROLE_X].dim[3];
    const double *x = a->t[ROLE_X] + plane * height * width;
    int64_t place = -1;
    for (int64_t k = 0; k < (int64_t)p->kernel[0] * p->kernel[1]; k++) {
        int64_t ih = oh * p->stride[0] - p->pad[0] + k / p->kernel[1];
        int64_t iw = ow * p->stride[1] - p->pad[1] + k % p->kernel[1];
        if (ih < 0 || ih >= height || iw < 0 || iw >= width)
            continue;
        double v = x[ih * width + iw];
        if (place < 0 || v > *max || isnan(v)) {
            *max = v;
            place = k;
        }
    }
    return place;
}

void ref_maxpool_fwd(const struct ref_args *a)
{
    const struct tensor_desc *y = &a->d->t[ROLE_Y];
    int64_t i = 0;
    for (int64_t plane = 0; plane < y->dim[0] * y->dim[1]; plane++)
        for (int64_t oh = 0; oh < y->dim[2]; oh++)
            for (int64_t ow = 0; ow < y->dim[3]; ow++, i++) {
                int64_t place = window_max(a, plane, oh, ow, &a->t[ROLE_Y][i]);
                if (a->t[ROLE_INDEX])
                    a->t[ROLE_INDEX][i] = (double)place;
            }
}

void ref_maxpool_bwd(const struct ref_args *a)
{
    const struct pool_attr *p = &a->d->attr.pool;
    const struct tensor_desc *y = &a->d->t[ROLE_DY], *x = &a->d->t[ROLE_DX];
    int64_t i = 0;
    for (int64_t plane = 0; plane < y->dim[0] * y->dim[1]; plane++)
        for (int64_t oh = 0; oh < y->dim[2]; oh++)
            for (int64_t ow = 0; ow < y->dim[3]; ow++, i++) {
                int64_t k = (int64_t)a->t[ROLE_INDEX][i];
                int64_t ih = oh * p->stride[0] - p->pad[0] + k / p->kernel[1];
                int64_t iw = ow * p->stride[1] - p->pad[1] + k % p->kernel[1];
                double d = a->t[ROLE_DY][i] + (a->t[ROLE_DY2] ? a->t[ROLE_DY2][i] : 0);
                a->t[ROLE_DX][(plane * x->dim[2] + ih) * x->dim[3] + iw] += d;
            }
}

/* Each output of average pooling is the mean of the inputs [begin, end). The next two functions
 * return begin and end of output i; `in` and `out` are the numbers of inputs and of outputs. */
static int64_t window_begin(int64_t i, int64_t in, int64_t out)
{
    return i * in / out;
}

static int64_t window_end(int64_t i, int64_t in, int64_t out)
{
    return ((i + 1) * in + out - 1) / out;
}

/* Both directions visit the same (output, input) pairs: forward adds x/area into y, backward adds
 * dy/area into dx. */
void ref_avgpool(const struct ref_args *a)
{
    bool backward = a->d->kind == OP_AVGPOOL_BWD;
    enum role of_x = backward ? ROLE_DX : ROLE_X, of_y = backward ? ROLE_DY : ROLE_Y;
    const struct tensor_desc *xd = &a->d->t[of_x], *yd = &a->d->t[of_y];
    double *x = a->t[of_x], *y = a->t[of_y];
    int64_t i = 0;
    for (int64_t plane = 0; plane < yd->dim[0] * yd->dim[1]; plane++)
        for (int64_t oh = 0; oh < yd->dim[2]; oh++)
            for (int64_t ow = 0; ow < yd->dim[3]; ow++, i++) {
                int64_t top = window_begin(oh, xd->dim[2], yd->dim[2]);
                int64_t bottom = window_end(oh, xd->dim[2], yd->dim[2]);
                int64_t left = window_begin(ow, xd->dim[3], yd->dim[3]);
                int64_t right = window_end(ow, xd->dim[3], yd->dim[3]);
                double area = (double)((bottom - top) * (right - left)), sum = 0;
                for (int64_t ih = top; ih < bottom; ih++)
                    for (int64_t iw = left; iw < right; iw++) {
                        int64_t at = (plane * xd->dim[2] + ih) * xd->dim[3] + iw;
                        if (backward)
                            x[at] += y[i] / area;
                        else
                            sum += x[at];
                    }
                if (!backward)
                    y[i] = sum / area;
            }
}
