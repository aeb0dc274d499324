/* Computes deterministic weights, images and labels. */
#include "model/oracle_fill.h"
#include "base/rng.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

static float uniform_at(uint64_t name_hash, int64_t i)
{
    uint64_t top = hash_splitmix64(name_hash + (uint64_t)i) >> 40;
    return (float)((double)top * 0x1p-23 - 1.0);
}

/* Returns base + scale * u, rounded to float after each of the two operations. The casts force both
 * roundings; a fused multiply-add would round only once. In double, each operation is exact before
 * its cast. */
static float affine(float base, float scale, float u)
{
    float scaled = (float)((double)scale * (double)u);
    return (float)((double)base + (double)scaled);
}

void oracle_fill_param(const struct param *p, float *out)
{
    int64_t n = param_count(p);
    bool weight = p->kind == PARAM_CONV_WEIGHT || p->kind == PARAM_LINEAR_WEIGHT;
    bool statistics = p->kind == PARAM_BN_MEAN || p->kind == PARAM_BN_VAR;
    float base = p->kind == PARAM_BN_GAMMA || p->kind == PARAM_BN_VAR ? 1 : 0;
    float scale = weight ? (float)sqrt(6.0 / (double)(n / p->dim[0])) : statistics ? 0 : 0.1f;
    uint64_t hash = hash_fnv1a64(p->name);
    for (int64_t i = 0; i < n; i++)
        out[i] = affine(base, scale, uniform_at(hash, i));
}

void oracle_fill_images(int64_t step, int64_t n, int64_t size, float *out)
{
    char name[32];
    snprintf(name, sizeof name, "image.%" PRId64, step);
    uint64_t hash = hash_fnv1a64(name);
    int64_t count = n * 3 * size * size;
    for (int64_t i = 0; i < count; i++)
        out[i] = uniform_at(hash, i);
}

void oracle_fill_pixels(int64_t step, int64_t n, int64_t size, uint8_t *out)
{
    char name[32];
    snprintf(name, sizeof name, "pixel.%" PRId64, step);
    uint64_t hash = hash_fnv1a64(name);
    int64_t count = n * 3 * size * size;
    for (int64_t i = 0; i < count; i++)
        out[i] = (uint8_t)(hash_splitmix64(hash + (uint64_t)i) >> 56);
}

void oracle_fill_labels(int64_t step, int64_t n, int classes, int32_t *out)
{
    char name[32];
    snprintf(name, sizeof name, "label.%" PRId64, step);
    uint64_t hash = hash_fnv1a64(name);
    for (int64_t i = 0; i < n; i++)
        out[i] = (int32_t)(hash_splitmix64(hash + (uint64_t)i) % (uint64_t)classes);
}
