/* Loops over the columns of a matrix (rows, width). The columns are batch norm's channels. A thread
 * processes the same unit of columns in many rows, so that the values per column (coefficients or
 * sums) stay in registers. It loads several rows before it computes, because memory latency is long
 * and bandwidth grows with the number of loads in flight.
 *
 * A block has (lanes, rows) threads. It has 32 lanes, or fewer if fewer lanes cover the width. The
 * grid cuts the rows into slices. The number of slices is such that all blocks run at the same
 * time. A few more blocks would run after the others, as a second wave that takes as long as the
 * first. */
#pragma once

#include "kernels/cuda/kernels/launch.h"

enum {
    COLUMN_LANES = 32,
    /* Blocks resident on a multiprocessor at the same time, enforced by COLUMN_KERNEL. */
    COLUMN_RESIDENT = 3,
    COLUMN_RESIDENT_WIDE = 2, /* enforced by COLUMN_KERNEL_WIDE */
    /* Blocks of a grid that sums rows. The shape alone determines the slices, so that sums have the
     * same order on every device. An H100 or H200 runs this many blocks at the same time. */
    COLUMN_SUM_BLOCKS = 132 * COLUMN_RESIDENT,
    COLUMN_ROWS = 8, /* minimum number of rows per thread, if there are enough rows */
};

/* Declares a kernel over columns. Each kernel is compiled in two forms: for a width that is a
 * multiple of UNIT (ALIGNED), and for any width. COLUMN_KERNEL_WIDE is for kernels that read or
 * write more tensors: a thread may use more registers, so fewer blocks are resident. */
#define COLUMN_KERNEL      static __global__ void __launch_bounds__(THREADS, COLUMN_RESIDENT)
#define COLUMN_KERNEL_WIDE static __global__ void __launch_bounds__(THREADS, COLUMN_RESIDENT_WIDE)

/* Number of rows that a thread loads before it computes. `bytes` is how much of one tensor the
 * thread may load in advance; its registers limit this size. If the rows are not aligned, the
 * result is 1, because the computation per element then takes so long that more loads save no time.
 */
template <typename T, bool ALIGNED> static constexpr __host__ __device__ int column_ahead(int bytes)
{
    int rows = bytes / (UNIT * (int)sizeof(T));
    return ALIGNED && rows > 1 ? rows : 1;
}

struct columns {
    int64_t rows;
    int width;
    int lanes; /* threads of a block along the width: a power of two */
    int bands; /* blocks along the width */
    int slices;
    bool back; /* true: rows from the last to the first; false: from the first to the last */
};

/* Cuts the matrix into at most `most` blocks, if possible. */
static inline struct columns columns_cut(int64_t rows, int width, int most)
{
    struct columns m = {rows, width, 1, 1, 1, false};
    int64_t units = div_up(width, UNIT);
    while (m.lanes < units && m.lanes < COLUMN_LANES)
        m.lanes *= 2;
    m.bands = (int)div_up(units, m.lanes);
    int64_t wanted = div_up(rows, (int64_t)(THREADS / m.lanes) * COLUMN_ROWS);
    most = most > m.bands ? most / m.bands : 1;
    m.slices = (int)(wanted < most ? wanted : most);
    return m;
}

/* Returns the cut for sums over rows. */
static inline struct columns columns_to_sum(int64_t rows, int width)
{
    return columns_cut(rows, width, COLUMN_SUM_BLOCKS);
}

/* The same for a COLUMN_KERNEL_WIDE. */
static inline struct columns columns_to_sum_wide(int64_t rows, int width)
{
    return columns_cut(rows, width, COLUMN_SUM_BLOCKS / COLUMN_RESIDENT * COLUMN_RESIDENT_WIDE);
}

/* Returns the cut for an elementwise pass. The previous pass has read the rows from first to last,
 * so the elementwise pass starts with the last rows, which are still in the cache. */
static inline struct columns columns_to_map(const struct cu_queue *q, int64_t rows, int width)
{
    struct columns m = columns_cut(rows, width, q->multiprocessors * COLUMN_RESIDENT);
    m.back = true;
    return m;
}

/* The same for a COLUMN_KERNEL_WIDE. */
static inline struct columns columns_to_map_wide(const struct cu_queue *q, int64_t rows, int width)
{
    struct columns m = columns_cut(rows, width, q->multiprocessors * COLUMN_RESIDENT_WIDE);
    m.back = true;
    return m;
}

static inline cudaLaunchConfig_t launch_columns(const struct cu_queue *q, const struct columns *m)
{
    return launch_config(q, dim3((unsigned)m->bands, (unsigned)m->slices),
                         dim3((unsigned)m->lanes, (unsigned)(THREADS / m->lanes)));
}

/* Launches the form of a kernel that fits the matrix's width and the type of its elements. Pointers
 * to elements may be pointers to void, as in LAUNCH_KERNEL. */
#define LAUNCH_COLUMNS(type, q, m, kernel, ...)                                                    \
    ((type) == DTYPE_F32    ? LAUNCH_WIDTH(float, (q), (m), kernel, __VA_ARGS__)                   \
     : (type) == DTYPE_F16  ? LAUNCH_WIDTH(__half, (q), (m), kernel, __VA_ARGS__)                  \
     : (type) == DTYPE_BF16 ? LAUNCH_WIDTH(__nv_bfloat16, (q), (m), kernel, __VA_ARGS__)           \
                            : launch_no_type(type))
#define LAUNCH_WIDTH(T, q, m, kernel, ...)                                                         \
    ((m)->width % UNIT == 0                                                                        \
         ? launch(#kernel, launch_columns(q, m), kernel<T, true>, __VA_ARGS__)                     \
         : launch(#kernel, launch_columns(q, m), kernel<T, false>, __VA_ARGS__))

/* A thread's columns and rows. */
struct column_place {
    int c;             /* first column */
    int count;         /* number of columns; 0 beyond the width */
    bool aligned;      /* whether every unit of the matrix is aligned */
    int64_t row, step; /* first row, and the distance to the thread's next row */
};

template <bool ALIGNED>
static __device__ inline struct column_place column_place_of(const struct columns &m)
{
    struct column_place p;
    int64_t row = (int64_t)blockIdx.y * blockDim.y + threadIdx.y;
    int64_t step = (int64_t)gridDim.y * blockDim.y;
    p.c = (int)(blockIdx.x * blockDim.x + threadIdx.x) * UNIT;
    p.count = p.c >= m.width ? 0 : ALIGNED ? (int)UNIT : unit_count(m.width, p.c);
    p.aligned = ALIGNED;
    p.row = m.back ? m.rows - 1 - row : row;
    p.step = m.back ? -step : step;
    return p;
}

/* Whether the row exists. A thread's loop goes up or down, and ends at the first row that does not
 * exist. */
static __device__ inline bool column_has_row(const struct columns &m, int64_t row)
{
    return (uint64_t)row < (uint64_t)m.rows;
}

/* The thread's unit of a row. */
template <typename T>
static __device__ inline packed<T>
column_load(const struct columns &m, const struct column_place &p, const void *x, int64_t row)
{
    return packed_load((const T *)x + row * m.width + p.c, p.count, p.aligned);
}

template <typename T>
static __device__ inline void column_store(const struct columns &m, const struct column_place &p,
                                           void *y, int64_t row, const struct unit &u)
{
    unit_store((T *)y + row * m.width + p.c, p.count, p.aligned, u);
}

/* Byte offset of a unit's bits in a mask; see kernels.h. */
static __device__ inline int64_t mask_at(int width, int64_t row, const struct column_place &p)
{
    return row * ((width + UNIT - 1) / UNIT) + p.c / UNIT;
}

/* Writes the block's part of SUMS sums over rows to partial (slices, SUMS, width). Every thread of
 * the block must call it. */
template <int SUMS>
static __device__ inline void columns_reduce(const struct columns &m, const struct column_place &p,
                                             const struct unit (&sums)[SUMS], float *partial)
{
    __shared__ float sum[SUMS * UNIT][THREADS];
    int me = (int)(threadIdx.y * blockDim.x + threadIdx.x);
#pragma unroll
    for (int i = 0; i < SUMS * UNIT; i++)
        sum[i][me] = sums[i / UNIT].v[i % UNIT];
    for (unsigned rows = blockDim.y / 2; rows > 0; rows /= 2) {
        __syncthreads();
        if (threadIdx.y < rows)
#pragma unroll
            for (int i = 0; i < SUMS * UNIT; i++)
                sum[i][me] += sum[i][me + (int)(rows * blockDim.x)];
    }
    if (threadIdx.y == 0)
#pragma unroll
        for (int i = 0; i < SUMS * UNIT; i++)
            if (i % UNIT < p.count)
                partial[((int64_t)blockIdx.y * SUMS + i / UNIT) * m.width + p.c + i % UNIT] =
                    sum[i][me];
}

/* The second step of a sum over rows: adds the partial sums of all slices, in double. A block
 * processes COMBINE_LANES channels, and COMBINE_ROWS slices at a time. 8 channels are one 32-byte
 * sector of memory. With so few channels per block, even a tensor of 64 channels has several
 * blocks. */
enum { COMBINE_LANES = 8, COMBINE_ROWS = 32 };

static inline cudaLaunchConfig_t launch_combine(const struct cu_queue *q, int width)
{
    return launch_config(q, dim3((unsigned)div_up(width, COMBINE_LANES)),
                         dim3(COMBINE_LANES, COMBINE_ROWS));
}

/* Computes the SUMS sums of the thread's column. Every thread of the block must call it, but the
 * results are valid only if threadIdx.y is 0. */
template <int SUMS>
static __device__ inline void columns_combine(const float *partial, int slices, int width,
                                              double (&result)[SUMS])
{
    __shared__ double sum[SUMS][COMBINE_ROWS][COMBINE_LANES];
    int c = (int)(blockIdx.x * COMBINE_LANES + threadIdx.x);
    unsigned y = threadIdx.y, x = threadIdx.x;
    double mine[SUMS] = {};
    slices = c < width ? slices : 0;
#pragma unroll 4
    for (int s = (int)y; s < slices; s += COMBINE_ROWS)
#pragma unroll
        for (int k = 0; k < SUMS; k++)
            mine[k] += (double)partial[((int64_t)s * SUMS + k) * width + c];
#pragma unroll
    for (int k = 0; k < SUMS; k++)
        sum[k][y][x] = mine[k];
    for (unsigned rows = COMBINE_ROWS / 2; rows > 0; rows /= 2) {
        __syncthreads();
        if (y < rows)
#pragma unroll
            for (int k = 0; k < SUMS; k++)
                sum[k][y][x] += sum[k][y + rows][x];
    }
#pragma unroll
    for (int k = 0; k < SUMS; k++)
        result[k] = sum[k][0][x];
}
