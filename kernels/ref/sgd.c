/* Stochastic gradient descent with momentum and weight decay over one flat buffer. */
#include "kernels/ref/formulas.h"

void ref_sgd(const struct ref_args *a)
{
    const struct sgd_attr *attr = &a->d->attr.sgd;
    double *w = a->t[ROLE_W], *v = a->t[ROLE_MOMENTUM], momentum = (double)attr->momentum;
    if (a->state->found_inf)
        return;
    for (int s = 0; s < attr->n_segments; s++)
        for (int64_t i = attr->segment[s].begin; i < attr->segment[s].end; i++) {
            double g = a->t[ROLE_DW][i] * (double)a->state->grad_scale +
                       (double)attr->segment[s].weight_decay * w[i];
            v[i] = momentum * v[i] + g;
            w[i] -= (double)a->state->lr * (attr->nesterov ? g + momentum * v[i] : v[i]);
        }
}
