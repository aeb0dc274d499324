/* Computes the initial values of parameters. */
#include "base/rng.h"
#include "model/graph.h"

#include <math.h>

void param_init_values(const struct param *p, uint64_t seed, float *out)
{
    bool uniform = p->init == INIT_UNIFORM_FAN_IN;
    struct rng r = rng_at(seed, RNG_INIT, hash_fnv1a64(p->name), 0);
    double scale = p->init == INIT_KAIMING_NORMAL_FAN_OUT
                       ? sqrt(2.0 / (double)(p->dim[0] * p->dim[2] * p->dim[3]))
                   : uniform ? 1.0 / sqrt((double)p->fan_in)
                             : 0.01; /* INIT_NORMAL_0_01 */
    for (int64_t i = 0, n = param_count(p); i < n; i++) {
        if (p->init == INIT_ZERO || p->init == INIT_ONE)
            out[i] = p->init == INIT_ONE;
        else
            out[i] = (float)(scale * (uniform ? 2.0 * rng_float(&r) - 1.0 : rng_normal(&r)));
    }
}
