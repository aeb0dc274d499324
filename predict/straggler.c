/* Computes quantiles of the largest of n normal numbers. */
#include "predict/straggler.h"

#include "base/stats.h"

#include <math.h>

/* If Phi(z)^n = u, a normal number is above z with probability 1 - u^(1/n). If n is large, u^(1/n)
 * is close to 1, and the difference would lose digits; expm1 keeps them. */
void straggler_of(int64_t ranks, struct straggler *s)
{
    for (int k = 0; k < STRAGGLER_QUANTILES; k++) {
        double u = (k + 0.5) / STRAGGLER_QUANTILES;
        s->z[k] = stats_normal_above(-expm1(log(u) / (double)ranks));
    }
}
