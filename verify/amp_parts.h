/* Inside verify/: the parts of an AMP report: the subject, the measurement, the finding. */
#pragma once

#include "model/graph.h"
#include "results/run.h"
#include "runners/checkpoint.h"
#include "verify/amp_report.h"

/* --- a histogram (amp_histogram.c) --- */

/* A histogram of gradient magnitudes, and how many values underflow or overflow in fp16.
 *
 * A value x times the loss scale S, rounded to fp16 (binary16, to nearest, ties to even):
 *   underflow   |x| S <= 2^-25                   becomes zero (2^-25 is a tie, and zero is even)
 *   subnormal   2^-25 < |x| S < 2^-14 - 2^-25    keeps fewer than eleven bits
 *   overflow    |x| S >= 65520                   becomes infinite (65504 is the largest)
 * All counts are exact. */

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

/* --- the subject, from a run's folder or from the command line (amp_report.c) --- */

struct amp_source {
    const struct amp_report_config *config;
    struct run *run; /* NULL: a network named by `arch` */
    const char *arch;
    const char *data; /* NULL: noise */
    int classes;      /* number of classes if `data` is NULL; a data set determines its own */
    int image_size, batch;
    uint64_t seed;
    double label_smoothing;
    char weights[4096];       /* safetensors file; "": random initial weights */
    struct train_state state; /* state of the run's checkpoint; zero without a run */
    double scale;             /* current loss scale */
    const char *scale_from;   /* source of the scale: "flag", "checkpoint", "unscaled run" or
                               * "default" */
};

/* --- gradients of a few training batches, counted layer by layer (amp_measure.c) --- */

enum gradient { GRADIENT_ACTIVATION, GRADIENT_WEIGHT, GRADIENT_COUNT };
const char *gradient_str(enum gradient g); /* "activations", "weights" */

struct amp_layer {
    char name[NAME_MAX_LEN];
    struct histogram histogram[GRADIENT_COUNT];
};

struct amp_measurement {
    int n;
    struct amp_layer *layer; /* (n) from the loss back to the image; one per module path */
    struct histogram total[GRADIENT_COUNT];
    int classes;
    double loss; /* mean over all images */
    char device[256];
};

/* Each value is counted once, at the operation that computes it. From the outputs of an operation
 * that passes gradients on (ReLU, max pooling, the fork of a residual, reorder), only the largest
 * value is used. Sums of two gradients are new values. */
MUST_CHECK enum status amp_measure(const struct amp_source *s, struct amp_measurement *m);
void amp_measurement_free(struct amp_measurement *m); /* zeroed: no effect */

/* --- conclusions about loss scaling (amp_report.c) --- */

/* Bits that the recommended scale leaves between the largest gradient and 65504, because other
 * batches may have larger gradients. */
enum { HEADROOM_BITS = 2 };

/* A scaler is needed if at least ALL_SHARE of all gradients underflow, or at least LAYER_SHARE of
 * the gradients of a layer that has at least LAYER_VALUES gradients. */
#define ALL_SHARE   1e-3
#define LAYER_SHARE 1e-2
enum { LAYER_VALUES = 1000 };

struct amp_finding {
    struct histogram all; /* activations and weights together */
    const struct amp_layer
        *worst; /* the layer with the largest fraction of underflow at scale 1; NULL: no layer with
                 * at least LAYER_VALUES gradients has any underflow */
    enum gradient worst_gradient;
    bool needs_scaler;
    int exponent; /* log2 of the recommended scale; 0: no scaler is needed */
    bool capped;  /* `exponent` is limited by dynamic scaling's maximum, although a larger scale
                   * would not overflow */
    int64_t still_lost; /* values that underflow at the recommended scale */
};

struct amp_finding amp_judge(const struct amp_measurement *m);

/* Writes the finding as sentences on one line; `scale`: the current loss scale. */
void amp_finding_text(const struct amp_finding *f, double scale, char *out, size_t size);

/* A fraction as text in percent: "0 %", "12.3 %", "under 0.001 %". */
struct percent {
    char text[24];
};
struct percent percent_of(double share);
