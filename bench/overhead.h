/* Measures the overheads of a training step, with calls that compute next to nothing.
 *
 *   launch     an operation on a few numbers, 100 launched on a stream one after the other
 *   event      an event recorded in a stream, 100 one after the other
 *   step       a training step on one pixel: a convolution to 8 channels and a linear layer
 *   record     a line of steps.jsonl in a new folder (TMPDIR, else /tmp)
 *   allreduce  of 4 bytes, between the processes of a job, or two threads of a single process; the
 *              time of the slowest rank
 *
 * Times are per call. Each row is checked. launch: every launch has incremented the numbers. event:
 * the time from the first event to the last is above 0 and at most the time that the host waited.
 * step: the last layer has the momentum that this number of steps gives (momentum 0.9 distinguishes
 * up to about 40). record: the file has as many lines as were written. allreduce: the sums are
 * right. */
#pragma once

#include "bench/micro.h"
#include "bench/options.h"

enum { OVERHEAD_SCHEMA = 1, OVERHEAD_ROWS = 5, OVERHEAD_BATCH = 100, OVERHEAD_ITERS_MAX = 1000 };

struct overhead_row {
    const char *name;
    struct harness_result time; /* seconds per call */
    int64_t done;               /* calls counted, warm-up included */
    bool valid;                 /* the number of calls and their results are right */
};

/* Each function measures one row. An invalid row is not a failure here. */
MUST_CHECK enum status overhead_launch(const struct harness_config *timing, const struct micro *m,
                                       struct overhead_row *row);
MUST_CHECK enum status overhead_event(const struct harness_config *timing, const struct micro *m,
                                      struct overhead_row *row);
MUST_CHECK enum status overhead_step(const struct harness_config *timing, const struct micro *m,
                                     struct overhead_row *row);
/* Measures "record". From this call on SIGINT and SIGTERM no longer kill the process (base/stop.h):
 * after a signal this function removes the folder and returns STATUS_INTERRUPTED. */
MUST_CHECK enum status overhead_record(const struct harness_config *timing,
                                       struct overhead_row *row);

struct world;

/* To be called by every process of the job; each gets the row. */
MUST_CHECK enum status overhead_allreduce(const struct harness_config *timing, struct world *w,
                                          struct overhead_row *row);

/* Measures all rows; rank 0 prints them. STATUS_USAGE for more than OVERHEAD_ITERS_MAX samples or
 * warm-up samples; after printing, STATUS_MISMATCH where a row is not valid. */
MUST_CHECK enum status bench_overhead(const struct bench_options *o);
