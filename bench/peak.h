/* What a device reaches with its own library: memory bandwidth and rates of products.
 *
 * Bandwidth is that of adding (two tensors read, one of them written) and of ReLU (one read and
 * written), the better of the two, for sets of bytes that fit into caches and sets that do not. A
 * rate is the best of large linear layers and 3x3 convolutions in a type that the device has. Sizes
 * grow until a call takes so long that starting it does not count. Each number is the best of
 * several calls.
 */
#ifndef BENCH_PEAK_H
#define BENCH_PEAK_H

#include "bench/roofline.h"
#include "kernels/backend.h"

#include <stdio.h>

struct peak_config {
    const char *devices;
    int threads;
    int rounds;
    int max_mib; /* the largest set that is moved; 0: one that no cache holds */
    bool json;
    FILE *out;
};

/* Measures on an open device; `max_mib` as below. */
MUST_CHECK enum status peak_measure(struct device *dev, int rounds, int max_mib, struct peaks *p);

/* Measures and prints. */
MUST_CHECK enum status bench_peak(const struct peak_config *c);
#endif
