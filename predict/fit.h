/* Learning what a machine is like from few measured points, so that more ranks can be forecast.
 *
 * Up to five numbers are sought: a rank's own time for an image, bandwidth within a node, bandwidth
 * and latency between nodes, and the sigma of stragglers. Few points cannot tell them all apart, so
 * that each but the first has a typical value that it does not leave without a reason: what is
 * minimised is
 *
 *   sum over points of (ln(forecast / measured) / 0.015)^2
 *     + sum over parameters of (ln(value / typical) / spread)^2
 *
 * (a maximum a posteriori estimate with lognormal priors; 1.5 % is what repeated measurements of
 * throughput commonly differ by). Typical value and spread: within a node 40 GB/s, a factor of e;
 * between nodes 5 GB/s, e, and 0.5 ms, e^2; sigma 0.02, e^0.7. The latency is that of a step's
 * collectives between nodes with all that grows with the number of nodes (synchronising, shared
 * switches), which is why it is far above a network's own. The same holds for every series. */
#ifndef PREDICT_FIT_H
#define PREDICT_FIT_H

#include "predict/forecast.h"

#include <stdbool.h>

struct measured {
    int64_t ranks, batch; /* images of a rank */
    double images_per_s;  /* of all ranks */
};

/* What is known already and stays as it is in the struct system. */
struct fit_known {
    bool intra, inter, sigma;
};

/* Fits s to n >= 1 points. Deterministic (Nelder and Mead, "A simplex method for function
 * minimization", 1965, begun anew from its result). */
MUST_CHECK enum status fit_system(struct system *s, const struct fit_known *known,
                                  const struct measured *point, int n);

#endif
