/* Fitting a machine's parameters to few measured points, and the uncertainty of what is fitted.
 *
 * The parameters are a rank's own time for an image, latency and bandwidth within a node and
 * between nodes, and the sigma of stragglers. Few points cannot determine all of them, so each
 * except the first has a prior around a typical value. The fit minimises
 *
 *   cost = sum over points of (ln(forecast / measured) / noise)^2
 *          + sum over parameters of (ln(value / typical) / spread)^2
 *
 * (a maximum a posteriori estimate with lognormal priors). The noise of a point is 0.015, as
 * repeated measurements of throughput commonly differ by 1.5 %, or the spread of its repeats if
 * that is larger. e^spread is e^2 for the latency between nodes, e^0.7 for sigma, e for the rest.
 * The latency between nodes is that of a step's collectives; it includes all costs that grow with
 * the number of nodes (synchronisation, shared switches), and so is far above the network's own
 * latency.
 *
 * The uncertainty is an ensemble of systems, drawn from the posterior exp(-cost / 2) by the method
 * of Goodman and Weare, "Ensemble samplers with affine invariance", 2010. For it, the noise is at
 * least the root mean square of ln(forecast / measured) of the fitted points. Both are
 * deterministic. */
#pragma once

#include "predict/forecast.h"

#include <stdbool.h>
#include <stddef.h>

struct measured {
    int64_t ranks, batch; /* batch: images per rank */
    double images_per_s;  /* of all ranks together */
    double spread;        /* standard deviation of ln(images_per_s); 0: not known */
};

/* Which parameters are given or measured, and so not changed. */
struct fit_known {
    bool intra, inter, sigma;
};

enum { FIT_IMAGE, FIT_INTRA, FIT_INTER = 3, FIT_SIGMA = 5, FIT_PARAMETERS };

/* FIT_INTRA and FIT_INTER are latencies; the bandwidths follow them. */
struct fit_parameter {
    const char *name, *unit; /* unit: of value * scale, after a blank */
    double scale;
    size_t offset; /* of a double in struct system */
    size_t known;  /* of a bool in struct fit_known; unused for FIT_IMAGE */
    double spread;
};
extern const struct fit_parameter fit_parameters[FIT_PARAMETERS];

double fit_value(const struct system *s, int parameter);

enum { FIT_MEMBERS = 256 };

struct fit_ensemble {
    double noise; /* standard deviation of ln(images/s) of a measurement */
    double value[FIT_MEMBERS][FIT_PARAMETERS];
    bool informed[FIT_PARAMETERS]; /* the points narrow the parameter to less than 0.7 of its
                                    * prior's spread, or move it by more than half of that spread */
};

/* Fits s, which has the typical values, to n >= 1 points, and draws the ensemble. If `fit` is
 * false, leaves s unchanged; its image_s has been calibrated to the point. */
MUST_CHECK enum status fit_system(struct system *s, const struct fit_known *known,
                                  const struct measured *point, int n, bool fit,
                                  struct fit_ensemble *out);

/* Sets the parameters of s to those of member k. */
void fit_place(const struct fit_ensemble *e, int k, struct system *s);
