/* Operations on consecutive elements, for which an element's position in the tensor is irrelevant.
 *
 * A line is LINE adjacent elements. The code for a line is written once, for n <= LINE elements.
 * Where n is the constant LINE, the compiler drops the code that only a partial line at the end
 * needs. */
#include "kernels/cpu/isa/element.h"

static inline void relu_line(int64_t at, int n, const stored *x, stored *y)
{
    element_put(y + at, line_relu(element_get(x + at, n)), n);
}

static void flat_relu(const void *x, void *y, int64_t n)
{
    FOR_EACH_LINE(n, relu_line, x, y);
}

static inline void relu_grad_line(int64_t at, int n, const stored *dy, const stored *dy2,
                                  const stored *y, stored *dx)
{
    struct line d = element_get(dy + at, n);
    if (dy2)
        d = line_add(d, element_get(dy2 + at, n));
    element_put(dx + at, element_where_positive(d, y + at, n), n);
}

static void flat_relu_grad(const void *dy, const void *dy2, const void *y, void *dx, int64_t n)
{
    FOR_EACH_LINE(n, relu_grad_line, dy, dy2, y, dx);
}

static inline void add_line(int64_t at, int n, const stored *a, const stored *b, stored *y)
{
    element_put(y + at, line_add(element_get(a + at, n), element_get(b + at, n)), n);
}

static void flat_add(const void *a, const void *b, void *y, int64_t n)
{
    FOR_EACH_LINE(n, add_line, a, b, y);
}

static inline void incoming_line(int64_t at, int n, const stored *dy, const stored *dy2, float *d)
{
    struct line sum = element_get(dy + at, n);
    line_put(d + at, dy2 ? line_add(sum, element_get(dy2 + at, n)) : sum, n);
}

static void flat_incoming(const void *dy, const void *dy2, float *d, int64_t n)
{
    FOR_EACH_LINE(n, incoming_line, dy, dy2, d);
}

static inline void get_line(int64_t at, int n, const stored *x, float *y)
{
    line_put(y + at, element_get(x + at, n), n);
}

static void flat_get(const void *x, float *y, int64_t n)
{
    FOR_EACH_LINE(n, get_line, x, y);
}

static inline void put_line(int64_t at, int n, const float *x, stored *y)
{
    element_put(y + at, line_get(x + at, n), n);
}

static void flat_put(const float *x, void *y, int64_t n)
{
    FOR_EACH_LINE(n, put_line, x, y);
}

const struct flat_kernels OF_ELEMENT(flat_kernels) = {
    .relu = flat_relu,
    .relu_grad = flat_relu_grad,
    .add = flat_add,
    .incoming = flat_incoming,
    .get = flat_get,
    .put = flat_put,
};
