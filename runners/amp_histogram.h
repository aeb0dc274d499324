/* The magnitudes of gradients, and what becomes of them when they are stored in fp16.
 *
 * fp16 (binary16, to nearest, ties to even) of a value x times the loss scale S:
 *   underflow   |x| S <= 2^-25                   becomes zero (2^-25 is a tie, and zero is even)
 *   subnormal   2^-25 < |x| S < 2^-14 - 2^-25    keeps fewer than eleven bits
 *   overflow    |x| S >= 65520                   becomes infinite (65504 is the largest)
 * All counts are exact. */
#ifndef RUNNERS_AMP_HISTOGRAM_H
#define RUNNERS_AMP_HISTOGRAM_H

#include <stdint.h>

/* Powers of two from fp32's smallest subnormal to its largest value. */
enum { CENSUS_LOW = -149, CENSUS_HIGH = 127, CENSUS_BINS = CENSUS_HIGH - CENSUS_LOW + 1 };

#define FP16_LARGEST 65504.0

/* The limits above, for one scale, as bit patterns of fp32 magnitudes, which order as the
 * magnitudes do. */
struct fp16_limits {
    uint32_t zero_last, normal_first, infinite_first;
};
struct fp16_limits fp16_limits(double scale);

/* Values that end so at one scale. */
struct fp16_fate {
    int64_t underflow, subnormal, overflow;
};

/* The scales at which fates are counted. */
enum histogram_scale { SCALE_ONE, SCALE_CURRENT, SCALE_COUNT };

struct histogram {
    int64_t values;
    int64_t nonzero;    /* finite and not zero: what shares are shares of */
    int64_t not_finite; /* in fp32 already; in no other count */
    float largest;      /* magnitude; of finite values */
    struct fp16_fate fate[SCALE_COUNT];
    int64_t bin[CENSUS_BINS];   /* nonzero values with 2^e <= |x| < 2^(e+1), at e - CENSUS_LOW */
    int64_t power[CENSUS_BINS]; /* of these, |x| = 2^e */
};

/* Counts x[0..n); `limits` of the two scales. */
void histogram_add(struct histogram *c, const struct fp16_limits limits[SCALE_COUNT],
                   const float *x, int64_t n);

/* Counts nothing, but lets `largest` and `not_finite` hear of values that are counted elsewhere. */
void histogram_look(struct histogram *c, const float *x, int64_t n);

void histogram_merge(struct histogram *into, const struct histogram *from);

/* How many values underflow at a scale of 2^k. */
int64_t histogram_underflow(const struct histogram *c, int k);

/* part / nonzero; 0 where there are none. */
double histogram_share(const struct histogram *c, int64_t part);

/* Bits between the largest value times `scale` and 65504; negative: it overflows. INFINITY where
 * all are zero. */
double histogram_headroom(const struct histogram *c, double scale);
#endif
