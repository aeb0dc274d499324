/* Softmax cross entropy with label smoothing, and top-k counts. */
#include "kernels/ref/formulas.h"

#include <inttypes.h>
#include <math.h>

static double log_sum_exp(const double *x, int64_t classes)
{
    double max = x[0], sum = 0;
    for (int64_t k = 1; k < classes; k++)
        max = fmax(max, x[k]);
    for (int64_t k = 0; k < classes; k++)
        sum += exp(x[k] - max);
    return max + log(sum);
}

/* A row's labels and their weights; without a partner the second label has weight 0. */
struct target {
    int64_t label[2]; /* negative: the row is excluded */
    double weight[2];
};

static struct target target_of(const struct ref_args *a, int64_t n)
{
    int64_t label = (int64_t)a->t[ROLE_LABEL][n];
    if (!a->t[ROLE_PARTNER])
        return (struct target){{label, label}, {1, 0}};
    double mix = (double)a->state->mix;
    int64_t other = (int64_t)a->t[ROLE_LABEL][(int64_t)a->t[ROLE_PARTNER][n]];
    return (struct target){{label, other}, {mix, 1 - mix}};
}

static double row_loss(const double *x, int64_t classes, const struct target *t, double smoothing)
{
    double lse = log_sum_exp(x, classes), loss = 0;
    for (int i = 0; i < 2; i++)
        if (t->weight[i] > 0) /* if the weight is 0, a logit of -inf would give 0 * inf */
            loss -= (1 - smoothing) * t->weight[i] * (x[t->label[i]] - lse);
    if (smoothing > 0) /* if smoothing is 0, a logit of -inf would give 0 * inf */
        for (int64_t k = 0; k < classes; k++)
            loss -= smoothing / (double)classes * (x[k] - lse);
    return loss;
}

/* Computes the gradient d row_loss / dx, times `scale`. */
static void row_gradient(const double *x, int64_t classes, const struct target *t, double smoothing,
                         double scale, double *dx)
{
    double lse = log_sum_exp(x, classes);
    for (int64_t k = 0; k < classes; k++) {
        double target = smoothing / (double)classes;
        for (int i = 0; i < 2; i++)
            target += k == t->label[i] ? (1 - smoothing) * t->weight[i] : 0;
        dx[k] = scale * (exp(x[k] - lse) - target);
    }
}

/* Number of logits that rank above the label's logit: larger logits, and equal logits at a lower
 * index. */
static int64_t row_rank(const double *x, int64_t classes, int64_t label)
{
    int64_t above = 0;
    for (int64_t k = 0; k < classes; k++)
        above += x[k] > x[label] || (x[k] == x[label] && k < label);
    return above;
}

enum status ref_check_labels(const struct ref_args *a)
{
    int64_t rows = a->d->t[ROLE_X].dim[0], classes = a->d->t[ROLE_X].dim[1];
    for (int64_t n = 0; n < rows; n++)
        if (a->t[ROLE_LABEL][n] >= (double)classes)
            return status_fail(STATUS_INVALID,
                               "label %.0f of row %" PRId64
                               " is out of range: the network has %" PRId64 " classes",
                               a->t[ROLE_LABEL][n], n, classes);
    return STATUS_OK;
}

void ref_softmax_xent(const struct ref_args *a)
{
    int64_t rows = a->d->t[ROLE_X].dim[0], classes = a->d->t[ROLE_X].dim[1];
    double smoothing = (double)a->d->attr.xent.label_smoothing;
    struct loss_metrics m = {0};
    for (int64_t n = 0; n < rows; n++) {
        const double *x = a->t[ROLE_X] + n * classes;
        struct target t = target_of(a, n);
        if (t.label[0] < 0 || t.label[1] < 0)
            continue; /* its row of DX stays 0 */
        int64_t label = t.label[t.weight[0] < t.weight[1]];
        m.loss_sum += row_loss(x, classes, &t, smoothing);
        m.count++;
        if (!isnan(x[label])) {
            int64_t rank = row_rank(x, classes, label);
            m.top1 += rank < 1;
            m.top5 += rank < 5;
        }
        if (a->t[ROLE_DX])
            row_gradient(x, classes, &t, smoothing, (double)a->state->loss_scale / (double)rows,
                         a->t[ROLE_DX] + n * classes);
    }
    *a->metrics = m;
}
