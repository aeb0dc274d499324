/* The optimizer's step: stochastic gradient descent with momentum, weight decay and LARS over one
 * flat buffer. Also the check for overflows before the step, and the loss scaler after the step.
 * The step and the check use the precision of each segment of the buffer. */
#include "kernels/ref/formulas.h"

#include <math.h>

static double rounded(enum dtype precision, double v)
{
    return (double)dtype_round(precision, (float)v);
}

/* Element k of the gradient, as the step reads it. */
static double gradient(const struct ref_args *a, const struct sgd_segment *s, int64_t k)
{
    return rounded(s->gradient, a->t[s->half ? ROLE_DW_HALF : ROLE_DW][k]);
}

/* LARS's factor for a segment: `local` in ops.h. */
static double local_rate(const struct ref_args *a, const struct sgd_segment *s)
{
    double w = 0, g = 0;
    if (s->trust == 0)
        return 1;
    for (int64_t k = s->begin; k < s->end; k++) {
        double wk = a->t[ROLE_W][k];
        double gk = gradient(a, s, k) * (double)a->state->grad_scale;
        w += wk * wk;
        g += gk * gk;
    }
    w = sqrt(w);
    g = sqrt(g);
    return w == 0 || g == 0 ? 1 : (double)s->trust * w / (g + (double)s->weight_decay * w);
}

/* The factor by which the gradient is multiplied to limit its norm. */
static double clip_factor(const struct ref_args *a)
{
    const struct sgd_attr *attr = &a->d->attr.sgd;
    double sum = 0;
    if (attr->clip == 0)
        return 1;
    for (int i = 0; i < attr->n_segments; i++)
        for (int64_t k = attr->segment[i].begin; k < attr->segment[i].end; k++) {
            double g = gradient(a, &attr->segment[i], k);
            sum += g * g;
        }
    double norm = sqrt(sum) * (double)a->state->grad_scale;
    return fmin(1, (double)attr->clip / (norm + 1e-6));
}

void ref_sgd(const struct ref_args *a)
{
    const struct sgd_attr *attr = &a->d->attr.sgd;
    double *w = a->t[ROLE_W], *v = a->t[ROLE_MOMENTUM], momentum = (double)attr->momentum;
    if (a->state->found_inf)
        return;
    double grad_scale = (double)a->state->grad_scale * clip_factor(a);
    for (int i = 0; i < attr->n_segments; i++) {
        const struct sgd_segment *s = &attr->segment[i];
        double local = local_rate(a, s);
        for (int64_t k = s->begin; k < s->end; k++) {
            double g = local * (gradient(a, s, k) * grad_scale + (double)s->weight_decay * w[k]);
            double vk = momentum * v[k] + g;
            double wk = w[k] - (double)a->state->lr * (attr->nesterov ? g + momentum * vk : vk);
            v[k] = rounded(s->master, vk);
            w[k] = rounded(s->master, wk);
            if (a->t[ROLE_WCOPY])
                a->t[ROLE_WCOPY][k] = rounded(s->copy, w[k]);
        }
    }
}

void ref_check_finite(const struct ref_args *a)
{
    const struct sgd_attr *attr = &a->d->attr.sgd;
    a->state->found_inf = 0;
    for (int i = 0; i < attr->n_segments; i++)
        for (int64_t k = attr->segment[i].begin; k < attr->segment[i].end; k++)
            if (!isfinite(gradient(a, &attr->segment[i], k)))
                a->state->found_inf = 1;
}

void ref_scale_set(const struct ref_args *a)
{
    struct step_state *s = a->state;
    s->loss_scale = scaler_loss_scale(a->scaler->scale, s->share);
    s->grad_scale = scaler_grad_scale(a->scaler->scale, s->divisor);
}

void ref_scale_update(const struct ref_args *a)
{
    scaler_advance(&a->d->attr.scaler, a->scaler, a->state->found_inf != 0);
}
