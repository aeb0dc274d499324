/* Measures a device's highest memory bandwidth and GEMM throughput, with the device's own library.
 *
 * Bandwidth is the higher bandwidth of two operations: an addition in place, which reads two
 * tensors and writes one, and a ReLU in place, which reads and writes one tensor. It is measured
 * for working sets that fit into caches and for larger working sets. GEMM throughput is the best of
 * large linear layers and 3x3 convolutions, in each type that the device has. Sizes grow until the
 * start-up time of a call is negligible. Each number is the best of calls that are repeated until
 * it is stable (harness_least), and measured again while other work disturbs it. */
#pragma once

#include "bench/options.h"
#include "bench/roofline.h"
#include "kernels/backend.h"

/* Measures the peaks of an open device, each with at least `rounds` calls. `max_mib` is the size
 * of the largest working set, in MiB; 0: a size larger than any cache. `bar` shows the progress;
 * NULL: none. */
MUST_CHECK enum status peak_measure(struct device *dev, int rounds, int max_mib, struct bar *bar,
                                    struct peaks *p);

/* Measures and prints. */
MUST_CHECK enum status bench_peak(const struct bench_options *o);
