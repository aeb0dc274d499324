/* Batch norm, ReLU and maximum pooling as one operation. */
#include "kernels/ref/formulas.h"

/* Sets *d to the description of the pooling alone. Returns a copy of the arguments whose
 * description is *d. */
static struct ref_args pooling(const struct ref_args *a, struct op_desc *d)
{
    struct ref_args p = *a;
    *d = *a->d;
    d->attr.pool = a->d->attr.bn.pool;
    p.d = d;
    return p;
}

/* Replaces X by its normalised values, in the formula's own copy of X. */
static void normalise(const struct ref_args *a)
{
    const struct tensor_desc *x = &a->d->t[ROLE_X], *y = &a->d->t[ROLE_Y];
    for (int64_t c = 0; c < x->dim[1]; c++) {
        struct ref_channel ch = ref_channel_of(x, c);
        double mean = a->t[ROLE_MEAN][c], invstd = a->t[ROLE_INVSTD][c];
        double gamma = a->t[ROLE_GAMMA][c], beta = a->t[ROLE_BETA][c];
        for (int64_t i = 0; i < ch.count; i++) {
            double *value = &a->t[ROLE_X][ref_channel_at(&ch, i)];
            *value = ref_stored(y, ref_relu((*value - mean) * invstd * gamma + beta));
        }
    }
}

void ref_bn_pool_fwd(const struct ref_args *a)
{
    struct op_desc d;
    struct ref_args pool = pooling(a, &d);
    normalise(a);
    ref_maxpool_fwd(&pool);
    for (int64_t i = 0; i < tensor_count(&a->d->t[ROLE_Y]); i++)
        if (!(a->t[ROLE_Y][i] > 0))
            a->t[ROLE_INDEX][i] = POOL_NO_INDEX;
}

/* Adds the gradient of each window to the pixel that was its maximum. */
static void scatter(const struct ref_args *a)
{
    const struct tensor_desc *x = &a->d->t[ROLE_DX], *y = &a->d->t[ROLE_DY];
    const struct pool_attr *p = &a->d->attr.bn.pool;
    for (int64_t i = 0; i < tensor_count(y); i++) {
        int64_t k = (int64_t)a->t[ROLE_INDEX][i], row = i / y->dim[3];
        int64_t h = row % y->dim[2] * p->stride[0] - p->pad[0] + k / p->kernel[1];
        int64_t w = i % y->dim[3] * p->stride[1] - p->pad[1] + k % p->kernel[1];
        double d = a->t[ROLE_DY][i] + (a->t[ROLE_DY2] ? a->t[ROLE_DY2][i] : 0);
        if (k < (int64_t)p->kernel[0] * p->kernel[1])
            a->t[ROLE_DX][(row / y->dim[2] * x->dim[2] + h) * x->dim[3] + w] += d;
    }
}

/* Adds the gradients of the windows to DX. The sums in DX are the gradient DY of a batch norm
 * without a ReLU. Then replaces DX by the gradient of that batch norm's input. */
void ref_bn_pool_bwd(const struct ref_args *a)
{
    struct op_desc d = *a->d;
    struct ref_args rest = *a;
    scatter(a);
    for (int64_t i = 0; i < tensor_count(&d.t[ROLE_DX]); i++)
        a->t[ROLE_DX][i] = ref_stored(&d.t[ROLE_DX], a->t[ROLE_DX][i]);
    d.attr.bn.relu = false;
    rest.d = &d;
    rest.t[ROLE_DY] = a->t[ROLE_DX];
    rest.t[ROLE_DY2] = NULL;
    ref_bn_bwd(&rest);
}
