/* Reading the output of nccl-tests' all_reduce_perf. */
#pragma once

#include "base/status.h"

#include <stdint.h>

enum { NCCL_ROWS_MAX = 128 };

struct nccl_row {
    double bytes;
    double seconds; /* time of an all-reduce in place */
};

struct nccl_table {
    int64_t ranks, nodes; /* >= 2; >= 1 */
    int n;
    struct nccl_row row[NCCL_ROWS_MAX]; /* (n >= 2) ascending by bytes */
};

/* Reads the whole output, including the lines that list the ranks and their hosts. STATUS_DATA if
 * the output is damaged, or if its ratio of bus bandwidth to algorithm bandwidth is not the ratio
 * of an all-reduce. STATUS_MISMATCH if the output reports wrong results. */
MUST_CHECK enum status nccl_table_load(const char *path, struct nccl_table *out);

/* Returns the seconds of an all-reduce of `bytes` bytes. Interpolates linearly between rows. Below
 * the first row's bytes, the result is the first row's time. Above the last row's bytes,
 * extrapolates from the last two rows. */
double nccl_table_at(const struct nccl_table *t, double bytes);

/* Fits the line seconds = latency + bytes * s_per_byte: minimises the sum of the squared relative
 * errors over the rows. latency and s_per_byte are at least 0. */
void nccl_table_fit(const struct nccl_table *t, double *latency_s, double *s_per_byte);
