/* Pads and sums the columns of a matrix, and adds a bias to them. A column is a channel. */
#include "kernels/cuda/kernels/columns.h"

/* A thread copies single elements, because the padded tensors are small (an image, or the weights
 * of a layer). */
template <typename From, typename To>
static __global__ void resize_rows(int64_t rows, int64_t from, int64_t to, const From *x, To *y)
{
    await_previous();
    for (int64_t i = loop_first(); i < rows * to; i += loop_step()) {
        int64_t row = i / to, c = i % to;
        y[i] = narrow<To>(c < from ? widen(x[row * from + c]) : 0.0f);
    }
}

enum status cu_resize_rows(const struct cu_queue *q, enum dtype from_type, enum dtype to_type,
                           int64_t rows, int64_t from, int64_t to, const void *x, void *y)
{
    /* no channel is added or removed: for example, a 16-bit DW is converted to fp32 */
    if (from == to)
        return cu_cast(q, from_type, to_type, rows * to, x, y);
    return LAUNCH_PAIR(from_type, to_type, launch_loop(q, rows * to, THREADS), resize_rows, rows,
                       from, to, x, y);
}

template <typename T, bool ALIGNED>
COLUMN_KERNEL add_bias(struct columns m, const T *bias, bool with_relu, T *y)
{
    await_previous();
    struct column_place p = column_place_of<ALIGNED>(m);
    if (p.count == 0)
        return;
    struct unit b = unit_load(bias + p.c, p.count, p.aligned);
    for (int64_t row = p.row; column_has_row(m, row); row += p.step) {
        struct unit v = unpack(column_load<T>(m, p, y, row));
#pragma unroll
        for (int i = 0; i < UNIT; i++) {
            v.v[i] += b.v[i];
            v.v[i] = with_relu ? relu(v.v[i]) : v.v[i];
        }
        column_store<T>(m, p, y, row, v);
    }
}

enum status cu_add_bias(const struct cu_queue *q, const struct cu_bn_shape *s, const void *bias,
                        bool with_relu, void *y)
{
    struct columns m = columns_to_map(q, s->rows, s->channels);
    return LAUNCH_COLUMNS(s->type, q, &m, add_bias, m, bias, with_relu, y);
}

static __global__ void take_sums(int width, const double *sums, float *sum)
{
    await_previous();
    int c = (int)loop_first();
    if (c < width)
        sum[c] = (float)sums[c];
}

/* Size in bytes of the result of cu_bn_sums. It begins with the column sums. */
static size_t doubles_bytes(const struct cu_bn_shape *s)
{
    return ((2 * (size_t)s->channels + 1) * sizeof(double) + 63) & ~(size_t)63;
}

size_t cu_column_sums_workspace(const struct cu_bn_shape *s)
{
    return doubles_bytes(s) + cu_bn_workspace(s);
}

enum status cu_column_sums(const struct cu_queue *q, const struct cu_bn_shape *s, const void *x,
                           float *sum, void *workspace)
{
    double *sums = (double *)workspace;
    cudaLaunchConfig_t config =
        launch_config(q, dim3((unsigned)div_up(s->channels, THREADS)), THREADS);
    TRY(cu_bn_sums(q, s, x, sums, (char *)workspace + doubles_bytes(s)));
    return launch("take_sums", config, take_sums, s->channels, sums, sum);
}
