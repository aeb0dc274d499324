/* The peak rates of a device, and the least time that an operation takes at these rates.
 *
 * The roofline model (Williams, Waterman and Patterson, "Roofline: an insightful visual performance
 * model for multicore architectures", CACM 52(4), 2009): an operation that moves `bytes` and
 * computes `flops` takes at least max(bytes / bandwidth, flops / rate). Bandwidth and rates are
 * measured with this device's own library (bench/micro.h), not taken from a data sheet. */
#pragma once

#include "kernels/ops.h"
#include "results/noise.h"

#include <jansson.h>
#include <stdbool.h>

enum { PEAK_SCHEMA = 1, PEAK_COPIES_MAX = 16, PEAK_DEVICE_MAX = 256 };

struct peak_copy {
    double bytes;       /* bytes moved per call; if they fit in a cache, the rate is higher */
    double bytes_per_s; /* bytes read and written per second */
    struct host_noise noise;
};

struct peaks {
    char device[PEAK_DEVICE_MAX];
    int n_copies;
    struct peak_copy copy[PEAK_COPIES_MAX];
    double flops_per_s[DTYPE_COUNT]; /* GEMM throughput in this type; 0: not measured */
    struct host_noise noise[DTYPE_COUNT];
};

/* Returns the least memory traffic of the operation in bytes. Each tensor counts once if it is
 * read, and once more if it is written. */
double roofline_bytes(const struct op_desc *d);

/* Returns the FLOPs that the operation needs: those of op_flops without products with a padding's
 * zeros, which many kernels skip. */
double roofline_flops(const struct op_desc *d);

/* Returns the type in which an operation multiplies. Usually this is the type of the operation's
 * tensors. If fp32 operands are rounded to TF32, and `p` has a rate for TF32, the type is TF32. */
enum dtype roofline_type(const struct peaks *p, const struct op_desc *d);

/* Returns the highest rate measured with copies of at least `bytes`. Larger copies are included: if
 * a larger copy is faster, the start-up time of a call slowed the smaller one. If `bytes` exceeds
 * the largest measured copy, returns the rate of that copy. */
double roofline_bandwidth(const struct peaks *p, double bytes);

/* Returns the highest rate that data of `bytes` may have, since smaller data may be in a faster
 * cache: that of the largest copy measured with at most `bytes`, or a larger one. INFINITY if no
 * copy is so small. */
double roofline_highest(const struct peaks *p, double bytes);

struct bound {
    double memory_s, compute_s;
    double seconds; /* larger of memory_s and compute_s; NaN if a rate was not measured */
    bool compute;   /* compute_s is larger than memory_s */
};

/* The bound of an operation that computes `flops`. */
struct bound roofline_bound(const struct peaks *p, const struct op_desc *d, double flops);

/* Returns a new object {"schema", "bench": "peak", "device", "copy": [{"bytes", "bytes_per_s",
 * "noise"}], "flops": [{"type", "flops_per_s", "noise"}]}. "noise" is absent if it is not known. */
json_t *peaks_json(const struct peaks *p);

/* Reads an object of this form from a file. STATUS_DATA for anything else. */
MUST_CHECK enum status peaks_read(const char *path, struct peaks *p);
