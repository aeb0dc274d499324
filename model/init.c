/* Fresh weights. */
#include "base/rng.h"
#include "model/graph.h"

#include <math.h>

static void fill_constant(float *out, int64_t n, float value)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = value;
}

static void fill_normal(float *out, int64_t n, struct rng r, double deviation)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = (float)(deviation * rng_normal(&r));
}

static void fill_uniform(float *out, int64_t n, struct rng r, double bound)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = (float)(bound * (2.0 * rng_float(&r) - 1.0));
}

void param_init_values(const struct param *p, uint64_t seed, float *out)
{
    int64_t n = param_count(p);
    struct rng r = rng_at(seed, RNG_INIT, hash_fnv1a64(p->name), 0);
    switch (p->init) {
    case INIT_ZERO:
        fill_constant(out, n, 0);
        break;
    case INIT_ONE:
        fill_constant(out, n, 1);
        break;
    case INIT_KAIMING_NORMAL_FAN_OUT:
        fill_normal(out, n, r, sqrt(2.0 / (double)(p->dim[0] * p->dim[2] * p->dim[3])));
        break;
    case INIT_UNIFORM_FAN_IN:
        fill_uniform(out, n, r, 1.0 / sqrt((double)p->fan_in));
        break;
    case INIT_NORMAL_0_01:
        fill_normal(out, n, r, 0.01);
        break;
    }
}
