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

/* `own` is the label's logit. */
static double row_loss(const double *x, int64_t classes, double own, double smoothing)
{
    double lse = log_sum_exp(x, classes), loss = -(1 - smoothing) * (own - lse);
    if (smoothing > 0) /* without smoothing a logit of -inf would give 0 * inf */
        for (int64_t k = 0; k < classes; k++)
            loss -= smoothing / (double)classes * (x[k] - lse);
    return loss;
}

/* d row_loss / dx, times `scale`. */
static void row_gradient(const double *x, int64_t classes, int64_t label, double smoothing,
                         double scale, double *dx)
{
    double lse = log_sum_exp(x, classes);
    for (int64_t k = 0; k < classes; k++) {
        double target = smoothing / (double)classes + (k == label ? 1 - smoothing : 0);
        dx[k] = scale * (exp(x[k] - lse) - target);
    }
}

/* Number of logits before the label's when sorted from the largest, ties by index. */
static int64_t row_rank(const double *x, int64_t classes, int64_t label, double own)
{
    int64_t above = 0;
    for (int64_t k = 0; k < classes; k++)
        above += x[k] > own || (x[k] == own && k < label);
    return above;
}

enum status ref_check_labels(const struct ref_args *a)
{
    int64_t rows = a->d->t[ROLE_X].dim[0], classes = a->d->t[ROLE_X].dim[1];
    for (int64_t n = 0; n < rows; n++)
        if (a->t[ROLE_LABEL][n] >= (double)classes)
            return status_fail(STATUS_INVALID,
                               "label %.0f of row %" PRId64 " is not below the %" PRId64
                               " classes of the network",
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
        int64_t label = (int64_t)a->t[ROLE_LABEL][n];
        if (label < 0)
            continue; /* its row of DX stays 0 */
        double own = x[label];
        m.loss_sum += row_loss(x, classes, own, smoothing);
        m.count++;
        if (!isnan(own)) {
            int64_t rank = row_rank(x, classes, label, own);
            m.top1 += rank < 1;
            m.top5 += rank < 5;
        }
        if (a->t[ROLE_DX])
            row_gradient(x, classes, label, smoothing, (double)a->state->loss_scale / (double)rows,
                         a->t[ROLE_DX] + n * classes);
    }
    *a->metrics = m;
}
