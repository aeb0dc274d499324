/* Crops, resamples and flips decoded pictures. The host has computed the weights of PIL's filter. A
 * block computes one row of an output: it first computes the weighted sums of source rows in shared
 * memory, and then computes the outputs from these sums. The results equal those of input/resize.c,
 * because sums over rows are exact, and fp32 sums over columns have the same order and the same
 * roundings. */
#include "kernels/cuda/resample.h"

#include "kernels/cuda/kernels/launch.h"

enum { COLOURS = 3, WEIGHT_BITS = 14 };

/* Number of neighbouring outputs whose source pixels fit in `line`. In the source, the centres of
 * neighbouring outputs are at most (taps - 1) / 2 apart. */
static __device__ int tile_of(int taps)
{
    return (CU_RESAMPLE_SPAN - taps - 1) / ((taps - 1) / 2) + 1;
}

/* line[j] = the weighted sum of the source rows' values src[k * pitch + j], j < n. */
static __device__ void blend_rows(const uint8_t *src, int64_t pitch, const int16_t *weight,
                                  int taps, int n, float *line)
{
    for (int j = (int)threadIdx.x; j < n; j += THREADS) {
        int sum = 0;
        for (int k = 0; k < taps; k++)
            sum += weight[k] * src[k * pitch + j];
        line[j] = (float)sum;
    }
}

/* Outputs [first, end) of a row; `line` begins at source pixel `left`. */
static __device__ void blend_columns(const struct cu_weights &x, const float *line, int left,
                                     int first, int end, uint8_t *out)
{
    for (int j = first * COLOURS + (int)threadIdx.x; j < end * COLOURS; j += THREADS) {
        int o = j / COLOURS, count = x.count[o];
        const int16_t *weight = x.weight + (int64_t)o * x.taps;
        const float *value = line + (x.begin[o] - left) * COLOURS + j % COLOURS;
        float sum = 0.5f;
        /* The compiler may contract an ordinary product and sum to one instruction with one
         * rounding less; it may not do so with these functions. */
        for (int k = 0; k < count; k++) {
            float w = (float)weight[k] / (1 << 2 * WEIGHT_BITS);
            sum = __fadd_rn(sum, __fmul_rn(w, value[k * COLOURS]));
        }
        out[j] = (uint8_t)sum;
    }
}

/* Sets *p.written to whether the last row of the picture has a byte other than CU_UNWRITTEN. */
static __device__ void check_written(const struct cu_picture &p)
{
    __shared__ int found;
    if (threadIdx.x == 0)
        found = 0;
    __syncthreads();
    const uint8_t *last = p.rgb + (p.height - 1) * p.pitch;
    for (int j = (int)threadIdx.x; j < p.width * COLOURS; j += THREADS)
        if (last[j] != CU_UNWRITTEN)
            found = 1;
    __syncthreads();
    if (threadIdx.x == 0)
        *p.written = found;
}

static __global__ void resample(int side, const struct cu_picture *pictures)
{
    await_previous();
    __shared__ float line[CU_RESAMPLE_SPAN * COLOURS];
    const struct cu_picture p = pictures[blockIdx.y];
    int row = (int)blockIdx.x, tile = tile_of(p.x.taps);
    const uint8_t *top = p.rgb + p.y.begin[row] * p.pitch;
    for (int first = 0; first < side; first += tile) {
        int end = first + tile < side ? first + tile : side;
        int a = p.x.begin[first], b = p.x.begin[end - 1]; /* a flip exchanges left and right */
        int left = a < b ? a : b;
        int right = a < b ? b + p.x.count[end - 1] : a + p.x.count[first];
        blend_rows(top + left * COLOURS, p.pitch, p.y.weight + (int64_t)row * p.y.taps,
                   p.y.count[row], (right - left) * COLOURS, line);
        __syncthreads();
        blend_columns(p.x, line, left, first, end, p.out + (int64_t)row * side * COLOURS);
        __syncthreads();
    }
    if (row == 0)
        check_written(p);
}

enum status cu_resample(const struct cu_queue *q, int side, int n, const struct cu_picture *picture)
{
    return launch("resample", launch_config(q, dim3((unsigned)side, (unsigned)n), dim3(THREADS)),
                  resample, side, picture);
}
