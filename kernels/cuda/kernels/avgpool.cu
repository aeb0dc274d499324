/* Average pooling to a given size; OP_AVGPOOL_FWD defines which inputs each output covers. */
#include "kernels/cuda/kernels/pool.h"

/* The first input of output i. 32 bits suffice, because i and `in` are below 65536. */
static __device__ int window_begin(int i, int in, int out)
{
    return (int)((unsigned)i * (unsigned)in / (unsigned)out);
}

static __device__ int window_end(int i, int in, int out)
{
    return (int)((((unsigned)i + 1) * (unsigned)in + (unsigned)out - 1) / (unsigned)out);
}

template <typename T> static __global__ void avgpool_fwd(struct cu_pool p, const T *x, T *y)
{
    await_previous();
    bool aligned = p.c % UNIT == 0;
    FOR_EACH_POOL_UNIT(p, p.out, o)
    {
        int top = window_begin(o.h, p.in[0], p.out[0]), bottom = window_end(o.h, p.in[0], p.out[0]);
        int left = window_begin(o.w, p.in[1], p.out[1]), right = window_end(o.w, p.in[1], p.out[1]);
        struct unit sum = {};
        for (int h = top; h < bottom; h++)
            for (int w = left; w < right; w++) {
                struct unit v = unit_load(x + pool_at(p, p.in, o, h, w), o.count, aligned);
#pragma unroll
                for (int k = 0; k < UNIT; k++)
                    sum.v[k] += v.v[k];
            }
        float area = (float)((bottom - top) * (right - left));
#pragma unroll
        for (int k = 0; k < UNIT; k++)
            sum.v[k] /= area;
        unit_store(y + pool_at(p, p.out, o, o.h, o.w), o.count, aligned, sum);
    }
}

enum status cu_avgpool_fwd(const struct cu_queue *q, const struct cu_pool *p, const void *x,
                           void *y)
{
    return LAUNCH_KERNEL(p->type, launch_pool(q, p, p->out), avgpool_fwd, *p, x, y);
}

template <typename T> static __global__ void avgpool_bwd(struct cu_pool p, const T *dy, T *dx)
{
    await_previous();
    bool aligned = p.c % UNIT == 0;
    FOR_EACH_POOL_UNIT(p, p.in, o)
    {
        /* The formula for the inputs of an output, with the sizes of input and output exchanged,
         * gives the outputs that cover an input. */
        int top = window_begin(o.h, p.out[0], p.in[0]), bottom = window_end(o.h, p.out[0], p.in[0]);
        int left = window_begin(o.w, p.out[1], p.in[1]), right = window_end(o.w, p.out[1], p.in[1]);
        struct unit sum = {};
        for (int h = top; h < bottom; h++)
            for (int w = left; w < right; w++) {
                int height = window_end(h, p.in[0], p.out[0]) - window_begin(h, p.in[0], p.out[0]);
                int width = window_end(w, p.in[1], p.out[1]) - window_begin(w, p.in[1], p.out[1]);
                float area = (float)(height * width);
                struct unit d = unit_load(dy + pool_at(p, p.out, o, h, w), o.count, aligned);
#pragma unroll
                for (int k = 0; k < UNIT; k++)
                    sum.v[k] += d.v[k] / area;
            }
        unit_store(dx + pool_at(p, p.in, o, o.h, o.w), o.count, aligned, sum);
    }
}

enum status cu_avgpool_bwd(const struct cu_queue *q, const struct cu_pool *p, const void *dy,
                           void *dx)
{
    return LAUNCH_KERNEL(p->type, launch_pool(q, p, p->in), avgpool_bwd, *p, dy, dx);
}
