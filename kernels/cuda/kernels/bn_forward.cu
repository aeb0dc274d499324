/* Batch norm forward: computes the statistics, and applies them with the residual and the ReLU.
 *
 * The kernels sum x - pivot, where pivot is the channel's first value, so that fp32 is precise
 * enough even if the mean is much larger than the standard deviation. All later steps run once per
 * channel and compute in double. */
#include "kernels/cuda/kernels/columns.h"

size_t cu_bn_workspace(const struct cu_bn_shape *s)
{
    struct columns m = columns_to_sum(s->rows, s->channels);
    return ((size_t)m.slices * 2 + 1) * (size_t)s->channels * sizeof(float);
}

/* Returns the pivots: the values of the first row. A pivot that is not finite would turn infinite
 * sums into NaNs, so it is replaced by 0. */
template <typename T>
static __device__ struct unit pivot_of(const T *x, const struct column_place &p)
{
    struct unit pivot = unit_load(x + p.c, p.count, p.aligned);
#pragma unroll
    for (int i = 0; i < UNIT; i++)
        pivot.v[i] = isfinite(pivot.v[i]) ? pivot.v[i] : 0.0f;
    return pivot;
}

static __device__ void add_row(const struct unit &v, const struct unit &pivot, struct unit *sum,
                               struct unit *squares)
{
#pragma unroll
    for (int i = 0; i < UNIT; i++) {
        float d = v.v[i] - pivot.v[i];
        sum->v[i] += d;
        squares->v[i] += d * d;
    }
}

template <typename T, bool ALIGNED>
COLUMN_KERNEL bn_sums(struct columns m, const T *x, float *pivots, float *partial)
{
    await_previous();
    constexpr int AHEAD = column_ahead<T, ALIGNED>(64);
    struct column_place p = column_place_of<ALIGNED>(m);
    struct unit sums[2] = {};
    if (p.count > 0) {
        struct unit pivot = pivot_of(x, p);
        for (int64_t row = p.row; column_has_row(m, row); row += AHEAD * p.step) {
            packed<T> ahead[AHEAD] = {};
#pragma unroll
            for (int k = 0; k < AHEAD; k++)
                if (column_has_row(m, row + k * p.step))
                    ahead[k] = column_load<T>(m, p, x, row + k * p.step);
#pragma unroll
            for (int k = 0; k < AHEAD; k++)
                if (column_has_row(m, row + k * p.step))
                    add_row(unpack(ahead[k]), pivot, &sums[0], &sums[1]);
        }
        if (p.row == 0)
            unit_store(pivots + p.c, p.count, p.aligned, pivot);
    }
    columns_reduce(m, p, sums, partial);
}

/* Computes the statistics of channel `c` from its sums over n values. */
static __device__ void finalize_channel(const struct cu_bn_statistics &s, int c, double n,
                                        double sum, double squares)
{
    double mean = sum / n, m = (double)s.momentum;
    squares -= sum * mean; /* now the sum of squared differences from the mean */
    if (squares < 0)
        squares = 0;
    s.mean[c] = (float)mean;
    s.invstd[c] = (float)(1 / sqrt(squares / n + (double)s.eps));
    s.rmean[c] = (float)((1 - m) * (double)s.rmean[c] + m * mean);
    s.rvar[c] = (float)((1 - m) * (double)s.rvar[c] + m * squares / (n - 1));
}

/* Writes `sums`, or the statistics if `sums` is NULL. */
static __global__ void bn_combine(struct columns m, const float *pivots, const float *partial,
                                  double *sums, struct cu_bn_statistics statistics)
{
    await_previous();
    int c = (int)(blockIdx.x * COMBINE_LANES + threadIdx.x);
    double total[2], n = (double)m.rows;
    columns_combine(partial, m.slices, m.width, total);
    if (threadIdx.y != 0 || c >= m.width)
        return;
    double sum = total[0], squares = total[1], pivot = (double)pivots[c];
    squares += pivot * (2 * sum + n * pivot);
    sum += n * pivot;
    if (!sums) {
        finalize_channel(statistics, c, n, sum, squares);
        return;
    }
    sums[c] = sum;
    sums[m.width + c] = squares;
    if (c == 0)
        sums[2 * m.width] = n;
}

static enum status sum_up(const struct cu_queue *q, const struct cu_bn_shape *s, const void *x,
                          double *sums, const struct cu_bn_statistics *statistics, void *workspace)
{
    struct columns m = columns_to_sum(s->rows, s->channels);
    float *pivots = (float *)workspace;
    float *partial = pivots + s->channels;
    TRY(LAUNCH_COLUMNS(s->type, q, &m, bn_sums, m, x, pivots, partial));
    return launch("bn_combine", launch_combine(q, m.width), bn_combine, m, pivots, partial, sums,
                  *statistics);
}

enum status cu_bn_sums(const struct cu_queue *q, const struct cu_bn_shape *s, const void *x,
                       double *sums, void *workspace)
{
    const struct cu_bn_statistics none = {};
    return sum_up(q, s, x, sums, &none, workspace);
}

enum status cu_bn_statistics(const struct cu_queue *q, const struct cu_bn_shape *s, const void *x,
                             const struct cu_bn_statistics *statistics, void *workspace)
{
    return sum_up(q, s, x, NULL, statistics, workspace);
}

static __global__ void bn_finalize(int channels, const double *sums,
                                   struct cu_bn_statistics statistics)
{
    await_previous();
    int c = (int)loop_first();
    if (c < channels)
        finalize_channel(statistics, c, sums[2 * channels], sums[c], sums[channels + c]);
}

enum status cu_bn_finalize(const struct cu_queue *q, int channels, const double *sums,
                           const struct cu_bn_statistics *statistics)
{
    cudaLaunchConfig_t config =
        launch_config(q, dim3((unsigned)div_up(channels, THREADS)), THREADS);
    return launch("bn_finalize", config, bn_finalize, channels, sums, *statistics);
}

/* Rounds the values to the type in which they are stored, and returns the mask's bits for the
 * rounded values. */
template <typename T> static __device__ unsigned positive_bits(struct unit *y, int count)
{
    unsigned bits = 0;
#pragma unroll
    for (int i = 0; i < UNIT; i++) {
        y->v[i] = widen(narrow<T>(y->v[i]));
        bits |= (unsigned)(i < count && y->v[i] > 0) << i;
    }
    return bits;
}

/* How the residual is added. */
enum bn_residual { NO_RESIDUAL, RESIDUAL, RESIDUAL_SCALED };

/* Coefficients per channel of Y = (x - mean) * slope + beta [+ z] [then ReLU]. For RESIDUAL_SCALED,
 * z is multiplied by `of_z`, and beta includes the shift of z. */
struct bn_affine {
    struct unit mean, slope, beta, of_z;
};

static __device__ struct bn_affine bn_affine_of(const struct cu_bn_apply &a,
                                                const struct column_place &p)
{
    struct bn_affine f;
    f.mean = unit_load(a.mean + p.c, p.count, p.aligned);
    f.slope = unit_load(a.gamma + p.c, p.count, p.aligned);
    f.beta = unit_load(a.beta + p.c, p.count, p.aligned);
    struct unit spread = unit_load((a.invstd ? a.invstd : a.var) + p.c, p.count, p.aligned);
#pragma unroll
    for (int i = 0; i < UNIT; i++)
        f.slope.v[i] *= a.invstd ? spread.v[i] : 1 / sqrtf(spread.v[i] + a.eps);
    return f;
}

/* Adds the residual's coefficients. */
static __device__ void bn_affine_of_z(const struct columns &m, const struct cu_bn_apply &a,
                                      const struct column_place &p, struct bn_affine *f)
{
    struct unit shift = unit_load(a.z_affine + m.width + p.c, p.count, p.aligned);
    f->of_z = unit_load(a.z_affine + p.c, p.count, p.aligned);
#pragma unroll
    for (int i = 0; i < UNIT; i++)
        f->beta.v[i] += shift.v[i];
}

/* Computes Y of a row, and the row's mask. */
template <typename T, enum bn_residual KIND>
static __device__ void bn_apply_row(const struct columns &m, const struct column_place &p,
                                    const struct cu_bn_apply &a, const struct bn_affine &f,
                                    int64_t row, const struct unit &x, const struct unit &z)
{
    struct unit y;
#pragma unroll
    for (int i = 0; i < UNIT; i++) {
        float more = KIND == RESIDUAL_SCALED ? z.v[i] * f.of_z.v[i] : z.v[i];
        float v = (x.v[i] - f.mean.v[i]) * f.slope.v[i] + f.beta.v[i] + more;
        y.v[i] = a.relu ? relu(v) : v;
    }
    if (a.mask)
        a.mask[mask_at(m.width, row, p)] = (uint8_t)positive_bits<T>(&y, p.count);
    column_store<T>(m, p, a.y, row, y);
}

template <typename T, bool ALIGNED, enum bn_residual KIND>
static __device__ void bn_apply_rows(const struct columns &m, const struct column_place &p,
                                     const struct cu_bn_apply &a)
{
    constexpr int AHEAD = column_ahead<T, ALIGNED>(KIND == NO_RESIDUAL ? 64 : 32);
    struct bn_affine f = bn_affine_of(a, p);
    if (KIND == RESIDUAL_SCALED)
        bn_affine_of_z(m, a, p, &f);
    for (int64_t row = p.row; column_has_row(m, row); row += AHEAD * p.step) {
        packed<T> x[AHEAD] = {}, z[AHEAD] = {};
#pragma unroll
        for (int k = 0; k < AHEAD; k++)
            if (column_has_row(m, row + k * p.step)) {
                x[k] = column_load<T>(m, p, a.x, row + k * p.step);
                if (KIND != NO_RESIDUAL)
                    z[k] = column_load<T>(m, p, a.z, row + k * p.step);
            }
#pragma unroll
        for (int k = 0; k < AHEAD; k++)
            if (column_has_row(m, row + k * p.step))
                bn_apply_row<T, KIND>(m, p, a, f, row + k * p.step, unpack(x[k]), unpack(z[k]));
    }
}

template <typename T, bool ALIGNED> COLUMN_KERNEL bn_apply(struct columns m, struct cu_bn_apply a)
{
    await_previous();
    struct column_place p = column_place_of<ALIGNED>(m);
    if (p.count == 0)
        return;
    if (a.z && a.z_affine)
        bn_apply_rows<T, ALIGNED, RESIDUAL_SCALED>(m, p, a);
    else if (a.z)
        bn_apply_rows<T, ALIGNED, RESIDUAL>(m, p, a);
    else
        bn_apply_rows<T, ALIGNED, NO_RESIDUAL>(m, p, a);
}

enum status cu_bn_apply(const struct cu_queue *q, const struct cu_bn_shape *s,
                        const struct cu_bn_apply *a)
{
    struct columns m = columns_to_map(q, s->rows, s->channels);
    return LAUNCH_COLUMNS(s->type, q, &m, bn_apply, m, *a);
}
