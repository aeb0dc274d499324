/* Which images a rank sees in an epoch, and in what order: torch.utils.data.DistributedSampler's
 * meaning with this suite's own permutation. Pure functions. */
#ifndef INPUT_SAMPLER_H
#define INPUT_SAMPLER_H

#include <stdbool.h>
#include <stdint.h>

/* The n indices of an epoch in order: 0..n-1 for validation; in training a Fisher-Yates shuffle
 * that draws from rng_at(seed, RNG_SHUFFLE, epoch, 0). 0 < n <= INT32_MAX. */
void sampler_order(bool train, uint64_t seed, int64_t epoch, int64_t n, uint32_t *order);

/* Images that `rank` of `world` sees. In training every rank gets ceil(n / world), the order being
 * continued from its start where it is short. In validation nothing is repeated: each image belongs
 * to one rank, and ranks may differ by one. */
int64_t sampler_count(bool train, int64_t n, int rank, int world);

/* The rank's i-th image, 0 <= i < sampler_count: order[(rank + i * world) % n]. */
uint32_t sampler_at(const uint32_t *order, int64_t n, int rank, int world, int64_t i);

/* A number that stands for an image in sums that do not depend on order: sets of images whose sums
 * modulo 2^64 are the same are the same, but for a chance of 2^-64. */
uint64_t sampler_mark(uint32_t sample);
#endif
