/* Operations on runs of floats whose place in a tensor does not matter.
 *
 * What happens to a line is written once, for n lanes: the loops pass LINE, and the compiler drops
 * what only the rest of a run needs. */
#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/isa/vec.h"

static inline void relu_line(int64_t at, int n, const float *x, float *y)
{
    line_put(y + at, line_relu(line_get(x + at, n)), n);
}

static void flat_relu(const float *x, float *y, int64_t n)
{
    int64_t at = 0;
    for (; at + LINE <= n; at += LINE)
        relu_line(at, LINE, x, y);
    if (at < n)
        relu_line(at, (int)(n - at), x, y);
}

static inline void relu_grad_line(int64_t at, int n, const float *dy, const float *dy2,
                                  const float *y, float *dx)
{
    struct line d = line_get(dy + at, n);
    if (dy2)
        d = line_add(d, line_get(dy2 + at, n));
    line_put(dx + at, line_where_positive(d, line_get(y + at, n)), n);
}

static void flat_relu_grad(const float *dy, const float *dy2, const float *y, float *dx, int64_t n)
{
    int64_t at = 0;
    for (; at + LINE <= n; at += LINE)
        relu_grad_line(at, LINE, dy, dy2, y, dx);
    if (at < n)
        relu_grad_line(at, (int)(n - at), dy, dy2, y, dx);
}

static inline void add_line(int64_t at, int n, const float *a, const float *b, float *y)
{
    line_put(y + at, line_add(line_get(a + at, n), line_get(b + at, n)), n);
}

static void flat_add(const float *a, const float *b, float *y, int64_t n)
{
    int64_t at = 0;
    for (; at + LINE <= n; at += LINE)
        add_line(at, LINE, a, b, y);
    if (at < n)
        add_line(at, (int)(n - at), a, b, y);
}

struct sgd_lines {
    struct line minus_lr, grad_scale, weight_decay, momentum;
    bool nesterov;
};

static inline void sgd_line(int64_t at, int n, struct sgd_lines c, const float *dw, float *w,
                            float *v)
{
    struct line weight = line_get(w + at, n);
    struct line g = line_fma(line_get(dw + at, n), c.grad_scale, line_mul(weight, c.weight_decay));
    struct line velocity = line_fma(line_get(v + at, n), c.momentum, g);
    struct line step = c.nesterov ? line_fma(velocity, c.momentum, g) : velocity;
    line_put(v + at, velocity, n);
    line_put(w + at, line_fma(step, c.minus_lr, weight), n);
}

static void flat_sgd(struct sgd_step s, const float *dw, float *w, float *v, int64_t n)
{
    struct sgd_lines c = {line_all(-s.lr), line_all(s.grad_scale), line_all(s.weight_decay),
                          line_all(s.momentum), s.nesterov};
    int64_t at = 0;
    for (; at + LINE <= n; at += LINE)
        sgd_line(at, LINE, c, dw, w, v);
    if (at < n)
        sgd_line(at, (int)(n - at), c, dw, w, v);
}

const struct flat_kernels ISA(flat_kernels) = {
    .relu = flat_relu,
    .relu_grad = flat_relu_grad,
    .add = flat_add,
    .sgd = flat_sgd,
};
