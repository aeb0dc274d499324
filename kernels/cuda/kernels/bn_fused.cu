/* Computes the steps of batch norm that remain if the adjacent convolutions compute its sums. */
#include "kernels/cuda/kernels/bn_gradient.h"

template <typename T>
static __global__ void bn_from_sums(struct cu_bn_from_sums a, struct cu_bn_statistics s)
{
    await_previous();
    int c = (int)loop_first();
    if (c >= a.channels)
        return;
    double n = (double)a.rows, sum = (double)a.sums[c], mean = sum / n;
    double squares = (double)a.sums[a.channels + c] - sum * mean; /* now about the mean */
    if (squares < 0)
        squares = 0;
    double m = (double)s.momentum, invstd = 1 / sqrt(squares / n + (double)s.eps);
    s.mean[c] = (float)mean;
    s.invstd[c] = (float)invstd;
    s.rmean[c] = (float)((1 - m) * (double)s.rmean[c] + m * mean);
    s.rvar[c] = (float)((1 - m) * (double)s.rvar[c] + m * squares / (n - 1));
    if (a.affine) {
        T scale = narrow<T>((float)((double)a.gamma[c] * invstd)), *affine = (T *)a.affine;
        affine[c] = scale;
        affine[a.channels + c] =
            narrow<T>((float)((double)a.beta[c] - mean * (double)widen(scale)));
    }
}

enum status cu_bn_from_sums(const struct cu_queue *q, const struct cu_bn_from_sums *a,
                            const struct cu_bn_statistics *statistics)
{
    cudaLaunchConfig_t config =
        launch_config(q, dim3((unsigned)div_up(a->channels, THREADS)), THREADS);
    return LAUNCH_KERNEL(a->type, config, bn_from_sums, *a, *statistics);
}

template <typename T, bool ALIGNED>
COLUMN_KERNEL bn_bwd_line(struct columns m, const T *dy, const T *x, const float *eq, T *dx)
{
    await_previous();
    constexpr int AHEAD = column_ahead<T, ALIGNED>(32);
    struct column_place p = column_place_of<ALIGNED>(m);
    if (p.count == 0)
        return;
    struct bn_eq e = bn_eq_load(m, p, eq);
    for (int64_t row = p.row; column_has_row(m, row); row += AHEAD * p.step) {
        packed<T> of_dy[AHEAD] = {}, of_x[AHEAD] = {};
#pragma unroll
        for (int k = 0; k < AHEAD; k++)
            if (column_has_row(m, row + k * p.step)) {
                of_dy[k] = column_load<T>(m, p, dy, row + k * p.step);
                of_x[k] = column_load<T>(m, p, x, row + k * p.step);
            }
#pragma unroll
        for (int k = 0; k < AHEAD; k++)
            if (column_has_row(m, row + k * p.step))
                column_store<T>(m, p, dx, row + k * p.step,
                                bn_eq_of(e, unpack(of_dy[k]), unpack(of_x[k])));
    }
}

enum status cu_bn_bwd_line(const struct cu_queue *q, const struct cu_bn_shape *s, const void *dy,
                           const void *x, const float *eq, void *dx)
{
    struct columns m = columns_to_map(q, s->rows, s->channels);
    return LAUNCH_COLUMNS(s->type, q, &m, bn_bwd_line, m, dy, x, eq, dx);
}
