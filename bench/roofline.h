/* What a device can do at best, and how much of it an operation takes.
 *
 * The roofline model (Williams, Waterman and Patterson, "Roofline: an insightful visual performance
 * model for multicore architectures", CACM 52(4), 2009): an operation that moves `bytes` and
 * computes `flops` takes at least max(bytes / bandwidth, flops / rate). Bandwidth and rates are
 * those that this device's own library was seen to reach (bench/peak.h), not a data sheet's. */
#ifndef BENCH_ROOFLINE_H
#define BENCH_ROOFLINE_H

#include "kernels/ops.h"

#include <jansson.h>
#include <stdbool.h>

enum { PEAK_SCHEMA = 1, PEAK_COPIES_MAX = 16, PEAK_DEVICE_MAX = 256 };

struct peak_copy {
    double bytes;       /* that the operation touched: what lies in a cache moves faster */
    double bytes_per_s; /* read and written */
};

struct peaks {
    char device[PEAK_DEVICE_MAX];
    int n_copies;
    struct peak_copy copy[PEAK_COPIES_MAX];
    double flops_per_s[DTYPE_COUNT]; /* of products in this type; 0: not measured */
};

/* The fewest bytes that the operation can move: each tensor once for reading it and once for
 * writing it, whichever of them it does. */
double roofline_bytes(const struct op_desc *d);

/* The type in which an operation multiplies: that of its tensors, or TF32 where fp32 operands are
 * rounded to that and the device was measured in it. */
enum dtype roofline_type(const struct peaks *p, const struct op_desc *d);

/* The highest rate at which that many bytes were moved, or more: a larger set cannot be faster but
 * for the time that a call takes. Beyond all that was measured, the largest set's. */
double roofline_bandwidth(const struct peaks *p, double bytes);

struct bound {
    double memory_s, compute_s;
    double seconds; /* the larger; NaN where one of the two rates was not measured */
    bool compute;   /* the larger is compute_s */
};

struct bound roofline_bound(const struct peaks *p, const struct op_desc *d);

/* {"schema", "bench": "peak", "device", "copy": [{"bytes", "bytes_per_s"}],
 *  "flops": [{"type", "flops_per_s"}]}. NULL without memory. */
json_t *peaks_json(const struct peaks *p);

/* Reads such an object from a file. STATUS_DATA for anything else. */
MUST_CHECK enum status peaks_read(const char *path, struct peaks *p);
#endif
