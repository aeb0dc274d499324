/* Converts pixels to the network's input. A byte has 256 values, so each block computes a table of
 * all results, in double, and then looks up each result. A thread converts eight pixels at a time.
 * If rows are mixed (mixup), each block converts one image at a time, and a thread converts one
 * pixel at a time. */
#include "kernels/cuda/kernels/launch.h"

enum { COLOURS = 3, BYTES = UNIT * COLOURS };

static __device__ void pixels_load(const uint8_t *x, int count, uint8_t b[BYTES])
{
    if (count == UNIT) {
#pragma unroll
        for (int i = 0; i < COLOURS; i++) {
            uint8_t eight[UNIT];
            bytes_load(x + i * UNIT, UNIT, true, eight);
#pragma unroll
            for (int k = 0; k < UNIT; k++)
                b[i * UNIT + k] = eight[k];
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < BYTES; i++)
        b[i] = i < count * COLOURS ? x[i] : 0;
}

static __device__ void fill_table(const struct normalize_attr &a, float value[COLOURS][256])
{
    for (int i = (int)threadIdx.x; i < COLOURS * 256; i += THREADS) {
        int c = i / 256;
        value[c][i % 256] = (float)((i % 256 / 255.0 - (double)a.mean[c]) / (double)a.std[c]);
    }
    __syncthreads();
}

template <typename T, int CHANNELS>
static __global__ void normalize_mixed(int64_t rows, struct normalize_attr a, struct cu_mix m,
                                       const uint8_t *x, T *y)
{
    await_previous();
    __shared__ float value[COLOURS][256];
    fill_table(a, value);
    float own = m.state->mix, rest = 1 - own;
    for (int64_t n = blockIdx.x; n < rows; n += gridDim.x) {
        const uint8_t *mine = x + n * m.plane * COLOURS;
        const uint8_t *other = x + m.partner[n] * m.plane * COLOURS;
        T *to = y + n * m.plane * CHANNELS;
        for (int64_t i = threadIdx.x; i < m.plane; i += THREADS) {
#pragma unroll
            for (int c = 0; c < CHANNELS; c++) {
                float v = 0;
                if (c < COLOURS)
                    v = own * value[c][mine[i * COLOURS + c]] +
                        rest * value[c][other[i * COLOURS + c]];
                to[i * CHANNELS + c] = narrow<T>(v);
            }
        }
    }
}

template <typename T, int CHANNELS>
static __global__ void normalize(int64_t pixels, struct normalize_attr a, const uint8_t *x, T *y)
{
    await_previous();
    __shared__ float value[COLOURS][256];
    fill_table(a, value);
    for (int64_t at = loop_first() * UNIT; at < pixels; at += loop_step() * UNIT) {
        int count = unit_count(pixels, at);
        uint8_t b[BYTES];
        pixels_load(x + at * COLOURS, count, b);
#pragma unroll
        for (int u = 0; u < CHANNELS; u++) { /* eight pixels are CHANNELS units */
            struct unit v;
#pragma unroll
            for (int k = 0; k < UNIT; k++) {
                int pixel = (u * UNIT + k) / CHANNELS, c = (u * UNIT + k) % CHANNELS;
                v.v[k] = c < COLOURS ? value[c][b[pixel * COLOURS + c]] : 0.0f;
            }
            int left = count * CHANNELS - u * UNIT;
            unit_store(y + at * CHANNELS + u * UNIT, left < UNIT ? left : (int)UNIT, true, v);
        }
    }
}

template <typename T>
static enum status launch_normalize(const struct cu_queue *q, int64_t pixels, int channels,
                                    const struct normalize_attr *attr, const struct cu_mix *mix,
                                    const uint8_t *x, void *y)
{
    if (mix->partner)
        return launch("normalize_mixed", launch_loop(q, pixels / mix->plane, 1),
                      channels == COLOURS ? normalize_mixed<T, COLOURS>
                                          : normalize_mixed<T, COLOURS + 1>,
                      pixels / mix->plane, *attr, *mix, x, (T *)y);
    cudaLaunchConfig_t config = launch_loop(q, pixels, THREADS * UNIT);
    if (channels == COLOURS)
        return launch("normalize", config, normalize<T, COLOURS>, pixels, *attr, x, (T *)y);
    return launch("normalize", config, normalize<T, COLOURS + 1>, pixels, *attr, x, (T *)y);
}

enum status cu_normalize(const struct cu_queue *q, enum dtype type, int64_t pixels, int channels,
                         const struct normalize_attr *attr, const struct cu_mix *mix,
                         const uint8_t *x, void *y)
{
    if (channels != COLOURS && channels != COLOURS + 1)
        return status_fail(STATUS_INVALID, "pixels must have 3 or 4 channels, not %d", channels);
    return LAUNCH_TYPED(type, launch_normalize, q, pixels, channels, attr, mix, x, y);
}
