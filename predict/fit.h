/* Fitting a machine's parameters to few measured points, to forecast steps with more ranks.
 *
 * At most five parameters are fitted: a rank's own time for an image, the bandwidth within a node,
 * the bandwidth and the latency between nodes, and the sigma of stragglers. Few points cannot
 * determine all parameters, so each parameter except the first has a prior around a typical value.
 * The fit minimises
 *
 *   sum over points of (ln(forecast / measured) / 0.015)^2
 *     + sum over parameters of (ln(value / typical) / spread)^2
 *
 * (a maximum a posteriori estimate with lognormal priors; repeated measurements of throughput
 * commonly differ by 1.5 %). Typical values, with e^spread in brackets: bandwidth within a node
 * 40 GB/s (e), between nodes 5 GB/s (e); latency between nodes 0.5 ms (e^2); sigma 0.02 (e^0.7).
 * The latency is the latency of a step's collectives between nodes; it includes all costs that grow
 * with the number of nodes (synchronisation, shared switches), and so is far above the network's
 * own latency. These values are the same for every series. */
#pragma once

#include "predict/forecast.h"

#include <stdbool.h>

struct measured {
    int64_t ranks, batch; /* batch: images per rank */
    double images_per_s;  /* of all ranks together */
};

/* Which parameters are known. The fit does not change a known parameter; its value is in struct
 * system. */
struct fit_known {
    bool intra, inter, sigma;
};

/* Fits s to n >= 1 points. The method is deterministic: Nelder and Mead, "A simplex method for
 * function minimization", 1965, restarted from its own result. */
MUST_CHECK enum status fit_system(struct system *s, const struct fit_known *known,
                                  const struct measured *point, int n);
