/* The slowest of many ranks.
 *
 * A rank's own time of a step is a typical time by exp(sigma z), z standard normal (a lognormal
 * distribution), and all wait for the one that takes longest. The largest z of n ranks has the
 * distribution Phi(z)^n; here it is kept as that many of its quantiles, each as likely as the next,
 * over which a mean is taken. Nothing is drawn at random. */
#ifndef PREDICT_STRAGGLER_H
#define PREDICT_STRAGGLER_H

#include <stdint.h>

enum { STRAGGLER_QUANTILES = 64 };

struct straggler {
    double z[STRAGGLER_QUANTILES]; /* ascending */
};

/* ranks >= 1 */
void straggler_of(int64_t ranks, struct straggler *s);

#endif
