/* The devices for benchmarks of single operations, and the highest memory bandwidth and GEMM
 * throughput of the measured one, with its own library.
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

struct micro {
    struct device *dev, *ref_dev; /* the measured device; the reference */
    struct stream *stream, *ref;  /* a stream of each */
    struct peaks peaks;           /* peaks of `dev`, which micro_peaks sets */
    char about[256];              /* description of `dev` */
};

/* The caller must call micro_close, even if micro_open fails. */
MUST_CHECK enum status micro_open(const char *devices, int threads, struct micro *m);
void micro_close(struct micro *m); /* accepts a zeroed struct */

/* Reads the peaks from the file `path` (roofline.h). If `path` is NULL, measures the peaks, each
 * with at least `rounds` calls. */
enum { MICRO_PEAK_ROUNDS = 5 };
MUST_CHECK enum status micro_peaks(struct micro *m, const char *path, int rounds);

/* Measures and prints the peaks. */
MUST_CHECK enum status bench_peak(const struct bench_options *o);
