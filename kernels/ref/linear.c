/* The fully connected layer and its gradients: products of small matrices. */
#include "kernels/ref/formulas.h"

void ref_linear_fwd(const struct ref_args *a)
{
    int64_t rows = a->d->t[ROLE_X].dim[0];
    int64_t out = a->d->t[ROLE_W].dim[0], in = a->d->t[ROLE_W].dim[1];
    for (int64_t n = 0; n < rows; n++)
        for (int64_t o = 0; o < out; o++) {
            double sum = a->t[ROLE_B] ? a->t[ROLE_B][o] : 0;
            for (int64_t i = 0; i < in; i++)
                sum += a->t[ROLE_X][n * in + i] * a->t[ROLE_W][o * in + i];
            a->t[ROLE_Y][n * out + o] = a->d->attr.linear.relu ? ref_relu(sum) : sum;
        }
}

void ref_linear_bwd_data(const struct ref_args *a)
{
    int64_t rows = a->d->t[ROLE_DY].dim[0];
    int64_t out = a->d->t[ROLE_W].dim[0], in = a->d->t[ROLE_W].dim[1];
    for (int64_t n = 0; n < rows; n++)
        for (int64_t o = 0; o < out; o++)
            for (int64_t i = 0; i < in; i++)
                a->t[ROLE_DX][n * in + i] += a->t[ROLE_DY][n * out + o] * a->t[ROLE_W][o * in + i];
}

void ref_linear_bwd_weights(const struct ref_args *a)
{
    int64_t rows = a->d->t[ROLE_X].dim[0];
    int64_t out = a->d->t[ROLE_DW].dim[0], in = a->d->t[ROLE_DW].dim[1];
    for (int64_t n = 0; n < rows; n++)
        for (int64_t o = 0; o < out; o++) {
            double dy = a->t[ROLE_DY][n * out + o];
            for (int64_t i = 0; i < in; i++)
                a->t[ROLE_DW][o * in + i] += dy * a->t[ROLE_X][n * in + i];
            if (a->t[ROLE_DB])
                a->t[ROLE_DB][o] += dy;
        }
}
