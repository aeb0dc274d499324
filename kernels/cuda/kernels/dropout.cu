/* Dropout with the masks of base/rng.h. The generator of a row gives blocks of four words. For
 * element f of the row, word f % 4 of block f / 4 decides whether the element is kept. So the mask
 * of a unit, which is eight elements, needs two blocks. */
#include "kernels/cuda/kernels/launch.h"

#include "base/rng.h"

/* One block of Philox4x32-10, as philox4x32() in base/rng.c. */
static __device__ void philox(uint4 c, uint32_t k0, uint32_t k1, uint32_t out[4])
{
#pragma unroll
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c.x, p1 = (uint64_t)0xCD9E8D57u * c.z;
        c.x = (uint32_t)(p1 >> 32) ^ c.y ^ k0;
        c.y = (uint32_t)p1;
        c.z = (uint32_t)(p0 >> 32) ^ c.w ^ k1;
        c.w = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c.x;
    out[1] = c.y;
    out[2] = c.z;
    out[3] = c.w;
}

/* Computes the eight random words of elements f to f + 7 of a row. `place` is packed as rng_at()
 * packs it. */
static __device__ void row_words(const struct step_state *state, uint64_t place, int64_t f,
                                 uint32_t words[UNIT])
{
    uint4 counter;
    counter.x = (uint32_t)(f / 4);
    counter.y = (uint32_t)state->step;
    counter.z = (uint32_t)place;
    counter.w = (uint32_t)RNG_DROPOUT << 16 | (uint32_t)(place >> 32 & 0xffff);
    uint32_t k0 = (uint32_t)state->seed, k1 = (uint32_t)(state->seed >> 32);
    philox(counter, k0, k1, words);
    counter.x++;
    philox(counter, k0, k1, words + 4);
}

struct dropout {
    int64_t rows, width;
    struct dropout_attr attr;
    float scale; /* factor of kept elements */
};

template <typename T>
static __global__ void dropout(struct dropout d, const struct step_state *state, const T *x, T *y)
{
    await_previous();
    int64_t units = (d.width + UNIT - 1) / UNIT;
    bool aligned = d.width % UNIT == 0;
    for (int64_t i = loop_first(); i < d.rows * units; i += loop_step()) {
        int64_t row = i / units, f = i % units * UNIT, at = row * d.width + f;
        int count = unit_count(d.width, f);
        uint64_t place = (uint64_t)d.attr.layer << 40 | (state->sample0 + (uint64_t)row);
        uint32_t words[UNIT];
        row_words(state, place, f, words);
        struct unit v = unit_load(x + at, count, aligned);
#pragma unroll
        for (int k = 0; k < UNIT; k++) {
            float drawn = (float)(words[k] >> 8) * 0x1p-24f; /* rng_float() */
            v.v[k] *= drawn >= d.attr.p ? d.scale : 0.0f;
        }
        unit_store(y + at, count, aligned, v);
    }
}

enum status cu_dropout(const struct cu_queue *q, enum dtype type, int64_t rows, int64_t width,
                       const struct dropout_attr *attr, const struct step_state *state,
                       const void *x, void *y)
{
    struct dropout d = {rows, width, *attr, (float)(1 / (1 - (double)attr->p))};
    int64_t units = rows * div_up(width, UNIT);
    return LAUNCH_KERNEL(type, launch_loop(q, units, THREADS), dropout, d, state, x, y);
}
