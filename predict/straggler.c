/* Quantiles of the largest of n normal numbers. */
#include "predict/straggler.h"

#include <math.h>

/* The z above which a standard normal lies with probability p. By halving: this is done once for
 * a number of ranks. */
static double normal_above(double p)
{
    double low = -10, high = 10;
    for (int i = 0; i < 60; i++) {
        double z = (low + high) / 2;
        if (erfc(z / sqrt(2)) / 2 > p)
            low = z;
        else
            high = z;
    }
    return low;
}

/* Phi(z)^n = u, so z is exceeded with probability 1 - u^(1/n); expm1 keeps its digits where n is
 * large. */
void straggler_of(int64_t ranks, struct straggler *s)
{
    for (int k = 0; k < STRAGGLER_QUANTILES; k++) {
        double u = (k + 0.5) / STRAGGLER_QUANTILES;
        s->z[k] = normal_above(-expm1(log(u) / (double)ranks));
    }
}
