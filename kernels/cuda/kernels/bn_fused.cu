/* Batch norm around convolutions that bring its sums along: what is left of it. */
#include "kernels/cuda/kernels/columns.h"

template <typename T>
static __global__ void bn_from_sums(struct cu_bn_from_sums a, struct cu_bn_statistics s)
{
    int c = (int)loop_first();
    if (c >= a.channels)
        return;
    double n = (double)a.rows, sum = (double)a.sums[c], mean = sum / n;
    double squares = (double)a.sums[a.channels + c] - sum * mean; /* about the mean */
    if (squares < 0)
        squares = 0;
    double m = (double)s.momentum, invstd = 1 / sqrt(squares / n + (double)s.eps);
    s.mean[c] = (float)mean;
    s.invstd[c] = (float)invstd;
    s.rmean[c] = (float)((1 - m) * (double)s.rmean[c] + m * mean);
    s.rvar[c] = (float)((1 - m) * (double)s.rvar[c] + m * squares / (n - 1));
    if (a.affine) {
        double scale = (double)a.gamma[c] * invstd;
        T *affine = (T *)a.affine;
        affine[c] = narrow<T>((float)scale);
        affine[a.channels + c] = narrow<T>((float)((double)a.beta[c] - mean * scale));
    }
}

template <typename T>
static enum status launch_from_sums(const struct cu_queue *q, const struct cu_bn_from_sums *a,
                                    const struct cu_bn_statistics *s)
{
    cudaLaunchConfig_t config =
        launch_config(q, dim3((unsigned)div_up(a->channels, THREADS)), THREADS);
    return launch("bn_from_sums", config, bn_from_sums<T>, *a, *s);
}

enum status cu_bn_from_sums(const struct cu_queue *q, const struct cu_bn_from_sums *a,
                            const struct cu_bn_statistics *statistics)
{
    return LAUNCH_TYPED(a->type, launch_from_sums, q, a, statistics);
}

template <typename T>
static __global__ void bn_bwd_line(struct columns m, const T *dy, const T *x, const float *eq,
                                   T *dx)
{
    struct column_place p = column_place_of(m);
    if (p.count == 0)
        return;
    struct unit of_dy = unit_load(eq + p.c, p.count, p.aligned);
    struct unit of_x = unit_load(eq + m.width + p.c, p.count, p.aligned);
    struct unit rest = unit_load(eq + 2 * m.width + p.c, p.count, p.aligned);
    for (int64_t row = p.row; row < m.rows; row += p.step) {
        int64_t at = row * m.width + p.c;
        struct unit d = unit_load(dy + at, p.count, p.aligned);
        struct unit v = unit_load(x + at, p.count, p.aligned);
#pragma unroll
        for (int i = 0; i < UNIT; i++)
            d.v[i] = of_dy.v[i] * d.v[i] + of_x.v[i] * v.v[i] + rest.v[i];
        unit_store(dx + at, p.count, p.aligned, d);
    }
}

template <typename T>
static enum status launch_line(const struct cu_queue *q, const struct columns *m, const void *dy,
                               const void *x, const float *eq, void *dx)
{
    return launch("bn_bwd_line", launch_columns(q, m), bn_bwd_line<T>, *m, (const T *)dy,
                  (const T *)x, eq, (T *)dx);
}

enum status cu_bn_bwd_line(const struct cu_queue *q, const struct cu_bn_shape *s, const void *dy,
                           const void *x, const float *eq, void *dx)
{
    struct columns m = columns_of(s->rows, s->channels);
    return LAUNCH_TYPED(s->type, launch_line, q, &m, dy, x, eq, dx);
}
