/* Elementwise operations. */
#include "kernels/ref/formulas.h"

#include "base/rng.h"

#include <string.h>

void ref_relu_fwd(const struct ref_args *a)
{
    int64_t count = tensor_count(&a->d->t[ROLE_X]);
    for (int64_t i = 0; i < count; i++)
        a->t[ROLE_Y][i] = ref_relu(a->t[ROLE_X][i]);
}

void ref_relu_bwd(const struct ref_args *a)
{
    int64_t count = tensor_count(&a->d->t[ROLE_DY]);
    for (int64_t i = 0; i < count; i++) {
        double d = a->t[ROLE_DY][i] + (a->t[ROLE_DY2] ? a->t[ROLE_DY2][i] : 0);
        a->t[ROLE_DX][i] = a->t[ROLE_Y][i] > 0 ? d : 0;
    }
}

void ref_add(const struct ref_args *a)
{
    int64_t count = tensor_count(&a->d->t[ROLE_X]);
    for (int64_t i = 0; i < count; i++)
        a->t[ROLE_Y][i] = a->t[ROLE_X][i] + a->t[ROLE_Z][i];
}

void ref_add_strided(const struct ref_args *a)
{
    const struct tensor_desc *x = &a->d->t[ROLE_X], *y = &a->d->t[ROLE_Y];
    const int *stride = a->d->attr.grid.stride;
    for (int64_t n = 0; n < x->dim[0]; n++)
        for (int64_t c = 0; c < x->dim[1]; c++)
            for (int64_t h = 0; h < x->dim[2]; h++)
                for (int64_t w = 0; w < x->dim[3]; w++)
                    a->t[ROLE_Y][ref_at(y, n, c, h * stride[0], w * stride[1])] +=
                        a->t[ROLE_X][ref_at(x, n, c, h, w)];
}

/* Forward and backward multiply by the same mask. */
void ref_dropout(const struct ref_args *a)
{
    bool forward = a->d->kind == OP_DROPOUT_FWD;
    enum role from = forward ? ROLE_X : ROLE_DY, to = forward ? ROLE_Y : ROLE_DX;
    const struct dropout_attr *attr = &a->d->attr.dropout;
    int64_t rows = a->d->t[from].dim[0], per_row = tensor_count(&a->d->t[from]) / rows;
    double scale = 1 / (1 - (double)attr->p);
    for (int64_t n = 0; n < rows; n++) {
        struct rng r = rng_at(a->state->seed, RNG_DROPOUT, a->state->step,
                              (uint64_t)attr->layer << 40 | (a->state->sample0 + (uint64_t)n));
        for (int64_t f = 0; f < per_row; f++) {
            double factor = rng_float(&r) >= attr->p ? scale : 0;
            a->t[to][n * per_row + f] = a->t[from][n * per_row + f] * factor;
        }
    }
}

/* Mixes each row of Y with its partner row. Both rows must be read unmixed, so the function first
 * copies Y to the memory of X, which is no longer needed. */
static void mix_rows(const struct ref_args *a, int64_t per_row)
{
    double mix = (double)a->state->mix, *x = a->t[ROLE_X], *y = a->t[ROLE_Y];
    int64_t rows = a->d->t[ROLE_X].dim[0];
    memcpy(x, y, (size_t)(rows * per_row) * sizeof *y);
    for (int64_t n = 0; n < rows; n++) {
        const double *other = x + (int64_t)a->t[ROLE_PARTNER][n] * per_row;
        for (int64_t i = 0; i < per_row; i++)
            y[n * per_row + i] = mix * x[n * per_row + i] + (1 - mix) * other[i];
    }
}

void ref_normalize(const struct ref_args *a)
{
    const struct normalize_attr *attr = &a->d->attr.normalize;
    const struct tensor_desc *x = &a->d->t[ROLE_X];
    int64_t count = tensor_count(x), plane = x->dim[2] * x->dim[3];
    for (int64_t i = 0; i < count; i++) {
        int64_t c = i / plane % x->dim[1];
        a->t[ROLE_Y][i] = (a->t[ROLE_X][i] / 255 - (double)attr->mean[c]) / (double)attr->std[c];
    }
    if (a->t[ROLE_PARTNER])
        mix_rows(a, count / x->dim[0]);
}

/* ref.c changes layout and precision when it unpacks and packs, so the formula only copies. */
void ref_copy(const struct ref_args *a)
{
    int64_t count = tensor_count(&a->d->t[ROLE_X]);
    for (int64_t i = 0; i < count; i++)
        a->t[ROLE_Y][i] = a->t[ROLE_X][i];
}
