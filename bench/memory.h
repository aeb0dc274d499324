/* Measures memory bandwidth: STREAM's four kernels in host memory, and copies by a device.
 *
 * The kernels and the bytes counted for each are STREAM's (McCalpin, "Memory bandwidth and machine
 * balance in current high performance computers", 1995), on arrays of n doubles:
 *
 *     copy   c = a           16 n bytes
 *     scale  b = 3 c         16 n
 *     add    c = a + b       24 n
 *     triad  a = b + 3 c     24 n
 *
 * Each array is at least four times as large as the last-level caches together. A processor that
 * reads a cache line before it overwrites the line moves more bytes. These extra bytes are not
 * counted. Before the measurement, every thread writes its own part of each array, so that the
 * pages of this part are placed in memory near the thread.
 *
 * On a device with asynchronous streams, copies between pinned host memory and the device's memory
 * are measured, and copies within the device's memory. A copy within that memory counts both the
 * bytes read and the bytes written.
 *
 * If several devices are given, data is copied from each device's memory to the memory of each
 * other device, one pair at a time, on a stream of the source device.
 *
 * After the samples of a kernel or copy, every element that it wrote is checked. */
#pragma once

#include "bench/options.h"
#include "kernels/backend.h"
#include "kernels/device_list.h"

enum { MEMORY_ROWS_MAX = 4 };

struct memory_row {
    const char *name; /* host: "copy" ... "triad"; device: "h2d", "d2h", "d2d" */
    double bytes;     /* bytes moved by one execution */
    struct harness_result time;
    int64_t wrong; /* number of wrong elements, or of wrong bytes if a device was measured */
};

struct memory_result {
    char device[256];
    int threads;        /* host threads; 0: a device was measured */
    size_t array_bytes; /* size of one array */
    size_t cache_bytes; /* total of all last-level caches; 0: unknown, or a device was measured */
    int n;
    struct memory_row row[MEMORY_ROWS_MAX];
};

/* Returns the total bytes of the last-level caches of the online processors, or 0 if unknown. The
 * sizes are read from files below `root`, which is "/sys" except in tests. */
size_t memory_caches(const char *root);

/* Fills in row[], n and array_bytes. Each array has array_bytes bytes; this must be a multiple of
 * 64. */
MUST_CHECK enum status memory_measure_host(const struct harness_config *timing, int threads,
                                           size_t array_bytes, struct memory_result *r);
MUST_CHECK enum status memory_measure_device(const struct harness_config *timing,
                                             struct device *dev, size_t array_bytes,
                                             struct memory_result *r);

/* Return the highest and the median bandwidth, 1e9 bytes/s. */
double memory_best(const struct memory_row *row);
double memory_median(const struct memory_row *row);

/* --- between devices --- */

struct memory_pair {
    bool measured; /* false if source and target are the same device */
    bool direct;   /* whether the source device can access the target's memory; if not, copies go
                    * through the host */
    struct harness_result time;
    int64_t wrong; /* number of wrong bytes */
};

struct memory_peers {
    int n, index[DEVICES_MAX];                         /* number of devices; their indices */
    char device[256];                                  /* description of the first device */
    size_t bytes;                                      /* size of a copy */
    struct memory_pair pair[DEVICES_MAX][DEVICES_MAX]; /* [from][to] */
    int64_t wrong;                                     /* number of wrong bytes of all pairs */
};

/* Fills in pair[] and `wrong` for p->n devices and p->bytes. */
MUST_CHECK enum status memory_measure_peers(const struct harness_config *timing,
                                            struct device *const *dev, struct memory_peers *p);

/* Bandwidth from the median time, 1e9 bytes/s; each byte counts once. */
double memory_pair_rate(const struct memory_peers *p, int from, int to);

/* --- the benchmark --- */

/* Measures and prints. Each array has o->max_mib MiB. If o->max_mib is 0, an array of the host is
 * as large as STREAM requires, and an array of a device has 256 MiB. Afterwards returns
 * STATUS_MISMATCH if a result was wrong. */
MUST_CHECK enum status bench_memory(const struct bench_options *o);
