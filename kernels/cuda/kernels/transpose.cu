/* Transposes batches of matrices through tiles in shared memory: NCHW to NHWC and back. */
#include "kernels/cuda/kernels/launch.h"

enum { TILE = 32, TILE_ROWS = THREADS / TILE /* rows moved at a time */ };

struct transpose {
    int64_t batch, rows, cols;
};

static __host__ __device__ int64_t tiles_of(int64_t n)
{
    return (n + TILE - 1) / TILE;
}

template <typename From, typename To>
static __global__ void transpose_tiles(struct transpose t, const From *x, To *y)
{
    await_previous();
    __shared__ float tile[TILE][TILE + 1]; /* the odd stride avoids bank conflicts */
    int64_t across = tiles_of(t.cols), down = tiles_of(t.rows);
    int tx = (int)(threadIdx.x % TILE), ty = (int)(threadIdx.x / TILE);
    for (int64_t i = blockIdx.x; i < t.batch * down * across; i += gridDim.x) {
        int64_t col = i % across * TILE, row = i / across % down * TILE;
        int64_t matrix = i / across / down * t.rows * t.cols;
        for (int k = ty; k < TILE; k += TILE_ROWS)
            if (row + k < t.rows && col + tx < t.cols)
                tile[k][tx] = widen(x[matrix + (row + k) * t.cols + col + tx]);
        __syncthreads();
        for (int k = ty; k < TILE; k += TILE_ROWS)
            if (col + k < t.cols && row + tx < t.rows)
                y[matrix + (col + k) * t.rows + row + tx] = narrow<To>(tile[tx][k]);
        __syncthreads();
    }
}

enum status cu_transpose(const struct cu_queue *q, enum dtype from, enum dtype to, int64_t batch,
                         int64_t rows, int64_t cols, const void *x, void *y)
{
    struct transpose t = {batch, rows, cols};
    cudaLaunchConfig_t config = launch_loop(q, batch * tiles_of(rows) * tiles_of(cols), 1);
    return LAUNCH_PAIR(from, to, config, transpose_tiles, t, x, y);
}
