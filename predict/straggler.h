/* The slowest of many ranks.
 *
 * A rank's own time of a step is a typical time multiplied by exp(sigma z), where z is a standard
 * normal number. (The time has a lognormal distribution.) All ranks wait for the slowest one. The
 * largest z of n ranks has the distribution function Phi(z)^n. This distribution is represented by
 * STRAGGLER_QUANTILES quantiles of equal probability; means are taken over them. No random numbers
 * are used. */
#pragma once

#include <stdint.h>

enum { STRAGGLER_QUANTILES = 64 };

struct straggler {
    double z[STRAGGLER_QUANTILES]; /* ascending */
};

/* Sets the quantiles of the maximum of z over all ranks; `ranks` is their number, at least 1. */
void straggler_of(int64_t ranks, struct straggler *s);
