/* Code that all kernels of batch norm's backward pass use: it reads the rows of the gradient, and
 * computes the gradient of X as a multiply-add. */
#pragma once

#include "kernels/cuda/kernels/columns.h"

/* The values of a row that both passes read. */
template <typename T> struct bn_bwd_row {
    packed<T> dy, dy2, x;
    unsigned passed; /* a bit per element: 1 if the ReLU passes the element's gradient */
};

template <typename T>
static __device__ inline unsigned passed_of(const struct columns &m, const struct column_place &p,
                                            const struct cu_bn_bwd &a, int64_t row)
{
    unsigned bits = 0;
    if (a.mask)
        return a.mask[mask_at(m.width, row, p)];
    if (!a.y)
        return ~0u;
    struct unit y = unpack(column_load<T>(m, p, a.y, row));
#pragma unroll
    for (int i = 0; i < UNIT; i++)
        bits |= (unsigned)(y.v[i] > 0) << i;
    return bits;
}

/* Loads a row. `two`: whether there is a DY2. If `row` is beyond the last row, the function loads
 * the thread's first row again, and the caller ignores these values. With a branch around the
 * loads, nvcc's code would wait for the loads before it issues the loads of the next row. */
template <typename T>
static __device__ inline bn_bwd_row<T> bn_bwd_load(const struct columns &m,
                                                   const struct column_place &p,
                                                   const struct cu_bn_bwd &a, bool two, int64_t row)
{
    bn_bwd_row<T> r = {};
    row = column_has_row(m, row) ? row : p.row;
    r.dy = column_load<T>(m, p, a.dy, row);
    r.x = column_load<T>(m, p, a.x, row);
    if (two)
        r.dy2 = column_load<T>(m, p, a.dy2, row);
    r.passed = passed_of<T>(m, p, a, row);
    return r;
}

/* The gradient of the normalised values: DY [+ DY2], or 0 where the ReLU blocks it. */
template <typename T> static __device__ inline struct unit incoming(const bn_bwd_row<T> &r)
{
    struct unit d = unpack(r.dy), more = unpack(r.dy2);
#pragma unroll
    for (int i = 0; i < UNIT; i++)
        d.v[i] = r.passed >> i & 1 ? d.v[i] + more.v[i] : 0.0f;
    return d;
}

/* Returns `d` as DZ stores it. The second parameter: precision to which an f32 DZ is rounded. */
template <typename T> static __device__ inline float held(float d, enum dtype)
{
    return widen(narrow<T>(d));
}

template <> __device__ inline float held<float>(float d, enum dtype rounds)
{
    return round_to(rounds, d);
}

template <typename T>
static __device__ inline void leave_dz(const struct columns &m, const struct column_place &p,
                                       const struct cu_bn_bwd &a, int64_t row, struct unit *d)
{
#pragma unroll
    for (int i = 0; i < UNIT; i++)
        d->v[i] = held<T>(d->v[i], a.dz_rounds);
    column_store<T>(m, p, a.dz, row, *d);
}

/* Adds the values of a pixel to the two sums of each channel. */
static __device__ inline void bn_bwd_add(const struct unit &d, const struct unit &x,
                                         const struct unit &mean, struct unit *sum,
                                         struct unit *centred)
{
#pragma unroll
    for (int i = 0; i < UNIT; i++) {
        sum->v[i] += d.v[i];
        centred->v[i] += d.v[i] * (x.v[i] - mean.v[i]);
    }
}

/* Coefficients per channel of DX = of_dy * dy + of_x * x + rest. */
struct bn_eq {
    struct unit of_dy, of_x, rest;
};

static __device__ inline struct bn_eq bn_eq_load(const struct columns &m,
                                                 const struct column_place &p, const float *eq)
{
    return {unit_load(eq + p.c, p.count, p.aligned),
            unit_load(eq + m.width + p.c, p.count, p.aligned),
            unit_load(eq + 2 * m.width + p.c, p.count, p.aligned)};
}

/* Writes the coefficients of channel `c` to ROLE_EQ's tensor. */
static __device__ inline void bn_eq_put(float *eq, int width, int c, double slope, double invstd,
                                        double mean, double sum, double centred, double rows)
{
    double of_x = -slope * invstd * invstd * centred / rows;
    eq[c] = (float)slope;
    eq[width + c] = (float)of_x;
    eq[2 * width + c] = (float)(-slope * sum / rows - of_x * mean);
}

static __device__ inline struct unit bn_eq_of(const struct bn_eq &e, struct unit dy,
                                              const struct unit &x)
{
#pragma unroll
    for (int i = 0; i < UNIT; i++)
        dy.v[i] = e.of_dy.v[i] * dy.v[i] + e.of_x.v[i] * x.v[i] + e.rest.v[i];
    return dy;
}
