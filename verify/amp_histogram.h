/* A histogram of gradient magnitudes, and how many values underflow or overflow in fp16.
 *
 * A value x times the loss scale S, rounded to fp16 (binary16, to nearest, ties to even):
 *   underflow   |x| S <= 2^-25                   becomes zero (2^-25 is a tie, and zero is even)
 *   subnormal   2^-25 < |x| S < 2^-14 - 2^-25    keeps fewer than eleven bits
 *   overflow    |x| S >= 65520                   becomes infinite (65504 is the largest)
 * All counts are exact. */
#pragma once

#include <stdint.h>

/* The bins: one for each power of two from fp32's smallest subnormal to its largest value. */
enum {
    HISTOGRAM_LOW = -149,
    HISTOGRAM_HIGH = 127,
    HISTOGRAM_BINS = HISTOGRAM_HIGH - HISTOGRAM_LOW + 1
};

#define FP16_LARGEST 65504.0

/* The limits above for one scale, as bit patterns of fp32 magnitudes. The bit patterns have the
 * same order as the magnitudes. */
struct fp16_limits {
    uint32_t zero_last, normal_first, infinite_first;
};
struct fp16_limits fp16_limits(double scale);

/* The numbers of values that underflow, become subnormal or overflow at one scale. */
struct fp16_fate {
    int64_t underflow, subnormal, overflow;
};

/* The scales for which struct fp16_fate is counted: 1, and the current loss scale. */
enum histogram_scale { SCALE_ONE, SCALE_CURRENT, SCALE_COUNT };

struct histogram {
    int64_t values;
    int64_t nonzero;    /* values that are finite and not zero: the base of all percentages */
    int64_t not_finite; /* values that are infinite or NaN in fp32; counted only here and in
                         * `values` */
    float largest;      /* largest magnitude of finite values */
    struct fp16_fate fate[SCALE_COUNT];
    /* bin[e - HISTOGRAM_LOW] is the number of values with 2^e <= |x| < 2^(e+1).
     * power[e - HISTOGRAM_LOW] is the number of values with |x| = 2^e. */
    int64_t bin[HISTOGRAM_BINS];
    int64_t power[HISTOGRAM_BINS];
};

/* Counts x[0..n); limits[i]: the limits for scale i. */
void histogram_add(struct histogram *c, const struct fp16_limits limits[SCALE_COUNT],
                   const float *x, int64_t n);

/* Updates only `largest` and `not_finite`, for values that another call of histogram_add counts. */
void histogram_look(struct histogram *c, const float *x, int64_t n);

void histogram_merge(struct histogram *into, const struct histogram *from);

/* The number of values that underflow at a scale of 2^k. */
int64_t histogram_underflow(const struct histogram *c, int k);

/* part / nonzero; 0 if `nonzero` is 0. */
double histogram_share(const struct histogram *c, int64_t part);

/* Returns the headroom in bits: log2(65504 / (largest * scale)). Negative: overflow; INFINITY: all
 * values are zero. */
double histogram_headroom(const struct histogram *c, double scale);
