/* The images that a rank sees in an epoch, and their order. Pure functions. The split is that of
 * DistributedSampler of torch.utils.data; the permutation is this suite's own. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Writes the n indices of an epoch in order: 0..n-1 for validation; in training a Fisher-Yates
 * shuffle that draws from rng_at(seed, RNG_SHUFFLE, epoch, 0). 0 < n <= INT32_MAX. */
void sampler_order(bool train, uint64_t seed, int64_t epoch, int64_t n, uint32_t *order);

/* The number of images that `rank` of `world` sees. In training ceil(n / world) for every rank: the
 * last ranks repeat images from the start of the order where n is not a multiple of world. In
 * validation nothing is repeated: each image belongs to one rank, and the numbers of two ranks may
 * differ by one. */
int64_t sampler_count(bool train, int64_t n, int rank, int world);

/* The rank's i-th image, 0 <= i < sampler_count: order[(rank + i * world) % n]. */
uint32_t sampler_at(const uint32_t *order, int64_t n, int rank, int world, int64_t i);

/* A pseudo-random number for each image, for checksums that do not depend on order: two different
 * sets of images have equal sums modulo 2^64 with a probability of 2^-64. */
uint64_t sampler_mark(uint32_t sample);
