/* Weights, images and labels that a program in any language can compute from names alone. They are
 * the inputs of the golden values of `ampscale selftest`.
 *
 * All are based on uniform(name): element i is the top 24 bits of splitmix64(fnv1a64(name) + i),
 * scaled to [-1, 1), in float32. */
#pragma once

#include "model/graph.h"

/* Writes the values of a parameter in plain (logical) order; every operation rounds to float32:
 *   conv and linear weights  uniform(name) * sqrt(6 / fan_in), fan_in = elements per output
 *   batch-norm gamma         1 + 0.1 * uniform(name)
 *   any bias                 0.1 * uniform(name)
 *   running mean, variance   0, 1 */
void oracle_fill_param(const struct param *p, float *out);

/* The images of one step, n x 3 x size x size (NCHW): uniform("image.<step>"). */
void oracle_fill_images(int64_t step, int64_t n, int64_t size, float *out);

/* The pixels of one step, n x size x size x 3 (NHWC): element i is the top 8 bits of
 * splitmix64(fnv1a64("pixel.<step>") + i). */
void oracle_fill_pixels(int64_t step, int64_t n, int64_t size, uint8_t *out);

/* The n labels of one step: splitmix64(fnv1a64("label.<step>") + i) mod classes. */
void oracle_fill_labels(int64_t step, int64_t n, int classes, int32_t *out);
