/* Maximum pooling. Forward, a thread computes one unit of channels of an output pixel. Backward, a
 * thread sums the gradients of all windows that contain an input pixel, so that no atomics are
 * needed. */
#include "kernels/cuda/kernels/pool.h"

/* Rows or columns [begin, end). */
struct pool_span {
    int begin, end;
};

/* The inputs that the window of output i covers: one or more. */
static __device__ struct pool_span inputs_of(int i, int kernel, int stride, int pad, int in)
{
    int begin = i * stride - pad, end = begin + kernel;
    struct pool_span s = {begin > 0 ? begin : 0, end < in ? end : in};
    return s;
}

/* Updates the maxima with the values at window index `here`. Among equal values the first stays; a
 * NaN always replaces the maximum. */
static __device__ void take_larger(const struct unit &v, int here, struct unit *max,
                                   uint8_t (&place)[UNIT])
{
#pragma unroll
    for (int k = 0; k < UNIT; k++)
        if (v.v[k] > max->v[k] || isnan(v.v[k])) {
            max->v[k] = v.v[k];
            place[k] = (uint8_t)here;
        }
}

template <typename T>
static __global__ void maxpool_fwd(struct cu_pool p, const T *x, T *y, uint8_t *index)
{
    await_previous();
    const struct pool_attr a = p.attr;
    bool aligned = p.c % UNIT == 0;
    FOR_EACH_POOL_UNIT(p, p.out, o)
    {
        struct pool_span rows = inputs_of(o.h, a.kernel[0], a.stride[0], a.pad[0], p.in[0]);
        struct pool_span cols = inputs_of(o.w, a.kernel[1], a.stride[1], a.pad[1], p.in[1]);
        /* The window index of input (0, 0), which may be outside the window. */
        int origin = (a.pad[0] - o.h * a.stride[0]) * a.kernel[1] + a.pad[1] - o.w * a.stride[1];
        struct unit max;
        uint8_t place[UNIT];
#pragma unroll
        for (int k = 0; k < UNIT; k++) {
            max.v[k] = -INFINITY;
            place[k] = (uint8_t)(origin + rows.begin * a.kernel[1] + cols.begin);
        }
        for (int h = rows.begin; h < rows.end; h++)
            for (int w = cols.begin; w < cols.end; w++)
                take_larger(unit_load(x + pool_at(p, p.in, o, h, w), o.count, aligned),
                            origin + h * a.kernel[1] + w, &max, place);
        int64_t at = pool_at(p, p.out, o, o.h, o.w);
        unit_store(y + at, o.count, aligned, max);
        if (index)
            bytes_store(index + at, o.count, aligned, place);
    }
}

enum status cu_maxpool_fwd(const struct cu_queue *q, const struct cu_pool *p, const void *x,
                           void *y, uint8_t *index)
{
    return LAUNCH_KERNEL(p->type, launch_pool(q, p, p->out), maxpool_fwd, *p, x, y, index);
}

/* The outputs whose windows contain input i. */
static __device__ struct pool_span windows_of(int i, int kernel, int stride, int pad, int out)
{
    /* Windows that contain i begin after position `first`, counted from the padding's edge. */
    int last = (i + pad) / stride, first = i + pad - kernel;
    struct pool_span s = {first < 0 ? 0 : first / stride + 1, last + 1 < out ? last + 1 : out};
    return s;
}

template <typename T>
static __global__ void maxpool_bwd(struct cu_pool p, const T *dy, const T *dy2,
                                   const uint8_t *index, T *dx)
{
    await_previous();
    const struct pool_attr a = p.attr;
    bool aligned = p.c % UNIT == 0;
    FOR_EACH_POOL_UNIT(p, p.in, o)
    {
        struct pool_span rows = windows_of(o.h, a.kernel[0], a.stride[0], a.pad[0], p.out[0]);
        struct pool_span cols = windows_of(o.w, a.kernel[1], a.stride[1], a.pad[1], p.out[1]);
        struct unit sum = {};
        for (int oh = rows.begin; oh < rows.end; oh++)
            for (int ow = cols.begin; ow < cols.end; ow++) {
                int kh = o.h + a.pad[0] - oh * a.stride[0], kw = o.w + a.pad[1] - ow * a.stride[1];
                int64_t at = pool_at(p, p.out, o, oh, ow);
                struct unit d = unit_load(dy + at, o.count, aligned), d2 = {};
                uint8_t place[UNIT];
                bytes_load(index + at, o.count, aligned, place);
                if (dy2)
                    d2 = unit_load(dy2 + at, o.count, aligned);
#pragma unroll
                for (int k = 0; k < UNIT; k++)
                    if (place[k] == kh * a.kernel[1] + kw)
                        sum.v[k] += d.v[k] + d2.v[k];
            }
        unit_store(dx + pool_at(p, p.in, o, o.h, o.w), o.count, aligned, sum);
    }
}

enum status cu_maxpool_bwd(const struct cu_queue *q, const struct cu_pool *p, const void *dy,
                           const void *dy2, const uint8_t *index, void *dx)
{
    return LAUNCH_KERNEL(p->type, launch_pool(q, p, p->in), maxpool_bwd, *p, dy, dy2, index, dx);
}
