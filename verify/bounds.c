/* Computes error bounds from the number of terms in each sum. */
#include "verify/bounds.h"

#include "verify/precision.h"

#include "base/array.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double U = 0x1p-24;

static double max2(double a, double b)
{
    return a > b ? a : b;
}

/* --- operations linear in each operand --- */

/* The number of terms in the sum of one element of the result. */
static double terms_of(const struct op_desc *d)
{
    const struct tensor_desc *t = d->t;
    double weights = (double)(t[ROLE_W].dim[1] * t[ROLE_W].dim[2] * t[ROLE_W].dim[3]);
    switch (d->kind) {
    case OP_CONV_FWD:
        return weights;
    case OP_CONV_BWD_DATA:
        return weights / (double)t[ROLE_W].dim[1] * (double)t[ROLE_W].dim[0];
    case OP_CONV_BWD_WEIGHTS:
        return (double)(t[ROLE_DY].dim[0] * t[ROLE_DY].dim[2] * t[ROLE_DY].dim[3]);
    case OP_LINEAR_FWD:
        return (double)t[ROLE_X].dim[1];
    case OP_LINEAR_BWD_DATA:
        return (double)t[ROLE_DY].dim[1];
    case OP_LINEAR_BWD_WEIGHTS:
        return (double)t[ROLE_DY].dim[0];
    case OP_MAXPOOL_BWD:
        return (double)(d->attr.pool.kernel[0] * d->attr.pool.kernel[1]);
    case OP_AVGPOOL_FWD: /* the largest window is the whole plane */
        return (double)(t[ROLE_X].dim[2] * t[ROLE_X].dim[3]);
    case OP_AVGPOOL_BWD:
        return (double)(t[ROLE_DY].dim[2] * t[ROLE_DY].dim[3]);
    default:
        return 4;
    }
}

static void magnitudes(float *v, int64_t n, float sign)
{
    for (int64_t i = 0; i < n; i++)
        v[i] = sign * fabsf(v[i]);
}

/* Copies the operands' magnitudes. Values that a formula subtracts become negative, so that no sum
 * cancels. */
static void take_magnitudes(struct op_desc *d, const struct operands *o, struct operands *m)
{
    struct op_roles roles = op_roles(d->kind);
    for (int r = 0; r < ROLE_COUNT; r++) {
        if (!(roles.reads >> r & 1) || !o->p[r])
            continue;
        memcpy(m->p[r], o->p[r], operand_bytes(d, (enum role)r));
        if (d->t[r].ndim && d->t[r].type == DTYPE_F32)
            magnitudes(m->p[r], operand_count(d, (enum role)r), r == ROLE_RMEAN ? -1 : 1);
    }
    if (d->kind == OP_SGD)
        operand_state(m)->lr *= -1;
    for (int c = 0; d->kind == OP_NORMALIZE && c < 3; c++)
        d->attr.normalize.mean[c] *= -1;
}

/* Replaces each value of a tensor (A, B, H, W) of magnitudes by the largest of its plane. */
static void spread_maxima(const struct op_desc *d, enum role role, struct operands *m)
{
    const struct tensor_desc *t = &d->t[role];
    int64_t plane = t->ndim == 4 ? t->dim[2] * t->dim[3] : 1;
    for (int64_t i = 0; i < operand_count(d, role); i++) {
        float *first = operand_f32(m, role) + i / plane * plane, *at = first + i % plane;
        if (*at > *first)
            *first = *at;
        if (i % plane == plane - 1)
            for (int64_t k = 1; k < plane; k++)
                first[k] = *first;
    }
}

/* See bounds.h. A tile has 4x4 pixels of Y, or of DY for DW. */
static double winograd_factor(const struct op_desc *d)
{
    const struct tensor_desc *y = &d->t[d->kind == OP_CONV_FWD ? ROLE_Y : ROLE_DY];
    double pixels = (double)(y->dim[2] * y->dim[3]);
    double tiles = (double)((y->dim[2] + 3) / 4 * ((y->dim[3] + 3) / 4));
    double growth = d->kind == OP_CONV_BWD_WEIGHTS ? 803 * tiles / pixels : 176;
    return (2 * sqrt(terms_of(d)) + 32) * growth * U;
}

static enum status bound_linear(struct device *ref, const struct op_desc *d, bool narrow,
                                bool winograd, const struct operands *o, struct bounds *b)
{
    struct op_desc positive = *d;
    struct operands m;
    TRY(operands_new(d, &m));
    take_magnitudes(&positive, o, &m);
    for (int r = 0; winograd && r < ROLE_COUNT; r++)
        if (op_roles(d->kind).reads >> r & 1 && m.p[r])
            spread_maxima(d, (enum role)r, &m);
    enum status st = run_once(ref, &positive, &m);
    double cut_off = narrow && op_in(d->kind, OPS_CONV | OPS_LINEAR) ? terms_of(d) / 4 : 0;
    double factor = winograd ? winograd_factor(d) : (2 * sqrt(terms_of(d)) + 8 + cut_off) * U;
    for (int r = 0; winograd && r < ROLE_COUNT; r++)
        if (b->p[r])
            spread_maxima(d, (enum role)r, &m);
    for (int r = 0; st == STATUS_OK && r < ROLE_COUNT; r++)
        for (int64_t i = 0; b->p[r] && i < operand_count(d, (enum role)r); i++)
            b->p[r][i] = factor * fabs((double)operand_f32(&m, (enum role)r)[i]) + FLT_MIN;
    operands_free(&m);
    return st;
}

/* --- batch norm --- */

static int64_t channel_place(const struct tensor_desc *x, int64_t c, int64_t i)
{
    int64_t plane = x->dim[2] * x->dim[3];
    return (i / plane * x->dim[1] + c) * plane + i % plane;
}

/* M is the number of values of the channel, and u is as in bounds.h. MEAN may have an error of 8
 * roundings of the largest value, whatever M is. Only a backend that sums in double or in blocks is
 * within this bound for a channel with mean 1000 and deviation 0.1. The centred squares are all
 * positive, so the relative error of their sum is (2 sqrt(M) + 16) u, plus the square of the mean's
 * error. The inverse square root halves a relative error. The error of Y is the sum of three parts:
 * the mean's error times the slope, the slope's error times the centred value, and roundings. */
static void bound_bn_train(const struct op_desc *d, const struct operands *o, int64_t c,
                           struct bounds *b)
{
    const struct tensor_desc *x = &d->t[ROLE_X];
    const float *value = o->p[ROLE_X], *z = o->p[ROLE_Z];
    int64_t count = tensor_count(x) / x->dim[1];
    double largest = 0, mean = 0, var = 0, n = (double)count;
    for (int64_t i = 0; i < count; i++) {
        largest = max2(largest, fabs((double)value[channel_place(x, c, i)]));
        mean += (double)value[channel_place(x, c, i)] / n;
    }
    for (int64_t i = 0; i < count; i++)
        var += pow((double)value[channel_place(x, c, i)] - mean, 2) / n;

    double m = (double)d->attr.bn.momentum, eps = (double)d->attr.bn.eps;
    double mean_error = 8 * U * largest;
    double var_error = (2 * sqrt(n) + 16) * U * var + mean_error * mean_error;
    double invstd = 1 / sqrt(var + eps), slope_error = 0.5 * var_error / (var + eps) + 4 * U;
    b->p[ROLE_MEAN][c] = mean_error;
    b->p[ROLE_INVSTD][c] = slope_error * invstd;
    b->p[ROLE_RMEAN][c] = m * mean_error + 4 * U * (largest + 1);
    b->p[ROLE_RVAR][c] =
        m * var_error * n / (n - 1) + 4 * U * fabs((double)operand_f32(o, ROLE_RVAR)[c]);

    double gamma = fabs((double)operand_f32(o, ROLE_GAMMA)[c]);
    double beta = fabs((double)operand_f32(o, ROLE_BETA)[c]);
    for (int64_t i = 0; i < count; i++) {
        int64_t at = channel_place(x, c, i);
        double scaled = gamma * invstd * fabs((double)value[at] - mean);
        double rest = beta + (z ? fabs((double)z[at]) : 0);
        b->p[ROLE_Y][at] =
            gamma * invstd * mean_error + (slope_error + 4 * U) * scaled + 4 * U * rest;
    }
}

/* MEAN and INVSTD are inputs, so errors come only from sums and roundings. DBETA and DGAMMA have
 * the errors of sums of M terms, one for each value of the channel. DX has a part of these errors,
 * and errors of the slope and of rounding. */
static void bound_bn_bwd(const struct op_desc *d, const struct operands *o, int64_t c,
                         struct bounds *b)
{
    const struct tensor_desc *x = &d->t[ROLE_X];
    const float *dy = o->p[ROLE_DY], *dy2 = o->p[ROLE_DY2], *y = o->p[ROLE_Y];
    int64_t count = tensor_count(x) / x->dim[1];
    double mean = (double)operand_f32(o, ROLE_MEAN)[c], n = (double)count;
    double invstd = (double)operand_f32(o, ROLE_INVSTD)[c];
    double factor = (2 * sqrt(n) + 8) * U, sum = 0, sum_scaled = 0;
    for (int pass = 0; pass < 2; pass++) /* first the sums, then the bounds that need the sums */
        for (int64_t i = 0; i < count; i++) {
            int64_t at = channel_place(x, c, i);
            double incoming = fabs((double)dy[at]) + (dy2 ? fabs((double)dy2[at]) : 0);
            double normalised = fabs((double)operand_f32(o, ROLE_X)[at] - mean) * invstd;
            if (d->attr.bn.relu && !(y[at] > 0))
                incoming = 0;
            if (pass == 0) {
                sum += incoming;
                sum_scaled += incoming * normalised;
                continue;
            }
            double share = (sum + normalised * sum_scaled) / n;
            double slope = fabs((double)operand_f32(o, ROLE_GAMMA)[c]) * invstd;
            b->p[ROLE_DX][at] = slope * (8 * U * incoming + (factor + 8 * U) * share) + FLT_MIN;
            if (b->p[ROLE_DZ])
                b->p[ROLE_DZ][at] = 2 * U * incoming;
        }
    b->p[ROLE_DBETA][c] = factor * sum + FLT_MIN;
    b->p[ROLE_DGAMMA][c] = factor * sum_scaled + FLT_MIN;
}

/* --- softmax cross entropy --- */

/* K is the number of classes, and u is as in bounds.h. exp(x - max) has a relative error of
 * u |x - max| from the rounding of x - max, plus a few u from exp itself. The sum of the
 * exponentials adds the roundings of K positive terms. The probabilities have the resulting
 * relative error. The logarithm turns this error into an absolute error of the loss. */
static void bound_xent(const struct op_desc *d, const struct operands *o, struct bounds *b)
{
    int64_t rows = d->t[ROLE_X].dim[0], classes = d->t[ROLE_X].dim[1];
    double scale = (double)operand_state(o)->loss_scale / (double)rows, loss_bound = 0;
    double target = d->t[ROLE_PARTNER].ndim ? 6 : 4; /* roundings of the target and of DX */
    for (int64_t n = 0; n < rows; n++) {
        const float *x = operand_f32(o, ROLE_X) + n * classes;
        double largest = 0, top = (double)x[0], sum = 0;
        for (int64_t k = 0; k < classes; k++) {
            largest = max2(largest, fabs((double)x[k]));
            top = max2(top, (double)x[k]);
        }
        for (int64_t k = 0; k < classes; k++)
            sum += exp((double)x[k] - top);
        double relative = (16 + 2 * sqrt((double)classes) + 8 * largest) * U;
        if (!isnan(sum)) /* the NaN of a row without a label does not reach the loss */
            loss_bound += relative + 4 * U * log(sum);
        for (int64_t k = 0; b->p[ROLE_DX] && k < classes; k++) {
            double p = exp((double)x[k] - top) / sum;
            b->p[ROLE_DX][n * classes + k] = scale * (relative * p + target * U);
        }
    }
    b->p[ROLE_METRICS][0] = loss_bound;
}

/* --- all operations --- */

static bool is_exact(const struct op_desc *d, const struct operands *o)
{
    switch (d->kind) {
    case OP_RELU_FWD:
    case OP_MAXPOOL_FWD:
    case OP_REORDER:
    case OP_ROUND:
    case OP_CHECK_FINITE:
        return true;
    case OP_SGD:
        return operand_state(o)->found_inf != 0;
    default:
        return false;
    }
}

static enum status bounds_alloc(const struct op_desc *d, const struct operands *o, struct bounds *b)
{
    enum status st = STATUS_OK;
    *b = (struct bounds){{NULL}};
    for (int r = 0; r < ROLE_COUNT && st == STATUS_OK; r++)
        if (op_roles(d->kind).writes >> r & 1 && o->p[r])
            st = array_new(&b->p[r], operand_count(d, (enum role)r));
    if (st != STATUS_OK)
        bounds_free(b);
    return st;
}

enum status bounds_fused(const struct op_desc *d, const struct operands *want, struct bounds *b)
{
    double unit = 0x1p-19;
    for (int r = 0; r < ROLE_COUNT; r++)
        if (d->t[r].rounds != DTYPE_F32)
            unit = d->t[r].rounds == DTYPE_F16 ? 0x1p-10 : 0x1p-7;
    TRY(bounds_alloc(d, want, b));
    for (int r = 0; r < ROLE_COUNT; r++) {
        double largest = 0;
        int64_t n = b->p[r] && d->t[r].type == DTYPE_F32 ? operand_count(d, (enum role)r) : 0;
        for (int64_t i = 0; i < n; i++)
            largest = max2(largest, fabs((double)operand_f32(want, (enum role)r)[i]));
        for (int64_t i = 0; i < n; i++)
            b->p[r][i] = 4 * unit * largest;
    }
    return STATUS_OK;
}

enum status bounds_new(struct device *ref, const struct op_desc *d, bool narrow, bool winograd,
                       const struct operands *o, struct bounds *b)
{
    *b = (struct bounds){{NULL}};
    if (is_exact(d, o))
        return STATUS_OK;
    TRY(bounds_alloc(d, o, b));
    enum status st = STATUS_OK;
    switch (d->kind) {
    case OP_BN_FWD_TRAIN:
        for (int64_t c = 0; c < d->t[ROLE_X].dim[1]; c++)
            bound_bn_train(d, o, c, b);
        break;
    case OP_BN_BWD:
        for (int64_t c = 0; c < d->t[ROLE_X].dim[1]; c++)
            bound_bn_bwd(d, o, c, b);
        break;
    case OP_SOFTMAX_XENT:
        bound_xent(d, o, b);
        break;
    default:
        st = bound_linear(ref, d, narrow, winograd, o, b);
    }
    if (st != STATUS_OK)
        bounds_free(b);
    return st;
}

void bounds_free(struct bounds *b)
{
    for (int r = 0; r < ROLE_COUNT; r++)
        free(b->p[r]);
    *b = (struct bounds){{NULL}};
}

/* --- comparing --- */

/* The difference of two values divided by the bound; a result above 1 is an error. */
static double excess(double want, double got, double bound)
{
    if (want == got || (isnan(want) && isnan(got)))
        return 0;
    double error = fabs(got - want);
    return isnan(error) || !(bound > 0) ? INFINITY : error / bound;
}

/* As `excess`, for an element that may be rounded: 0 if `got` lies between want - bound and
 * want + bound, both rounded; infinite if the element's type does not have the value `got`. */
static double element_excess(const struct op_desc *d, enum role role, int64_t i, float want,
                             float got, double bound)
{
    if (precision_of(d, role, i) == DTYPE_F32)
        return excess((double)want, (double)got, bound);
    if (isnan(want) && isnan(got))
        return 0;
    if (dtype_round(precision_of(d, role, i), got) != got)
        return INFINITY;
    if (want == got) /* also for infinities, which have no interval around them */
        return 0;
    float low = precision_written(d, role, i, (float)((double)want - bound));
    float high = precision_written(d, role, i, (float)((double)want + bound));
    if (low <= got && got <= high)
        return 0;
    float nearest = got < low ? low : high;
    return 1 + excess((double)nearest, (double)got, bound);
}

static enum status check_floats(const struct op_desc *d, enum role role, const double *bound,
                                const float *want, const float *got)
{
    int64_t worst = 0, wrong = 0, n = operand_count(d, role);
    double most = 0;
    for (int64_t i = 0; i < n; i++) {
        double e = element_excess(d, role, i, want[i], got[i], bound ? bound[i] : 0);
        wrong += e > 1;
        if (e > most) {
            most = e;
            worst = i;
        }
    }
    if (wrong == 0)
        return STATUS_OK;
    return status_fail(STATUS_MISMATCH,
                       "%s: %lld of %lld elements are wrong; the worst, %lld, is %.9g instead of "
                       "%.9g +- %.2g as %s",
                       role_str(role), (long long)wrong, (long long)n, (long long)worst,
                       (double)got[worst], (double)want[worst], bound ? bound[worst] : 0,
                       dtype_str(precision_of(d, role, worst)));
}

static enum status check_metrics(const double *bound, const struct loss_metrics *want,
                                 const struct loss_metrics *got)
{
    if (excess(want->loss_sum, got->loss_sum, bound ? *bound : 0) > 1)
        return status_fail(STATUS_MISMATCH, "METRICS: the loss is %.12g instead of %.12g +- %.2g",
                           got->loss_sum, want->loss_sum, bound ? *bound : 0);
    if (want->count != got->count || want->top1 != got->top1 || want->top5 != got->top5)
        return status_fail(STATUS_MISMATCH,
                           "METRICS: count, top1, top5 are %lld, %lld, %lld instead of %lld, %lld, "
                           "%lld",
                           (long long)got->count, (long long)got->top1, (long long)got->top5,
                           (long long)want->count, (long long)want->top1, (long long)want->top5);
    return STATUS_OK;
}

static enum status check_state(const struct step_state *want, const struct step_state *got)
{
    if (want->found_inf != got->found_inf)
        return status_fail(STATUS_MISMATCH, "STATE: found_inf is %d instead of %d", got->found_inf,
                           want->found_inf);
    if (memcmp(want, got, sizeof *want) != 0)
        return status_fail(STATUS_MISMATCH, "STATE: a field other than found_inf was changed");
    return STATUS_OK;
}

static enum status check_bytes(enum role role, const uint8_t *want, const uint8_t *got, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (want[i] != got[i])
            return status_fail(STATUS_MISMATCH, "%s: element %zu is %d instead of %d",
                               role_str(role), i, got[i], want[i]);
    return STATUS_OK;
}

enum status bounds_check(const struct op_desc *d, const struct bounds *b,
                         const struct operands *want, const struct operands *got)
{
    struct op_roles roles = op_roles(d->kind);
    for (int r = 0; r < ROLE_COUNT; r++) {
        enum role role = (enum role)r;
        const double *bound = b ? b->p[r] : NULL;
        if (!(roles.writes >> r & 1) || !want->p[r])
            continue;
        if (role == ROLE_STATE)
            TRY(check_state(operand_state(want), operand_state(got)));
        else if (role == ROLE_METRICS)
            TRY(check_metrics(bound, operand_metrics(want), operand_metrics(got)));
        else if (d->t[r].type == DTYPE_F32)
            TRY(check_floats(d, role, bound, want->p[r], got->p[r]));
        else
            TRY(check_bytes(role, want->p[r], got->p[r], operand_bytes(d, role)));
    }
    return STATUS_OK;
}
