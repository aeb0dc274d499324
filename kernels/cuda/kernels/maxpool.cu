/* Maximum pooling. Forward, a thread looks at the window of one unit of channels of an output;
 * backward, it gathers from the windows that hold an input, so that nothing is added atomically. */
#include "kernels/cuda/kernels/pool.h"

template <typename T>
static __global__ void maxpool_fwd(struct cu_pool p, const T *x, T *y, uint8_t *index)
{
    const struct pool_attr a = p.attr;
    bool aligned = p.c % UNIT == 0;
    int64_t n = pool_units(p, p.out);
    for (int64_t i = loop_first(); i < n; i += loop_step()) {
        struct pool_place o = pool_place_of(p, p.out, i);
        struct unit max = {};
        uint8_t place[UNIT] = {};
        bool first = true;
        for (int kh = 0; kh < a.kernel[0]; kh++) {
            int ih = o.h * a.stride[0] - a.pad[0] + kh;
            for (int kw = 0; kw < a.kernel[1]; kw++) {
                int iw = o.w * a.stride[1] - a.pad[1] + kw;
                if (ih < 0 || ih >= p.in[0] || iw < 0 || iw >= p.in[1])
                    continue;
                struct unit v = unit_load(x + pool_at(p, p.in, o, ih, iw), o.count, aligned);
#pragma unroll
                for (int k = 0; k < UNIT; k++)
                    if (first || v.v[k] > max.v[k] || (isnan(v.v[k]) && !isnan(max.v[k]))) {
                        max.v[k] = v.v[k];
                        place[k] = (uint8_t)(kh * a.kernel[1] + kw);
                    }
                first = false;
            }
        }
        int64_t at = pool_at(p, p.out, o, o.h, o.w);
        unit_store(y + at, o.count, aligned, max);
        if (index)
            bytes_store(index + at, o.count, aligned, place);
    }
}

template <typename T>
static enum status launch_fwd(const struct cu_queue *q, const struct cu_pool *p, const void *x,
                              void *y, uint8_t *index)
{
    return launch("maxpool_fwd", launch_loop(q, pool_units(*p, p->out), THREADS), maxpool_fwd<T>,
                  *p, (const T *)x, (T *)y, index);
}

enum status cu_maxpool_fwd(const struct cu_queue *q, const struct cu_pool *p, const void *x,
                           void *y, uint8_t *index)
{
    return LAUNCH_TYPED(p->type, launch_fwd, q, p, x, y, index);
}

/* Outputs [begin, end) whose windows hold input i. */
struct pool_span {
    int begin, end;
};

static __device__ struct pool_span windows_of(int i, int kernel, int stride, int pad, int out)
{
    int last = (i + pad) / stride, first = i + pad - kernel; /* one before the first start */
    struct pool_span s = {first < 0 ? 0 : first / stride + 1, last + 1 < out ? last + 1 : out};
    return s;
}

template <typename T>
static __global__ void maxpool_bwd(struct cu_pool p, const T *dy, const T *dy2,
                                   const uint8_t *index, T *dx)
{
    const struct pool_attr a = p.attr;
    bool aligned = p.c % UNIT == 0;
    int64_t n = pool_units(p, p.in);
    for (int64_t i = loop_first(); i < n; i += loop_step()) {
        struct pool_place o = pool_place_of(p, p.in, i);
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

template <typename T>
static enum status launch_bwd(const struct cu_queue *q, const struct cu_pool *p, const void *dy,
                              const void *dy2, const uint8_t *index, void *dx)
{
    return launch("maxpool_bwd", launch_loop(q, pool_units(*p, p->in), THREADS), maxpool_bwd<T>, *p,
                  (const T *)dy, (const T *)dy2, index, (T *)dx);
}

enum status cu_maxpool_bwd(const struct cu_queue *q, const struct cu_pool *p, const void *dy,
                           const void *dy2, const uint8_t *index, void *dx)
{
    return LAUNCH_TYPED(p->type, launch_bwd, q, p, dy, dy2, index, dx);
}
