/* Reading what nccl-tests' all_reduce_perf printed. */
#ifndef PREDICT_NCCL_TABLE_H
#define PREDICT_NCCL_TABLE_H

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

/* The whole output, with the lines that name the ranks and their hosts. STATUS_DATA when it is
 * damaged or of another collective (whose bus bandwidth bears another ratio); STATUS_MISMATCH when
 * it reports wrong results. */
MUST_CHECK enum status nccl_table_load(const char *path, struct nccl_table *out);

/* Seconds for `bytes`: linear between the rows; the first row's time below them; along the last
 * two rows beyond them. */
double nccl_table_at(const struct nccl_table *t, double bytes);

/* The line seconds = latency + bytes * s_per_byte that has the least relative error over the rows,
 * neither part below 0. */
void nccl_table_fit(const struct nccl_table *t, double *latency_s, double *s_per_byte);

#endif
