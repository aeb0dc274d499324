/* Reading the output of nccl-tests' all_reduce_perf. */
#pragma once

#include "base/status.h"

#include <stdint.h>

enum { NCCL_ROWS_MAX = 128 };

struct nccl_row {
    double bytes;
    double seconds; /* of an all-reduce in place */
};

struct nccl_table {
    int64_t ranks, nodes; /* >= 2; >= 1 */
    int n;
    struct nccl_row row[NCCL_ROWS_MAX]; /* (n >= 2) ascending by bytes */
};

/* Reads the whole output, including the lines that list the ranks and their hosts. STATUS_DATA if
 * the output is damaged, or if its ratio of bus to algorithm bandwidth shows that it is of another
 * collective; STATUS_MISMATCH if the output reports wrong results. */
MUST_CHECK enum status nccl_table_load(const char *path, struct nccl_table *out);

/* Seconds for `bytes`: interpolated linearly between rows; below the first row's bytes, the first
 * row's time; above the last row's bytes, extrapolated from the last two rows. */
double nccl_table_at(const struct nccl_table *t, double bytes);

/* Fits the line seconds = latency + bytes * s_per_byte with the least squared relative error over
 * the rows; neither latency nor s_per_byte is below 0. */
void nccl_table_fit(const struct nccl_table *t, double *latency_s, double *s_per_byte);
