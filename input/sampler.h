/* Pure functions that choose the images that a rank sees in an epoch, and their order. They split
 * the images over ranks as torch.utils.data.DistributedSampler does, but shuffle them in another
 * order than PyTorch. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Writes the n indices of an epoch in order: 0..n-1 for validation; in training a Fisher-Yates
 * shuffle that draws from rng_at(seed, RNG_SHUFFLE, epoch, 0). 0 < n <= INT32_MAX. */
void sampler_order(bool train, uint64_t seed, int64_t epoch, int64_t n, uint32_t *order);

/* Returns the number of images that `rank` of `world` sees in an epoch. In training every rank sees
 * ceil(n / world) images: if n is not a multiple of world, the last ranks repeat images from the
 * start of the order. In validation no image is repeated: each image belongs to one rank, and one
 * rank may have one image more than another rank. */
int64_t sampler_count(bool train, int64_t n, int rank, int world);

/* Returns the rank's i-th image, 0 <= i < sampler_count: order[(rank + i * world) % n]. */
uint32_t sampler_at(const uint32_t *order, int64_t n, int rank, int world, int64_t i);

/* Returns a pseudo-random number for an image. The sum of these numbers modulo 2^64 is a checksum
 * of a set of images that does not depend on their order. Two different sets have equal sums with a
 * probability of 2^-64. */
uint64_t sampler_mark(uint32_t sample);
