/* Inside verify/: the parts of an AMP report: the subject, the measurement, the finding. */
#pragma once

#include "model/graph.h"
#include "results/run.h"
#include "runners/checkpoint.h"
#include "verify/amp_histogram.h"
#include "verify/amp_report.h"

/* --- the subject, from a run's folder or from the command line (amp_source.c) --- */

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

/* Reads and checks the run's folder, or the flags. On failure nothing stays open. */
MUST_CHECK enum status amp_source_open(struct amp_source *s, const struct amp_report_config *c);
void amp_source_close(struct amp_source *s);

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

/* --- conclusions about loss scaling (amp_finding.c) --- */

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
