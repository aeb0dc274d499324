/* Memory bandwidth: STREAM's four kernels in the host's memory, and copies of a device.
 *
 * The kernels and the bytes that each is said to move are STREAM's (McCalpin, "Memory bandwidth and
 * machine balance in current high performance computers", 1995): arrays of n doubles, and
 *
 *     copy   c = a           16 n bytes
 *     scale  b = 3 c         16 n
 *     add    c = a + b       24 n
 *     triad  a = b + 3 c     24 n
 *
 * each array at least four times as large as the last-level caches together. Processors that read
 * what they overwrite move more; that is not counted. Every thread writes its own part of an array
 * first, so that it lies in memory near it.
 *
 * Where a device's streams go on beside the host, what is measured are copies between pinned memory
 * of the host and its own, and within its own; these last read and write, and both count.
 *
 * Between several devices, copies from the memory of each to that of each other, one pair at a
 * time, on a stream of the device that has the data (memory_peers.c).
 *
 * After a kernel's samples every element of all that it wrote is checked. */
#ifndef BENCH_MEMORY_H
#define BENCH_MEMORY_H

#include "bench/harness.h"
#include "kernels/backend.h"
#include "kernels/device_list.h"

#include <stdio.h>

enum { MEMORY_SCHEMA = 1, MEMORY_PEERS_SCHEMA = 1, MEMORY_ROWS_MAX = 4, MEMORY_MIB_DEVICE = 256 };

struct memory_config {
    const char *devices;
    int threads; /* of the host's kernels; 0: all cores that this process may use */
    int max_mib; /* of an array; 0: as STREAM asks for, or 256 MiB of a device */
    struct harness_config timing;
    bool json, csv;
    FILE *out;
};

struct memory_row {
    const char *name; /* "copy" ... "triad"; "h2d", "d2h", "d2d" */
    double bytes;     /* of one execution */
    struct harness_result time;
    int64_t wrong; /* elements; bytes of a device */
};

struct memory_result {
    char device[256];
    int threads;        /* 0: a device's */
    size_t array_bytes; /* of one array */
    size_t cache_bytes; /* last-level caches together; 0: unknown, or a device's */
    int n;
    struct memory_row row[MEMORY_ROWS_MAX];
};

/* Bytes of all last-level caches of processors that are online, from `root` ("/sys" but in tests);
 * 0 where the system does not say. */
size_t memory_caches(const char *root);

/* Fills in row[], n and array_bytes. The arrays have array_bytes each, a multiple of 64. */
MUST_CHECK enum status memory_measure_host(const struct harness_config *timing, int threads,
                                           size_t array_bytes, struct memory_result *r);
MUST_CHECK enum status memory_measure_device(const struct harness_config *timing,
                                             struct device *dev, size_t array_bytes,
                                             struct memory_result *r);

/* The most and the median of bytes a second, in units of 1e9. */
double memory_best(const struct memory_row *row);
double memory_median(const struct memory_row *row);

struct harness_config memory_timing_default(void);

/* --- between devices (memory_peers.c) --- */

struct memory_pair {
    bool measured; /* not from a device to itself */
    bool direct;   /* the source reaches the other's memory; else copies pass through the host */
    struct harness_result time;
    int64_t wrong; /* bytes */
};

struct memory_peers {
    int n, index[DEVICES_MAX];                         /* devices, and their numbers */
    char device[256];                                  /* the first */
    size_t bytes;                                      /* of a copy */
    struct memory_pair pair[DEVICES_MAX][DEVICES_MAX]; /* from, to */
};

/* Fills in pair[] for p->n devices and p->bytes. */
MUST_CHECK enum status memory_measure_peers(const struct harness_config *timing,
                                            struct device *const *dev, struct memory_peers *p);

/* 1e9 bytes a second by the median; each byte counts once. */
double memory_pair_rate(const struct memory_peers *p, int from, int to);

MUST_CHECK enum status memory_print_peers(const struct memory_config *c,
                                          const struct memory_peers *p);

/* Measures and prints, for devices as "cuda:0,1". STATUS_MISMATCH as below. */
MUST_CHECK enum status bench_memory_peers(const struct memory_config *c);

/* --- all of it --- */

/* Measures and prints; of several devices, what lies between them. STATUS_MISMATCH where a result
 * was wrong, when all is printed. */
MUST_CHECK enum status bench_memory(const struct memory_config *c);
#endif
