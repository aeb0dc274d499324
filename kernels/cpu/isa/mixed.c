/* Operations on consecutive floats. The rounding precision is an argument, since it differs
 * between calls and between the tensors of a call.
 *
 * The code for a line is written once, for n lanes, as in flat.c. Each line branches on the
 * precision. The branch is predicted well and costs nothing, because memory bandwidth limits these
 * operations. */
#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/isa/round.h"

#include <math.h>

/* The smallest magnitude that rounds to infinity. */
static float overflow_limit(enum rounding to)
{
    return to == ROUND_F16    ? 65520.0f
           : to == ROUND_BF16 ? 0x1.ffp127f
           : to == ROUND_TF32 ? 0x1.ffep127f
                              : INFINITY;
}

static bool mixed_overflows(enum rounding to, const float *x, int64_t n)
{
    float limit = overflow_limit(to);
    int32_t found = 0;
#pragma omp simd reduction(| : found)
    for (int64_t i = 0; i < n; i++)
        found |= !(fabsf(x[i]) < limit); /* NaN too */
    return found != 0;
}

static double mixed_squares(enum rounding to, const float *x, int64_t n)
{
    double sum[LINE] = {0}, all = 0;
    for (int64_t at = 0; at < n; at += LINE) {
        float lane[LINE];
        int some = n - at < LINE ? (int)(n - at) : LINE;
        line_store(lane, line_round(line_get(x + at, some), to));
        for (int i = 0; i < LINE; i++)
            sum[i] += (double)lane[i] * (double)lane[i];
    }
    for (int i = 0; i < LINE; i++)
        all += sum[i];
    return all;
}

struct sgd_lines {
    struct line minus_lr, grad_scale, weight_decay, momentum;
    struct sgd_step step;
};

static inline void sgd_line(int64_t at, int n, const struct sgd_lines *c, const float *dw, float *w,
                            float *v, float *copy)
{
    struct line weight = line_get(w + at, n);
    struct line gradient = line_round(line_get(dw + at, n), c->step.gradient);
    struct line g = line_fma(gradient, c->grad_scale, line_mul(weight, c->weight_decay));
    struct line velocity = line_fma(line_get(v + at, n), c->momentum, g);
    struct line step = c->step.nesterov ? line_fma(velocity, c->momentum, g) : velocity;
    weight = line_round(line_fma(step, c->minus_lr, weight), c->step.master);
    line_put(v + at, line_round(velocity, c->step.master), n);
    line_put(w + at, weight, n);
    if (!copy)
        return;
    weight = line_round(weight, c->step.copy);
    if (c->step.stream && n == LINE)
        line_stream(copy + at, weight);
    else
        line_put(copy + at, weight, n);
}

static void mixed_sgd(struct sgd_step s, const float *dw, float *w, float *v, float *copy,
                      int64_t n)
{
    s.stream = s.stream && (uintptr_t)copy % VEC_BYTES == 0;
    struct sgd_lines c = {line_all(-s.lr), line_all(s.grad_scale), line_all(s.weight_decay),
                          line_all(s.momentum), s};
    FOR_EACH_LINE(n, sgd_line, &c, dw, w, v, copy);
    if (s.stream)
        line_stream_end();
}

const struct mixed_kernels ISA(mixed_kernels) = {
    .overflows = mixed_overflows,
    .squares = mixed_squares,
    .sgd = mixed_sgd,
};
