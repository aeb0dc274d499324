/* What benchmarks of single operations share: a device with its peaks, the reference beside it, and
 * the head of a record. */
#ifndef BENCH_MICRO_H
#define BENCH_MICRO_H

#include "bench/roofline.h"
#include "kernels/backend.h"

#include <stdio.h>

struct micro {
    struct device *dev, *ref_dev; /* that is measured; the reference */
    struct stream *stream, *ref;  /* of each */
    struct peaks peaks;           /* of the first, once micro_peaks was called */
    char about[256];              /* of the first */
};

/* After a failure too, micro_close closes what was opened. */
MUST_CHECK enum status micro_open(const char *devices, int threads, struct micro *m);
void micro_close(struct micro *m); /* a zeroed one is fine */

/* Reads the peaks from a file (roofline.h); NULL: measures them. */
MUST_CHECK enum status micro_peaks(struct micro *m, const char *path);

/* A new object with "schema", "bench", "measured" (when), "device", "threads", "host" and the
 * program's version. */
MUST_CHECK enum status bench_record(const char *bench, int schema, const char *device, int threads,
                                    json_t **record);

/* The same of this device. */
MUST_CHECK enum status micro_record(const struct micro *m, const char *bench, int schema,
                                    json_t **record);

/* Prints a record, and drops it; writes it into a file, which is replaced. */
void micro_print(json_t *record, FILE *out);
MUST_CHECK enum status bench_record_write(json_t *record, const char *path);
#endif
