/* Philox4x32-10 and the distributions drawn from it. */
#include "base/rng.h"

#include <math.h>
#include <string.h>

void philox4x32(const uint32_t ctr[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c0 = ctr[0], c1 = ctr[1], c2 = ctr[2], c3 = ctr[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0;
        uint64_t p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

struct rng rng_at(uint64_t seed, enum rng_stream stream, uint64_t a, uint64_t b)
{
    struct rng r = {
        .key = {(uint32_t)seed, (uint32_t)(seed >> 32)},
        .ctr = {0, (uint32_t)a, (uint32_t)b, (uint32_t)stream << 16 | ((b >> 32) & 0xffff)},
    };
    return r;
}

uint32_t rng_u32(struct rng *r)
{
    if (r->left == 0) {
        philox4x32(r->ctr, r->key, r->out);
        r->ctr[0]++;
        r->left = 4;
    }
    return r->out[4 - r->left--];
}

float rng_float(struct rng *r)
{
    return (float)(rng_u32(r) >> 8) * 0x1p-24f;
}

double rng_double(struct rng *r)
{
    uint64_t hi = rng_u32(r) >> 5, lo = rng_u32(r) >> 6;
    return (double)(hi << 26 | lo) * 0x1p-53;
}

uint32_t rng_below(struct rng *r, uint32_t n)
{
    uint32_t limit = UINT32_MAX - UINT32_MAX % n; /* a multiple of n */
    uint32_t x;
    do
        x = rng_u32(r);
    while (x >= limit);
    return x % n;
}

double rng_normal(struct rng *r)
{
    double u = 1.0 - rng_double(r); /* in (0, 1], so that the logarithm is finite */
    double v = rng_double(r);
    return sqrt(-2.0 * log(u)) * cos(2.0 * 3.14159265358979323846 * v);
}

/* The logarithm of a gamma variate. If the shape is below 1, a variate of shape + 1 is drawn and
 * multiplied by u^(1/shape), where u is uniform in (0, 1]. */
static double log_gamma_variate(struct rng *r, double shape)
{
    double boost = shape < 1 ? log(1.0 - rng_double(r)) / shape : 0;
    double d = (shape < 1 ? shape + 1 : shape) - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (;;) {
        double x = rng_normal(r), v = 1 + c * x, u = 1.0 - rng_double(r);
        v = v * v * v;
        if (v > 0 && log(u) < 0.5 * x * x + d - d * v + d * log(v))
            return boost + log(d) + log(v);
    }
}

double rng_beta(struct rng *r, double a, double b)
{
    double x = log_gamma_variate(r, a), y = log_gamma_variate(r, b);
    return 1 / (1 + exp(y - x));
}

uint64_t hash_fnv1a64(const char *s)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (; *s; s++)
        h = (h ^ (unsigned char)*s) * 0x100000001b3u;
    return h;
}

uint64_t hash_splitmix64(uint64_t x)
{
    uint64_t z = x + 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

uint64_t hash_bytes(uint64_t h, const void *mem, size_t bytes)
{
    const unsigned char *at = mem;
    uint64_t word;
    for (; bytes >= sizeof word; bytes -= sizeof word, at += sizeof word) {
        memcpy(&word, at, sizeof word);
        h = hash_splitmix64(h ^ word);
    }
    word = 0;
    memcpy(&word, at, bytes);
    return hash_splitmix64(h ^ word);
}
