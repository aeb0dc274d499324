/* Computes quantiles of the largest of n normal numbers. */
#include "predict/straggler.h"

#include "base/stats.h"

#include <math.h>

/* If Phi(z)^n = u, a normal number exceeds z with probability 1 - u^(1/n). expm1 computes this
 * probability without loss of digits if n is large. */
void straggler_of(int64_t ranks, struct straggler *s)
{
    for (int k = 0; k < STRAGGLER_QUANTILES; k++) {
        double u = (k + 0.5) / STRAGGLER_QUANTILES;
        s->z[k] = stats_normal_above(-expm1(log(u) / (double)ranks));
    }
}
