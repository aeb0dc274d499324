/* Inside runners/: what a measurement says about loss scaling. */
#ifndef RUNNERS_AMP_FINDING_H
#define RUNNERS_AMP_FINDING_H

#include "runners/amp_measure.h"

/* Bits kept between the largest gradient and 65504 by the scale that is recommended: other batches
 * bring larger ones. */
enum { HEADROOM_BITS = 2 };

/* Underflow matters from these shares on: of all gradients, or of one layer's that has at least
 * LAYER_VALUES of them. */
#define ALL_SHARE   1e-3
#define LAYER_SHARE 1e-2
enum { LAYER_VALUES = 1000 };

struct amp_finding {
    struct histogram all;          /* activations and weights together */
    const struct amp_layer *worst; /* loses the largest share at scale 1; NULL: none loses any */
    enum gradient worst_gradient;
    bool needs_scaler;
    int exponent;       /* 2^this is the recommended scale; 0 when none is needed */
    bool capped;        /* a larger one would fit, but dynamic scaling ends here */
    int64_t still_lost; /* values that underflow at that scale */
};

struct amp_finding amp_judge(const struct amp_measurement *m);

/* The finding in sentences on one line, for `scale` as the current one. */
void amp_finding_text(const struct amp_finding *f, double scale, char *out, size_t size);

/* A share as percent with its sign: "0 %", "12.3 %", "under 0.001 %". */
struct percent {
    char text[24];
};
struct percent percent_of(double share);

#endif
