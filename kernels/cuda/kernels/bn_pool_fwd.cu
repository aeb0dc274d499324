/* Batch norm, ReLU and maximum pooling. A thread computes several windows, one below the other. If
 * neighbouring windows overlap, the thread computes their common row once. */
#include "kernels/cuda/kernels/bn_pool.h"

enum { STRIP = 8 }; /* windows that a thread computes one below the other */

static bool has_windows(const struct cu_pool *p, int kernel, int stride, int pad)
{
    const struct pool_attr *a = &p->attr;
    return a->kernel[0] == kernel && a->kernel[1] == kernel && a->stride[0] == stride &&
           a->stride[1] == stride && a->pad[0] == pad && a->pad[1] == pad;
}

bool cu_bn_pool_has(const struct cu_pool *p)
{
    return p->c % UNIT == 0 && (has_windows(p, 3, 2, 1) || has_windows(p, 2, 2, 0));
}

/* Coefficients per channel of the normalised values (x - mean) * slope + beta. */
struct affine {
    struct unit mean, slope, beta;
};

static __device__ struct affine affine_of(const struct cu_bn_apply &a, int c)
{
    struct affine f = {unit_load(a.mean + c, UNIT, true), unit_load(a.gamma + c, UNIT, true),
                       unit_load(a.beta + c, UNIT, true)};
    struct unit invstd = unit_load(a.invstd + c, UNIT, true);
#pragma unroll
    for (int i = 0; i < UNIT; i++)
        f.slope.v[i] *= invstd.v[i];
    return f;
}

/* The largest values so far, and their positions in the window. */
struct maxima {
    struct unit value;
    int place[UNIT];
};

/* Windows [begin, end) of a column of windows. */
struct strip {
    int n, begin, end, w, c;
};

static __host__ __device__ inline int64_t strips(const struct cu_pool &p)
{
    return (int64_t)p.n * ((p.out[0] + STRIP - 1) / STRIP) * p.out[1] * (p.c / UNIT);
}

static __device__ struct strip strip_of(const struct cu_pool &p, int64_t item)
{
    struct strip s;
    int units = p.c / UNIT, across = p.out[1] * units, down = (p.out[0] + STRIP - 1) / STRIP;
    int i = (int)(item % across);
    int64_t row = item / across;
    s.n = (int)(row / down);
    s.begin = (int)(row % down) * STRIP;
    s.end = s.begin + STRIP < p.out[0] ? s.begin + STRIP : p.out[0];
    s.w = i / units;
    s.c = i % units * UNIT;
    return s;
}

/* Replaces each maximum in `to` by the value in `from` if that is larger. The new position is the
 * position in `from` plus `offset`. Among equal values the first stays; a NaN always replaces the
 * maximum. */
static __device__ void take_larger(const struct maxima &from, int offset, struct maxima *to)
{
#pragma unroll
    for (int k = 0; k < UNIT; k++)
        if (from.value.v[k] > to->value.v[k] || isnan(from.value.v[k])) {
            to->value.v[k] = from.value.v[k];
            to->place[k] = offset + from.place[k];
        }
}

static __device__ struct maxima no_maxima(void)
{
    struct maxima m;
#pragma unroll
    for (int k = 0; k < UNIT; k++) {
        m.value.v[k] = -INFINITY;
        m.place[k] = 0;
    }
    return m;
}

/* Loads the pixels of row `h` in the strip's windows. For a pixel of the padding, loads the nearest
 * pixel of the image; row_maxima ignores the loaded values. */
template <typename T, typename W>
static __device__ void load_row(const struct cu_pool &p, const struct strip &s, const void *x,
                                int h, packed<T> (&row)[W::KERNEL])
{
    const T *first = (const T *)x + unit_at(p, p.in, s.n, s.c, clamp_to(h, p.in[0]), 0);
#pragma unroll
    for (int k = 0; k < W::KERNEL; k++) {
        int w = clamp_to(s.w * W::STRIDE - W::PAD + k, p.in[1]);
        row[k] = packed_load(first + (int64_t)w * p.c, UNIT, true);
    }
}

/* Computes the maxima of a row before the ReLU. Applying the ReLU after the maximum gives the same
 * result. */
template <typename T, typename W>
static __device__ struct maxima row_maxima(const struct cu_pool &p, const struct strip &s,
                                           const struct affine &f, enum dtype rounds, int h,
                                           const packed<T> (&row)[W::KERNEL])
{
    struct maxima m = no_maxima();
#pragma unroll
    for (int k = 0; k < W::KERNEL; k++)
        if (within(h, p.in[0]) && within(s.w * W::STRIDE - W::PAD + k, p.in[1])) {
            struct maxima here = {unpack(row[k])};
#pragma unroll
            for (int i = 0; i < UNIT; i++) {
                float y = (here.value.v[i] - f.mean.v[i]) * f.slope.v[i] + f.beta.v[i];
                here.value.v[i] = held<T>(y, rounds);
                here.place[i] = k;
            }
            take_larger(here, 0, &m);
        }
    return m;
}

template <typename T>
static __device__ void store_maxima(const struct maxima &m, int64_t at, void *y, uint8_t *index)
{
    struct unit value;
    uint8_t place[UNIT];
#pragma unroll
    for (int k = 0; k < UNIT; k++) {
        value.v[k] = relu(m.value.v[k]);
        place[k] = (uint8_t)(m.value.v[k] > 0 ? m.place[k] : (int)POOL_NO_INDEX);
    }
    unit_store((T *)y + at, UNIT, true, value);
    bytes_store(index + at, UNIT, true, place);
}

template <typename T, typename W>
COLUMN_KERNEL_WIDE bn_pool_fwd(struct cu_pool p, struct cu_bn_apply a, enum dtype rounds,
                               uint8_t *index)
{
    await_previous();
    for (int64_t item = loop_first(); item < strips(p); item += loop_step()) {
        const struct strip s = strip_of(p, item);
        const struct affine f = affine_of(a, s.c);
        struct maxima above = no_maxima();
        if (W::SHARED > 0) {
            packed<T> row[W::KERNEL];
            int h = s.begin * W::STRIDE - W::PAD;
            load_row<T, W>(p, s, a.x, h, row);
            above = row_maxima<T, W>(p, s, f, rounds, h, row);
        }
        for (int oh = s.begin; oh < s.end; oh++) {
            packed<T> rows[W::STRIDE][W::KERNEL];
            int h = oh * W::STRIDE - W::PAD + W::SHARED;
            struct maxima max = W::SHARED > 0 ? above : no_maxima();
#pragma unroll
            for (int r = 0; r < W::STRIDE; r++)
                load_row<T, W>(p, s, a.x, h + r, rows[r]);
#pragma unroll
            for (int r = 0; r < W::STRIDE; r++) {
                above = row_maxima<T, W>(p, s, f, rounds, h + r, rows[r]);
                take_larger(above, (W::SHARED + r) * W::KERNEL, &max);
            }
            store_maxima<T>(max, unit_at(p, p.out, s.n, s.c, oh, s.w), a.y, index);
        }
    }
}

template <typename T>
static enum status launch_fwd(const struct cu_queue *q, const struct cu_pool *p,
                              const struct cu_bn_apply *a, enum dtype rounds, uint8_t *index)
{
    static_assert(windows<3, 2, 1>::SHARED <= 1 && windows<2, 2, 0>::SHARED <= 1,
                  "a thread keeps only one row of maxima for the next windows");
    cudaLaunchConfig_t config = launch_loop(q, strips(*p), THREADS);
    return LAUNCH_WINDOWS(p, config, bn_pool_fwd, T, *p, *a, rounds, index);
}

enum status cu_bn_pool_fwd(const struct cu_queue *q, const struct cu_pool *p,
                           const struct cu_bn_apply *a, enum dtype rounds, uint8_t *index)
{
    return LAUNCH_TYPED(p->type, launch_fwd, q, p, a, rounds, index);
}
