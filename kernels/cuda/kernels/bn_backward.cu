/* Batch norm backward: a pass that computes the two sums per channel, and a pass that computes DX
 * from the sums. If there is a DZ, the first pass writes DZ, and the second reads DZ in place of
 * DY, DY2 and Y. */
#include "kernels/cuda/kernels/bn_gradient.h"

/* TWO: whether there is a DY2. */
template <typename T, bool ALIGNED, bool TWO>
static __device__ void sum_rows(const struct columns &m, const struct column_place &p,
                                const struct cu_bn_bwd &a, struct unit *sum, struct unit *centred)
{
    constexpr int AHEAD = column_ahead<T, ALIGNED>(TWO ? 16 : 32);
    struct unit mean = unit_load(a.mean + p.c, p.count, p.aligned);
    for (int64_t row = p.row; column_has_row(m, row); row += AHEAD * p.step) {
        bn_bwd_row<T> r[AHEAD];
#pragma unroll
        for (int k = 0; k < AHEAD; k++)
            r[k] = bn_bwd_load<T>(m, p, a, TWO, row + k * p.step);
#pragma unroll
        for (int k = 0; k < AHEAD; k++)
            if (column_has_row(m, row + k * p.step)) {
                struct unit d = incoming(r[k]);
                if (a.dz)
                    leave_dz<T>(m, p, a, row + k * p.step, &d);
                bn_bwd_add(d, unpack(r[k].x), mean, sum, centred);
            }
    }
}

template <typename T, bool ALIGNED>
COLUMN_KERNEL bn_bwd_sums(struct columns m, struct cu_bn_bwd a, float *partial)
{
    await_previous();
    struct column_place p = column_place_of<ALIGNED>(m);
    struct unit sums[2] = {};
    if (p.count > 0 && a.dy2)
        sum_rows<T, ALIGNED, true>(m, p, a, &sums[0], &sums[1]);
    else if (p.count > 0)
        sum_rows<T, ALIGNED, false>(m, p, a, &sums[0], &sums[1]);
    columns_reduce(m, p, sums, partial);
}

static __global__ void bn_bwd_combine(struct columns m, struct cu_bn_bwd a, const float *partial,
                                      double *sums)
{
    await_previous();
    int c = (int)(blockIdx.x * COMBINE_LANES + threadIdx.x);
    double total[2];
    columns_combine(partial, m.slices, m.width, total);
    if (threadIdx.y != 0 || c >= m.width)
        return;
    a.dbeta[c] = (float)total[0];
    a.dgamma[c] = (float)(total[1] * (double)a.invstd[c]);
    sums[c] = total[0];
    sums[m.width + c] = total[1];
    if (c == 0)
        sums[2 * m.width] = (double)m.rows;
}

enum status cu_bn_bwd_sums(const struct cu_queue *q, const struct cu_bn_shape *s,
                           const struct cu_bn_bwd *a, double *sums, void *workspace)
{
    struct columns m = columns_to_sum(s->rows, s->channels);
    float *partial = (float *)workspace;
    TRY(LAUNCH_COLUMNS(s->type, q, &m, bn_bwd_sums, m, *a, partial));
    return launch("bn_bwd_combine", launch_combine(q, m.width), bn_bwd_combine, m, *a, partial,
                  sums);
}

/* Coefficients per channel of DX = slope * (d - shift - (x - mean) * tilt), where d is the
 * result of incoming(). */
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

static __device__ struct unit bn_line_at(const struct bn_line &l, const struct unit &d,
                                         struct unit x)
{
#pragma unroll
    for (int i = 0; i < UNIT; i++)
        x.v[i] = l.slope.v[i] * (d.v[i] - l.shift.v[i] - (x.v[i] - l.mean.v[i]) * l.tilt.v[i]);
    return x;
}

/* `two`: whether there is a DY2. */
template <typename T, int AHEAD>
static __device__ void apply_rows(const struct columns &m, const struct column_place &p,
                                  const struct cu_bn_bwd &a, const struct bn_line &l, bool two)
{
    for (int64_t row = p.row; column_has_row(m, row); row += AHEAD * p.step) {
        bn_bwd_row<T> r[AHEAD];
#pragma unroll
        for (int k = 0; k < AHEAD; k++)
            r[k] = bn_bwd_load<T>(m, p, a, two, row + k * p.step);
#pragma unroll
        for (int k = 0; k < AHEAD; k++)
            if (column_has_row(m, row + k * p.step))
                column_store<T>(m, p, a.dx, row + k * p.step,
                                bn_line_at(l, incoming(r[k]), unpack(r[k].x)));
    }
}

/* Loads as many rows at a time as the registers allow: struct bn_line alone takes 32 registers. Two
 * rows (of 16-bit types) fit only if the thread reads nothing but DY, X and perhaps a mask. Each
 * case has its own loop, without branches between the loads. */
template <typename T, bool ALIGNED>
COLUMN_KERNEL bn_bwd_apply(struct columns m, struct cu_bn_bwd a, const double *sums)
{
    await_previous();
    constexpr int AHEAD = column_ahead<T, ALIGNED>(32);
    struct column_place p = column_place_of<ALIGNED>(m);
    if (p.count == 0)
        return;
    struct bn_line l = bn_line_of(a, sums, m.width, p);
    if (AHEAD == 1 || a.dy2 || (a.y && !a.mask)) {
        apply_rows<T, 1>(m, p, a, l, a.dy2 != NULL);
        return;
    }
    a.y = NULL; /* shows the compiler that a.y is no longer used */
    if (a.mask) {
        apply_rows<T, AHEAD>(m, p, a, l, false);
        return;
    }
    a.mask = NULL;
    apply_rows<T, AHEAD>(m, p, a, l, false);
}

enum status cu_bn_bwd_apply(const struct cu_queue *q, const struct cu_bn_shape *s,
                            const struct cu_bn_bwd *a, const double *sums)
{
    struct columns m = columns_to_map(q, s->rows, s->channels);
    struct cu_bn_bwd rest = *a;
    if (a->dz) {
        rest.dy = a->dz;
        rest.dy2 = rest.y = NULL;
        rest.mask = NULL;
    }
    return LAUNCH_COLUMNS(s->type, q, &m, bn_bwd_apply, m, rest, sums);
}
