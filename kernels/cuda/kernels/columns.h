/* A matrix (rows, width) that is treated by columns: batch norm's channels.
 *
 * A thread keeps one unit of columns and walks down the rows, so that what belongs to a column
 * stays in registers. A block is (lanes, rows): enough lanes to cover the width where it is small,
 * 32 otherwise. The grid cuts rows into slices by the shape alone, so that sums over rows have
 * the same order on every device. */
#ifndef KERNELS_CUDA_KERNELS_COLUMNS_H
#define KERNELS_CUDA_KERNELS_COLUMNS_H

#include "kernels/cuda/kernels/launch.h"

enum {
    COLUMN_LANES = 32,
    COLUMN_BLOCKS = 1024, /* of a grid, about */
    COLUMN_ROWS = 8,      /* that a thread should have at least */
};

struct columns {
    int64_t rows;
    int width;
    int lanes; /* threads side by side in a block: a power of two */
    int bands; /* blocks side by side */
    int slices;
};

static inline struct columns columns_of(int64_t rows, int width)
{
    struct columns m = {rows, width, 1, 1, 1};
    int64_t units = div_up(width, UNIT);
    while (m.lanes < units && m.lanes < COLUMN_LANES)
        m.lanes *= 2;
    m.bands = (int)div_up(units, m.lanes);
    int64_t wanted = div_up(rows, (int64_t)(THREADS / m.lanes) * COLUMN_ROWS);
    int64_t most = div_up(COLUMN_BLOCKS, m.bands);
    m.slices = (int)(wanted < most ? wanted : most);
    return m;
}

static inline cudaLaunchConfig_t launch_columns(const struct cu_queue *q, const struct columns *m)
{
    return launch_config(q, dim3((unsigned)m->bands, (unsigned)m->slices),
                         dim3((unsigned)m->lanes, (unsigned)(THREADS / m->lanes)));
}

/* Where a thread works. */
struct column_place {
    int c;             /* its first column */
    int count;         /* its columns; 0 beyond the width */
    bool aligned;      /* every unit of the matrix */
    int64_t row, step; /* its first row, and from one to the next */
};

static __device__ inline struct column_place column_place_of(const struct columns &m)
{
    struct column_place p;
    p.c = (int)(blockIdx.x * blockDim.x + threadIdx.x) * UNIT;
    p.count = p.c < m.width ? unit_count(m.width, p.c) : 0;
    p.aligned = m.width % UNIT == 0;
    p.row = (int64_t)blockIdx.y * blockDim.y + threadIdx.y;
    p.step = (int64_t)gridDim.y * blockDim.y;
    return p;
}

/* Where the bits of a unit lie in a mask; see cu_mask_stride(). */
static __device__ inline int64_t mask_at(int width, int64_t row, const struct column_place &p)
{
    return row * ((width + UNIT - 1) / UNIT) + p.c / UNIT;
}

/* What two sums over rows come to in this block, to partial (slices, 2, width). Every thread of the
 * block must call it. */
static __device__ inline void columns_reduce(const struct columns &m, const struct column_place &p,
                                             const struct unit &first, const struct unit &second,
                                             float *partial)
{
    __shared__ float sum[2 * UNIT][THREADS];
    int me = (int)(threadIdx.y * blockDim.x + threadIdx.x);
#pragma unroll
    for (int i = 0; i < UNIT; i++) {
        sum[i][me] = first.v[i];
        sum[UNIT + i][me] = second.v[i];
    }
    for (unsigned rows = blockDim.y / 2; rows > 0; rows /= 2) {
        __syncthreads();
        if (threadIdx.y < rows)
#pragma unroll
            for (int i = 0; i < 2 * UNIT; i++)
                sum[i][me] += sum[i][me + (int)(rows * blockDim.x)];
    }
    if (threadIdx.y == 0)
#pragma unroll
        for (int i = 0; i < UNIT; i++)
            if (i < p.count) {
                float *out = partial + (int64_t)blockIdx.y * 2 * m.width + p.c + i;
                out[0] = sum[i][me];
                out[m.width] = sum[UNIT + i][me];
            }
}

/* The other half: adds up the slices of partial sums, in double. A block is (COMBINE_LANES
 * channels, COMBINE_ROWS slices at a time). */
enum { COMBINE_LANES = 32, COMBINE_ROWS = 32 };

static inline cudaLaunchConfig_t launch_combine(const struct cu_queue *q, int width)
{
    return launch_config(q, dim3((unsigned)div_up(width, COMBINE_LANES)),
                         dim3(COMBINE_LANES, COMBINE_ROWS));
}

/* The two sums of the thread's column, valid where threadIdx.y is 0. Every thread must call it. */
static __device__ inline void columns_combine(const float *partial, int slices, int width,
                                              double *first, double *second)
{
    __shared__ double sum[2][COMBINE_ROWS][COMBINE_LANES];
    int c = (int)(blockIdx.x * COMBINE_LANES + threadIdx.x);
    unsigned y = threadIdx.y, x = threadIdx.x;
    double a = 0, b = 0;
    for (int s = (int)y; c < width && s < slices; s += COMBINE_ROWS) {
        a += (double)partial[(int64_t)s * 2 * width + c];
        b += (double)partial[((int64_t)s * 2 + 1) * width + c];
    }
    sum[0][y][x] = a;
    sum[1][y][x] = b;
    for (unsigned rows = COMBINE_ROWS / 2; rows > 0; rows /= 2) {
        __syncthreads();
        if (y < rows) {
            sum[0][y][x] += sum[0][y + rows][x];
            sum[1][y][x] += sum[1][y + rows][x];
        }
    }
    *first = sum[0][0][x];
    *second = sum[1][0][x];
}

#endif
