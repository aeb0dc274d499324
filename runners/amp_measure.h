/* Inside runners/: counting the gradients of a few training batches, layer by layer. */
#ifndef RUNNERS_AMP_MEASURE_H
#define RUNNERS_AMP_MEASURE_H

#include "model/graph.h"
#include "runners/amp_histogram.h"
#include "runners/amp_source.h"

enum gradient { GRADIENT_ACTIVATION, GRADIENT_WEIGHT, GRADIENT_COUNT };
const char *gradient_str(enum gradient g); /* "activations", "weights" */

struct amp_layer {
    char name[NAME_MAX_LEN];
    struct histogram histogram[GRADIENT_COUNT];
};

struct amp_measurement {
    int n;
    struct amp_layer *layer; /* from the loss back to the image; one a module path */
    struct histogram total[GRADIENT_COUNT];
    int classes;
    double loss; /* mean over all images */
    char device[256];
};

/* A value counts once, where it is computed: an operation that hands gradients on (ReLU, max
 * pooling, a residual's fork; reorders) has its largest value looked at and no more. Sums of two
 * gradients are new values. */
MUST_CHECK enum status amp_measure(const struct amp_source *s, struct amp_measurement *m);
void amp_measurement_free(struct amp_measurement *m); /* a zeroed one is fine */

#endif
