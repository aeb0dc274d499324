/* Batch norm backward: the two sums per channel, and the pass that makes the gradients of them. */
#include "kernels/cuda/kernels/columns.h"

/* The gradient that reaches the normalised values of one unit: DY [+ DY2], cut off where the ReLU
 * was. */
template <typename T>
static __device__ struct unit incoming(const struct cu_bn_bwd &a, int64_t row, int width,
                                       const struct column_place &p)
{
    int64_t at = row * width + p.c;
    struct unit d = unit_load((const T *)a.dy + at, p.count, p.aligned);
    if (a.dy2) {
        struct unit more = unit_load((const T *)a.dy2 + at, p.count, p.aligned);
#pragma unroll
        for (int i = 0; i < UNIT; i++)
            d.v[i] += more.v[i];
    }
    if (a.mask) {
        unsigned bits = a.mask[mask_at(width, row, p)];
#pragma unroll
        for (int i = 0; i < UNIT; i++)
            d.v[i] = bits >> i & 1 ? d.v[i] : 0.0f;
    } else if (a.y) {
        struct unit y = unit_load((const T *)a.y + at, p.count, p.aligned);
#pragma unroll
        for (int i = 0; i < UNIT; i++)
            d.v[i] = y.v[i] > 0 ? d.v[i] : 0.0f;
    }
    return d;
}

template <typename T>
static __global__ void bn_bwd_sums(struct columns m, struct cu_bn_bwd a, float *partial)
{
    struct column_place p = column_place_of(m);
    struct unit sum = {}, centred = {};
    if (p.count > 0) {
        struct unit mean = unit_load(a.mean + p.c, p.count, p.aligned);
        for (int64_t row = p.row; row < m.rows; row += p.step) {
            struct unit d = incoming<T>(a, row, m.width, p);
            struct unit x = unit_load((const T *)a.x + row * m.width + p.c, p.count, p.aligned);
#pragma unroll
            for (int i = 0; i < UNIT; i++) {
                sum.v[i] += d.v[i];
                centred.v[i] += d.v[i] * (x.v[i] - mean.v[i]);
            }
        }
    }
    columns_reduce(m, p, sum, centred, partial);
}

static __global__ void bn_bwd_combine(struct columns m, struct cu_bn_bwd a, const float *partial,
                                      double *sums)
{
    int c = (int)(blockIdx.x * COMBINE_LANES + threadIdx.x);
    double sum, centred;
    columns_combine(partial, m.slices, m.width, &sum, &centred);
    if (threadIdx.y != 0 || c >= m.width)
        return;
    a.dbeta[c] = (float)sum;
    a.dgamma[c] = (float)(centred * (double)a.invstd[c]);
    sums[c] = sum;
    sums[m.width + c] = centred;
    if (c == 0)
        sums[2 * m.width] = (double)m.rows;
}

template <typename T>
static enum status launch_sums(const struct cu_queue *q, const struct columns *m,
                               const struct cu_bn_bwd *a, float *partial)
{
    return launch("bn_bwd_sums", launch_columns(q, m), bn_bwd_sums<T>, *m, *a, partial);
}

enum status cu_bn_bwd_sums(const struct cu_queue *q, const struct cu_bn_shape *s,
                           const struct cu_bn_bwd *a, double *sums, void *workspace)
{
    struct columns m = columns_of(s->rows, s->channels);
    float *partial = (float *)workspace;
    TRY(LAUNCH_TYPED(s->type, launch_sums, q, &m, a, partial));
    return launch("bn_bwd_combine", launch_combine(q, m.width), bn_bwd_combine, m, *a, partial,
                  sums);
}

/* DX = slope * (d - shift - (x - mean) * tilt), per channel. */
struct bn_line {
    struct unit mean, slope, shift, tilt;
};

static __device__ struct bn_line bn_line_of(const struct cu_bn_bwd &a, const double *sums,
                                            int width, const struct column_place &p)
{
    struct bn_line l = {};
    l.mean = unit_load(a.mean + p.c, p.count, p.aligned);
    l.slope = unit_load(a.gamma + p.c, p.count, p.aligned);
    double share = 1 / sums[2 * width];
#pragma unroll
    for (int i = 0; i < UNIT; i++)
        if (i < p.count) {
            float invstd = a.invstd[p.c + i];
            l.slope.v[i] *= invstd;
            l.shift.v[i] = (float)(sums[p.c + i] * share);
            l.tilt.v[i] = (float)(sums[width + p.c + i] * share) * invstd * invstd;
        }
    return l;
}

template <typename T>
static __global__ void bn_bwd_apply(struct columns m, struct cu_bn_bwd a, const double *sums)
{
    struct column_place p = column_place_of(m);
    if (p.count == 0)
        return;
    struct bn_line l = bn_line_of(a, sums, m.width, p);
    for (int64_t row = p.row; row < m.rows; row += p.step) {
        int64_t at = row * m.width + p.c;
        struct unit d = incoming<T>(a, row, m.width, p);
        struct unit x = unit_load((const T *)a.x + at, p.count, p.aligned);
        if (a.dz)
            unit_store((T *)a.dz + at, p.count, p.aligned, d);
#pragma unroll
        for (int i = 0; i < UNIT; i++)
            x.v[i] = l.slope.v[i] * (d.v[i] - l.shift.v[i] - (x.v[i] - l.mean.v[i]) * l.tilt.v[i]);
        unit_store((T *)a.dx + at, p.count, p.aligned, x);
    }
}

template <typename T>
static enum status launch_apply(const struct cu_queue *q, const struct columns *m,
                                const struct cu_bn_bwd *a, const double *sums)
{
    return launch("bn_bwd_apply", launch_columns(q, m), bn_bwd_apply<T>, *m, *a, sums);
}

enum status cu_bn_bwd_apply(const struct cu_queue *q, const struct cu_bn_shape *s,
                            const struct cu_bn_bwd *a, const double *sums)
{
    struct columns m = columns_of(s->rows, s->channels);
    return LAUNCH_TYPED(s->type, launch_apply, q, &m, a, sums);
}
