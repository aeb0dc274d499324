/* Batch norm over patches (struct bn_patch): the two reductions, and the two passes that write
 * results.
 *
 * The code for a line is written once, for n lanes. Loops over whole lines pass LINE as n, and
 * the compiler then drops the code that only a partial line needs. */
#include "kernels/cpu/isa/element.h"

/* Number of lines that are summed in float before the sum is added to a double. It is so small that
 * the rounding error of the sum stays below the rounding error of its terms. */
enum { RUN = 64 };

/* The hardware does not prefetch beyond the end of a page of 4 KiB, and the passes below read
 * several tensors at a time. The passes therefore prefetch data AHEAD bytes before they read it. */
enum { AHEAD = 2048 };

static inline void prefetch(const void *p)
{
    __builtin_prefetch((const char *)p + AHEAD);
}

static inline int64_t run_end(int64_t begin, int64_t lines)
{
    return lines - begin < RUN ? lines : begin + RUN;
}

static inline void moments_line(const stored *x, struct line shift, struct line *s1,
                                struct line *s2)
{
    prefetch(x);
    struct line d = line_sub(element_get(x, LINE), shift);
    *s1 = line_add(*s1, d);
    *s2 = line_fma(d, d, *s2);
}

static void bn_moments(struct bn_patch p, const void *from, const float *shift, double *s1,
                       double *s2)
{
    const stored *x = from;
    struct line k = line_load(shift);
    for (int64_t l = 0; l < p.lines;) {
        int64_t end = run_end(l, p.lines);
        /* Two accumulators for each sum, so that an addition does not wait for the previous one. */
        struct line a1 = line_zero(), a2 = line_zero(), b1 = line_zero(), b2 = line_zero();
        for (; l + 2 <= end; l += 2) {
            moments_line(x + l * p.stride, k, &a1, &a2);
            moments_line(x + (l + 1) * p.stride, k, &b1, &b2);
        }
        if (l < end)
            moments_line(x + l++ * p.stride, k, &a1, &a2);
        line_promote(s1, line_add(a1, b1));
        line_promote(s2, line_add(a2, b2));
    }
    float rest[LINE];
    line_store(rest, element_get(x + p.lines * p.stride, p.tail));
    for (int i = 0; i < p.tail; i++) {
        double d = (double)rest[i] - (double)shift[i];
        s1[i] += d;
        s2[i] += d * d;
    }
}

static inline bool can_stream(struct bn_patch p, const stored *to)
{
    return element_can_stream(to) && p.stride % VEC_LANES == 0;
}

struct affine_lines {
    struct line mean, scale, bias;
};

static inline struct line apply_line(const stored *x, const stored *z, int64_t at, int n,
                                     struct affine_lines c, bool relu)
{
    prefetch(x + at);
    struct line r = line_fma(line_sub(element_get(x + at, n), c.mean), c.scale, c.bias);
    if (z) {
        prefetch(z + at);
        r = line_add(r, element_get(z + at, n));
    }
    return relu ? line_relu(r) : r;
}

static void bn_apply(struct bn_patch p, const void *x_from, const void *z_from, void *y_to,
                     bn_signs *signs, struct bn_affine c, bool relu, bool stream)
{
    const stored *x = x_from, *z = z_from;
    stored *y = y_to;
    struct affine_lines k = {line_load(c.mean), line_load(c.scale), line_load(c.bias)};
    stream = stream && can_stream(p, y);
    for (int64_t l = 0; l < p.lines; l++) {
        int64_t at = l * p.stride;
        struct line r = apply_line(x, z, at, LINE, k, relu);
        if (signs)
            signs[at / LINE] = element_signs(r);
        if (stream)
            element_stream(y + at, r);
        else {
            __builtin_prefetch((const char *)(y + at) + AHEAD, 1);
            element_put(y + at, r, LINE);
        }
    }
    if (p.tail) {
        int64_t at = p.lines * p.stride;
        element_put(y + at, apply_line(x, z, at, p.tail, k, relu), p.tail);
    }
    if (stream)
        line_stream_end();
}

static inline struct line grad_line(struct bn_grad g, int64_t at, int n)
{
    const stored *dy = g.dy, *dy2 = g.dy2, *y = g.y;
    prefetch(dy + at);
    struct line d = element_get(dy + at, n);
    if (dy2) {
        prefetch(dy2 + at);
        d = line_add(d, element_get(dy2 + at, n));
    }
    if (g.signs)
        return line_where_signs(d, g.signs[at / LINE]);
    if (y)
        prefetch(y + at);
    return y ? element_where_positive(d, y + at, n) : d;
}

struct grad_sum_lines {
    struct line d, dx;
};

static inline struct grad_sum_lines grad_sums_line(struct grad_sum_lines s, struct bn_grad g,
                                                   const stored *x, stored *dz, struct line mean,
                                                   int64_t at, int n)
{
    struct line d = grad_line(g, at, n);
    if (dz) {
        d = element_held(d);
        element_put_exact(dz + at, d, n);
    }
    prefetch(x + at);
    s.d = line_add(s.d, d);
    s.dx = line_fma(d, line_sub(element_get(x + at, n), mean), s.dx);
    return s;
}

static void bn_grad_sums(struct bn_patch p, struct bn_grad g, const void *x, void *dz,
                         const float *mean, double *sd, double *sdx)
{
    const struct grad_sum_lines zero = {line_zero(), line_zero()};
    struct line m = line_load(mean);
    for (int64_t l = 0; l < p.lines;) {
        struct grad_sum_lines s = zero;
        for (int64_t end = run_end(l, p.lines); l < end; l++)
            s = grad_sums_line(s, g, x, dz, m, l * p.stride, LINE);
        line_promote(sd, s.d);
        line_promote(sdx, s.dx);
    }
    if (p.tail) {
        struct grad_sum_lines s = grad_sums_line(zero, g, x, dz, m, p.lines * p.stride, p.tail);
        line_promote(sd, s.d);
        line_promote(sdx, s.dx);
    }
}

struct affine_grad_lines {
    struct line mean, scale, slope, bias;
};

static inline struct line grad_apply_line(struct bn_grad g, const stored *x, int64_t at, int n,
                                          struct affine_grad_lines c)
{
    struct line d = grad_line(g, at, n);
    prefetch(x + at);
    struct line r = line_fma(line_sub(element_get(x + at, n), c.mean), c.slope, c.bias);
    return line_fma(d, c.scale, r);
}

static void bn_grad_apply(struct bn_patch p, struct bn_grad g, const void *x, void *dx_to,
                          struct bn_affine_grad c, bool stream)
{
    stored *dx = dx_to;
    struct affine_grad_lines k = {line_load(c.mean), line_load(c.scale), line_load(c.slope),
                                  line_load(c.bias)};
    stream = stream && can_stream(p, dx);
    for (int64_t l = 0; l < p.lines; l++) {
        int64_t at = l * p.stride;
        struct line r = grad_apply_line(g, x, at, LINE, k);
        if (stream)
            element_stream(dx + at, r);
        else
            element_put(dx + at, r, LINE);
    }
    if (p.tail) {
        int64_t at = p.lines * p.stride;
        element_put(dx + at, grad_apply_line(g, x, at, p.tail, k), p.tail);
    }
    if (stream)
        line_stream_end();
}

const struct bn_kernels OF_ELEMENT(bn_kernels) = {
    .moments = bn_moments,
    .apply = bn_apply,
    .grad_sums = bn_grad_sums,
    .grad_apply = bn_grad_apply,
};
