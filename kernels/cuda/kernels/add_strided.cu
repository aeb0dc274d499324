/* Adds a tensor to every n-th pixel of another tensor. A thread adds one unit of channels of one
 * pixel. */
#include "kernels/cuda/kernels/pool.h"

template <typename T> static __global__ void add_strided(struct cu_pool p, const T *x, T *y)
{
    await_previous();
    const int *stride = p.attr.stride;
    bool aligned = p.c % UNIT == 0;
    FOR_EACH_POOL_UNIT(p, p.out, o)
    {
        T *to = y + pool_at(p, p.in, o, o.h * stride[0], o.w * stride[1]);
        struct unit a = unit_load(x + pool_at(p, p.out, o, o.h, o.w), o.count, aligned);
        struct unit sum = unit_load(to, o.count, aligned);
#pragma unroll
        for (int i = 0; i < UNIT; i++)
            sum.v[i] += a.v[i];
        unit_store(to, o.count, aligned, sum);
    }
}

enum status cu_add_strided(const struct cu_queue *q, const struct cu_pool *p, const void *x,
                           void *y)
{
    return LAUNCH_KERNEL(p->type, launch_pool(q, p, p->out), add_strided, *p, x, y);
}
