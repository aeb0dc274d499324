/* Counts gradients by magnitude. */
#include "verify/amp_parts.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { INFINITE = 0x7f800000, ONE_BITS = 23 };

static uint32_t magnitude_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u & 0x7fffffff;
}

/* Bits of the largest float <= v (float_below) and of the smallest float >= v (float_above). */
static uint32_t float_below(double v)
{
    float f = (float)v;
    return magnitude_bits((double)f > v ? nextafterf(f, 0) : f);
}

static uint32_t float_above(double v)
{
    float f = (float)v;
    return magnitude_bits((double)f < v ? nextafterf(f, INFINITY) : f);
}

struct fp16_limits fp16_limits(double scale)
{
    return (struct fp16_limits){.zero_last = float_below(0x1p-25 / scale),
                                .normal_first = float_above((0x1p-14 - 0x1p-25) / scale),
                                .infinite_first = float_above(65520 / scale)};
}

/* floor(log2(x)) of a magnitude x that is finite and not zero, from its bits. */
static int exponent_of(uint32_t bits)
{
    int exponent = (int)(bits >> ONE_BITS);
    return exponent ? exponent - 127 : HISTOGRAM_LOW + 31 - __builtin_clz(bits);
}

static bool is_power(uint32_t bits)
{
    uint32_t mantissa = bits & ((1u << ONE_BITS) - 1);
    return bits >> ONE_BITS ? mantissa == 0 : (mantissa & (mantissa - 1)) == 0;
}

static void see(struct histogram *c, float x, uint32_t bits)
{
    if (bits >= INFINITE)
        c->not_finite++;
    else if (fabsf(x) > c->largest)
        c->largest = fabsf(x);
}

void histogram_add(struct histogram *c, const struct fp16_limits limits[SCALE_COUNT],
                   const float *x, int64_t n)
{
    c->values += n;
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits = magnitude_bits(x[i]);
        see(c, x[i], bits);
        if (bits == 0 || bits >= INFINITE)
            continue;
        c->nonzero++;
        for (int s = 0; s < SCALE_COUNT; s++) {
            bool zero = bits <= limits[s].zero_last;
            c->fate[s].underflow += zero;
            c->fate[s].subnormal += !zero && bits < limits[s].normal_first;
            c->fate[s].overflow += bits >= limits[s].infinite_first;
        }
        int bin = exponent_of(bits) - HISTOGRAM_LOW;
        c->bin[bin]++;
        c->power[bin] += is_power(bits);
    }
}

void histogram_look(struct histogram *c, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        see(c, x[i], magnitude_bits(x[i]));
}

void histogram_merge(struct histogram *into, const struct histogram *from)
{
    into->values += from->values;
    into->nonzero += from->nonzero;
    into->not_finite += from->not_finite;
    into->largest = fmaxf(into->largest, from->largest);
    for (int s = 0; s < SCALE_COUNT; s++) {
        into->fate[s].underflow += from->fate[s].underflow;
        into->fate[s].subnormal += from->fate[s].subnormal;
        into->fate[s].overflow += from->fate[s].overflow;
    }
    for (int b = 0; b < HISTOGRAM_BINS; b++) {
        into->bin[b] += from->bin[b];
        into->power[b] += from->power[b];
    }
}

int64_t histogram_underflow(const struct histogram *c, int k)
{
    int tie = -25 - k - HISTOGRAM_LOW; /* the bin whose lower end is the tie |x| 2^k = 2^-25 */
    int64_t sum = tie >= 0 && tie < HISTOGRAM_BINS ? c->power[tie] : 0;
    for (int b = 0; b < tie && b < HISTOGRAM_BINS; b++)
        sum += c->bin[b];
    return sum;
}

double histogram_share(const struct histogram *c, int64_t part)
{
    return c->nonzero ? (double)part / (double)c->nonzero : 0;
}

double histogram_headroom(const struct histogram *c, double scale)
{
    return log2(FP16_LARGEST / ((double)c->largest * scale));
}
