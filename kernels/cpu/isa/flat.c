/* Operations on runs of floats whose place in a tensor does not matter.
 *
 * What happens to a line is written once, for n lanes: the loops pass LINE, and the compiler drops
 * what only the rest of a run needs. */
#include "kernels/cpu/isa/rounded.h"

static inline void relu_line(int64_t at, int n, const float *x, float *y)
{
    rounded_put(y + at, line_relu(rounded_get(x + at, n)), n);
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
    struct line d = rounded_get(dy + at, n);
    if (dy2)
        d = line_add(d, rounded_get(dy2 + at, n));
    rounded_put(dx + at, rounded_where_positive(d, y + at, n), n);
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
    rounded_put(y + at, line_add(rounded_get(a + at, n), rounded_get(b + at, n)), n);
}

static void flat_add(const float *a, const float *b, float *y, int64_t n)
{
    int64_t at = 0;
    for (; at + LINE <= n; at += LINE)
        add_line(at, LINE, a, b, y);
    if (at < n)
        add_line(at, (int)(n - at), a, b, y);
}

static inline void incoming_line(int64_t at, int n, const float *dy, const float *dy2, float *d)
{
    struct line sum = rounded_get(dy + at, n);
    line_put(d + at, dy2 ? line_add(sum, rounded_get(dy2 + at, n)) : sum, n);
}

static void flat_incoming(const float *dy, const float *dy2, float *d, int64_t n)
{
    int64_t at = 0;
    for (; at + LINE <= n; at += LINE)
        incoming_line(at, LINE, dy, dy2, d);
    if (at < n)
        incoming_line(at, (int)(n - at), dy, dy2, d);
}

const struct flat_kernels ROUNDED(flat_kernels) = {
    .relu = flat_relu,
    .relu_grad = flat_relu_grad,
    .add = flat_add,
    .incoming = flat_incoming,
};
