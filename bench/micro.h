/* The devices for benchmarks of single operations: the measured device with its peaks, and the
 * reference. */
#pragma once

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
