/* The backward pass of two batch norms whose results were added: the last batch norm of a residual
 * block, and the batch norm of its shortcut. Each pass reads the gradient d of the sum once for
 * both batch norms. The first pass computes the sums and writes d to DZ. The second pass computes
 * the gradients, and replaces d in DZ by the gradient of Z. */
#include "kernels/cuda/kernels/bn_gradient.h"

enum { SUMS = 3 }; /* sums of d, d * (x - mean of x) and d * (z - mean of z) */

size_t cu_bn_workspace_two(const struct cu_bn_shape *s)
{
    struct columns m = columns_to_sum_wide(s->rows, s->channels);
    return (size_t)m.slices * SUMS * (size_t)s->channels * sizeof(float);
}

/* Returns `row`, or the thread's first row if `row` is beyond the last row. The caller then ignores
 * the values that it loads (see bn_bwd_load). */
static __device__ int64_t row_to_load(const struct columns &m, const struct column_place &p,
                                      int64_t row)
{
    return column_has_row(m, row) ? row : p.row;
}

/* The means of one thread's channels. */
struct two_means {
    struct unit x, z;
};

static __device__ void add_row(const struct unit &d, const struct unit &x, const struct unit &z,
                               const struct two_means &mean, struct unit (&sums)[SUMS])
{
#pragma unroll
    for (int i = 0; i < UNIT; i++) {
        sums[0].v[i] += d.v[i];
        sums[1].v[i] += d.v[i] * (x.v[i] - mean.x.v[i]);
        sums[2].v[i] += d.v[i] * (z.v[i] - mean.z.v[i]);
    }
}

/* TWO: whether there is a DY2. */
template <typename T, bool ALIGNED, bool TWO>
static __device__ void sum_rows(const struct columns &m, const struct column_place &p,
                                const struct cu_bn_bwd &a, const struct cu_bn_bwd_z &b,
                                struct unit (&sums)[SUMS])
{
    constexpr int AHEAD = column_ahead<T, ALIGNED>(32);
    struct two_means mean = {unit_load(a.mean + p.c, p.count, p.aligned),
                             unit_load(b.mean + p.c, p.count, p.aligned)};
    for (int64_t row = p.row; column_has_row(m, row); row += AHEAD * p.step) {
        bn_bwd_row<T> r[AHEAD];
        packed<T> z[AHEAD];
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            int64_t at = row_to_load(m, p, row + k * p.step);
            r[k] = bn_bwd_load<T>(m, p, a, TWO, at);
            z[k] = column_load<T>(m, p, b.z, at);
        }
#pragma unroll
        for (int k = 0; k < AHEAD; k++)
            if (column_has_row(m, row + k * p.step)) {
                struct unit d = incoming(r[k]);
                leave_dz<T>(m, p, a, row + k * p.step, &d);
                add_row(d, unpack(r[k].x), unpack(z[k]), mean, sums);
            }
    }
}

template <typename T, bool ALIGNED>
COLUMN_KERNEL_WIDE bn_bwd_sums_two(struct columns m, struct cu_bn_bwd a, struct cu_bn_bwd_z b,
                                   float *partial)
{
    await_previous();
    struct column_place p = column_place_of<ALIGNED>(m);
    struct unit sums[SUMS] = {};
    if (p.count > 0 && a.dy2)
        sum_rows<T, ALIGNED, true>(m, p, a, b, sums);
    else if (p.count > 0)
        sum_rows<T, ALIGNED, false>(m, p, a, b, sums);
    columns_reduce(m, p, sums, partial);
}

static __global__ void bn_bwd_combine_two(struct columns m, struct cu_bn_bwd a,
                                          struct cu_bn_bwd_z b, const float *partial, float *eq)
{
    await_previous();
    int c = (int)(blockIdx.x * COMBINE_LANES + threadIdx.x);
    double total[SUMS], rows = (double)m.rows;
    columns_combine(partial, m.slices, m.width, total);
    if (threadIdx.y != 0 || c >= m.width)
        return;
    double invstd = (double)a.invstd[c], z_invstd = (double)b.invstd[c];
    a.dbeta[c] = b.dbeta[c] = (float)total[0];
    a.dgamma[c] = (float)(total[1] * invstd);
    b.dgamma[c] = (float)(total[2] * z_invstd);
    bn_eq_put(eq, m.width, c, (double)a.gamma[c] * invstd, invstd, (double)a.mean[c], total[0],
              total[1], rows);
    bn_eq_put(eq + 3 * m.width, m.width, c, (double)b.gamma[c] * z_invstd, z_invstd,
              (double)b.mean[c], total[0], total[2], rows);
}

enum status cu_bn_bwd_sums_two(const struct cu_queue *q, const struct cu_bn_shape *s,
                               const struct cu_bn_bwd *a, const struct cu_bn_bwd_z *z, float *eq,
                               void *workspace)
{
    struct columns m = columns_to_sum_wide(s->rows, s->channels);
    float *partial = (float *)workspace;
    TRY(LAUNCH_COLUMNS(s->type, q, &m, bn_bwd_sums_two, m, *a, *z, partial));
    return launch("bn_bwd_combine_two", launch_combine(q, m.width), bn_bwd_combine_two, m, *a, *z,
                  partial, eq);
}

template <typename T, bool ALIGNED>
COLUMN_KERNEL_WIDE bn_bwd_lines(struct columns m, struct cu_bn_lines a)
{
    await_previous();
    constexpr int AHEAD = column_ahead<T, ALIGNED>(32);
    struct column_place p = column_place_of<ALIGNED>(m);
    if (p.count == 0)
        return;
    struct bn_eq of_x = bn_eq_load(m, p, a.eq), of_z = bn_eq_load(m, p, a.z_eq);
    for (int64_t row = p.row; column_has_row(m, row); row += AHEAD * p.step) {
        packed<T> dy[AHEAD], x[AHEAD], z[AHEAD];
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            int64_t at = row_to_load(m, p, row + k * p.step);
            dy[k] = column_load<T>(m, p, a.dy, at);
            x[k] = column_load<T>(m, p, a.x, at);
            z[k] = column_load<T>(m, p, a.z, at);
        }
#pragma unroll
        for (int k = 0; k < AHEAD; k++)
            if (column_has_row(m, row + k * p.step)) {
                struct unit d = unpack(dy[k]);
                column_store<T>(m, p, a.dx, row + k * p.step, bn_eq_of(of_x, d, unpack(x[k])));
                column_store<T>(m, p, a.dz, row + k * p.step, bn_eq_of(of_z, d, unpack(z[k])));
            }
    }
}

enum status cu_bn_bwd_lines(const struct cu_queue *q, const struct cu_bn_shape *s,
                            const struct cu_bn_lines *a)
{
    struct columns m = columns_to_map_wide(q, s->rows, s->channels);
    return LAUNCH_COLUMNS(s->type, q, &m, bn_bwd_lines, m, *a);
}
