/* The order of an epoch and its split over ranks. */
#include "input/sampler.h"

#include "base/rng.h"

void sampler_order(bool train, uint64_t seed, int64_t epoch, int64_t n, uint32_t *order)
{
    for (int64_t i = 0; i < n; i++)
        order[i] = (uint32_t)i;
    if (!train)
        return;
    struct rng rng = rng_at(seed, RNG_SHUFFLE, (uint64_t)epoch, 0);
    for (int64_t i = n - 1; i > 0; i--) {
        uint32_t j = rng_below(&rng, (uint32_t)i + 1);
        uint32_t t = order[i];
        order[i] = order[j];
        order[j] = t;
    }
}

int64_t sampler_count(bool train, int64_t n, int rank, int world)
{
    return (n - (train ? 0 : rank) + world - 1) / world;
}

uint32_t sampler_at(const uint32_t *order, int64_t n, int rank, int world, int64_t i)
{
    return order[(rank + i * world) % n];
}

uint64_t sampler_mark(uint32_t sample)
{
    return hash_splitmix64(sample);
}
