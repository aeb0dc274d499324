/* Softmax cross entropy, its gradient and the top-k counts. */
#include "kernels/cpu/internal.h"
#include "kernels/cpu/kernels.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* The result of one row. Rows have separate results, so that they can be summed in a fixed
 * order. */
struct row_result {
    double loss;
    int64_t above; /* number of logits that rank above the label's logit; -1: no label */
};

/* The natural logarithm of sum(exp(x)). */
static double log_sum_exp(const float *x, int64_t n)
{
    double top = x[0], sum = 0;
    for (int64_t k = 1; k < n; k++)
        top = x[k] > top ? x[k] : top;
    for (int64_t k = 0; k < n; k++)
        sum += exp((double)x[k] - top);
    return top + log(sum);
}

static int64_t count_above(const float *x, int64_t n, int64_t label)
{
    if (isnan(x[label]))
        return n;
    int64_t above = 0;
    for (int64_t k = 0; k < n; k++)
        above += x[k] > x[label] || (x[k] == x[label] && k < label);
    return above;
}

/* The labels of a row and their weights. With mixup, the second label is the label of the row that
 * is mixed into this row; without mixup, its weight is 0. */
struct target {
    int64_t label[2]; /* negative: the row is excluded */
    double weight[2];
};

/* With the smoothing e, and logp = x - norm,
 *   loss = -(1-e) * sum(weight * logp[label]) - e/n * sum(logp). */
static struct row_result row_loss(const float *x, int64_t n, const struct target *t,
                                  double smoothing, double norm)
{
    double loss = 0;
    for (int i = 0; i < 2; i++)
        if (t->weight[i] > 0) /* if the weight is 0, a logit of -inf would give 0 * inf */
            loss -= (1.0 - smoothing) * t->weight[i] * (x[t->label[i]] - norm);
    /* Skipped if smoothing is 0: a logit of -inf of another class would then give 0 * inf, which is
     * a NaN. */
    for (int64_t k = 0; k < n && smoothing > 0; k++)
        loss -= smoothing / (double)n * (x[k] - norm);
    return (struct row_result){loss, count_above(x, n, t->label[t->weight[0] < t->weight[1]])};
}

/* With the smoothing e,
 *   dx[k] = scale * (softmax(x)[k] - (1-e) * sum(weight * [k is label]) - e/n).
 * dx may be the memory of x. */
static void row_gradient(const float *x, float *dx, int64_t n, const struct target *t,
                         double smoothing, double norm, double scale)
{
    for (int64_t k = 0; k < n; k++) {
        double target = smoothing / (double)n;
        for (int i = 0; i < 2; i++)
            target += k == t->label[i] ? (1.0 - smoothing) * t->weight[i] : 0.0;
        dx[k] = (float)(scale * (exp(x[k] - norm) - target));
    }
}

static struct loss_metrics metrics_of(const struct row_result *row, int64_t rows, int64_t classes)
{
    struct loss_metrics m = {0};
    for (int64_t i = 0; i < rows; i++) {
        if (row[i].above < 0)
            continue;
        m.loss_sum += row[i].loss;
        m.count++;
        m.top1 += row[i].above < 1;
        m.top5 += row[i].above < (classes < 5 ? classes : 5);
    }
    return m;
}

struct xent_plan {
    struct op_plan base;
    enum element reads, writes;
    size_t row; /* offset of the rows of floats (N, K) in the workspace */
};

/* Computes one row; `row` is a buffer for its logits, then for their gradient. */
static struct row_result xent_row(const struct xent_plan *p, const void *x, float *row,
                                  const struct target *t, void *dx, double scale)
{
    const struct cpu_kernels *kernels = cpu_device_of(p->base.device)->kernels;
    int64_t n = p->base.desc.t[ROLE_X].dim[1];
    double smoothing = p->base.desc.attr.xent.label_smoothing;
    if (t->label[0] < 0 || t->label[1] < 0) {
        if (dx)
            memset(dx, 0, (size_t)n * element_size(p->writes));
        return (struct row_result){.above = -1};
    }
    kernels->flat[p->reads]->get(x, row, n);
    double norm = log_sum_exp(row, n);
    struct row_result result = row_loss(row, n, t, smoothing, norm);
    if (dx) {
        row_gradient(row, row, n, t, smoothing, norm, scale);
        kernels->flat[p->writes]->put(row, dx, n);
    }
    return result;
}

static struct target target_of(const int32_t *label, const int32_t *partner, double mix, int64_t i)
{
    if (!partner)
        return (struct target){{label[i], label[i]}, {1, 0}};
    return (struct target){{label[i], label[partner[i]]}, {mix, 1 - mix}};
}

static enum status xent(struct op_plan *base, void *const arg[ROLE_COUNT], struct stream *s)
{
    (void)s;
    const struct xent_plan *p = (const struct xent_plan *)base;
    int64_t rows = base->desc.t[ROLE_X].dim[0], n = base->desc.t[ROLE_X].dim[1];
    const void *x = arg[ROLE_X];
    const int32_t *label = arg[ROLE_LABEL];
    void *dx = base->desc.t[ROLE_DX].ndim ? arg[ROLE_DX] : NULL;
    float *row = (float *)((char *)arg[ROLE_WORKSPACE] + p->row);
    const struct step_state *state = arg[ROLE_STATE];
    const int32_t *partner = base->desc.t[ROLE_PARTNER].ndim ? arg[ROLE_PARTNER] : NULL;
    double scale = dx ? (double)state->loss_scale : 0, mix = partner ? (double)state->mix : 1;
    struct row_result *result = arg[ROLE_WORKSPACE];
    for (int64_t i = 0; i < rows; i++)
        if (label[i] >= n)
            return status_fail(STATUS_INVALID,
                               "label %" PRId32 " of row %" PRId64
                               " is out of range: the network has %" PRId64 " classes",
                               label[i], i, n);
#pragma omp parallel for num_threads(base->device->threads)
    for (int64_t i = 0; i < rows; i++) {
        struct target t = target_of(label, partner, mix, i);
        result[i] = xent_row(p, element_at(x, p->reads, i * n), row + i * n, &t,
                             dx ? element_at(dx, p->writes, i * n) : NULL, scale / (double)rows);
    }
    *(struct loss_metrics *)arg[ROLE_METRICS] = metrics_of(result, rows, n);
    return STATUS_OK;
}

enum status cpu_plan_softmax_xent(struct device *dev, const struct op_desc *desc,
                                  struct op_plan **plan)
{
    struct op_desc d = *desc;
    TRY(cpu_take_like(&d, ROLE_X, LAYOUT_PLAIN, &d.t[ROLE_X]));
    TRY(cpu_take_like(&d, ROLE_DX, LAYOUT_PLAIN, &d.t[ROLE_DX]));
    TRY(cpu_take(&d, ROLE_LABEL, DTYPE_I32, LAYOUT_PLAIN));
    TRY(cpu_take(&d, ROLE_PARTNER, DTYPE_I32, LAYOUT_PLAIN));
    TRY(cpu_plan_new(dev, &d, sizeof(struct xent_plan), xent, plan));
    struct xent_plan *p = (struct xent_plan *)*plan;
    p->reads = element_of(&d.t[ROLE_X]);
    p->writes = element_of(&d.t[ROLE_DX]);
    p->row = cpu_align((size_t)d.t[ROLE_X].dim[0] * sizeof(struct row_result));
    p->base.workspace = p->row + (size_t)tensor_count(&d.t[ROLE_X]) * sizeof(float);
    return STATUS_OK;
}
