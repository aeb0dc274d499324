/* Measures the overheads of a training step, by calls that compute almost nothing.
 *
 *   launch     an operation on a few numbers; 100 are launched on a stream one after the other
 *   event      an event recorded in a stream; 100 are recorded one after the other
 *   step       a training step on one pixel: a convolution to 8 channels and a linear layer
 *   record     a line written to steps.jsonl in a new folder (in TMPDIR, else in /tmp)
 *   allreduce  4 bytes, between the processes of a job, or two threads of a single process; the
 *              time of the slowest rank
 *
 * Times are per call. A row is valid if its check passes. launch: every launch has incremented the
 * numbers. event: the time between the first and the last event is above 0 and is not larger than
 * the time that the host waited. step: the momentum buffer of the last layer has the value that
 * follows from the number of steps (with the coefficient 0.9, the check can distinguish up to about
 * 40 steps). record: the file has as many lines as were written. allreduce: the sums are right. */
#pragma once

#include "bench/micro.h"
#include "bench/options.h"

enum { OVERHEAD_SCHEMA = 1, OVERHEAD_ROWS = 5, OVERHEAD_BATCH = 100, OVERHEAD_ITERS_MAX = 1000 };

struct overhead_row {
    const char *name;
    struct harness_result time; /* seconds per call */
    int64_t done;               /* number of calls, warm-up included */
    bool valid; /* whether the number of calls and the results of the calls are right */
};

/* Each function measures one row. An invalid row is not a failure here. */
MUST_CHECK enum status overhead_launch(const struct harness_config *timing, const struct micro *m,
                                       struct overhead_row *row);
MUST_CHECK enum status overhead_event(const struct harness_config *timing, const struct micro *m,
                                      struct overhead_row *row);
MUST_CHECK enum status overhead_step(const struct harness_config *timing, const struct micro *m,
                                     struct overhead_row *row);
/* Measures "record". From this call on, SIGINT and SIGTERM no longer kill the process
 * (base/stop.h). After a signal, this function removes the folder and returns
 * STATUS_INTERRUPTED. */
MUST_CHECK enum status overhead_record(const struct harness_config *timing,
                                       struct overhead_row *row);

struct world;

/* Every process of the job must call this function. Each of them gets the same row. */
MUST_CHECK enum status overhead_allreduce(const struct harness_config *timing, struct world *w,
                                          struct overhead_row *row);

/* Measures all rows; rank 0 prints them. STATUS_USAGE if more than OVERHEAD_ITERS_MAX samples or
 * warm-up samples are requested. Returns STATUS_MISMATCH after printing if a row is not valid. */
MUST_CHECK enum status bench_overhead(const struct bench_options *o);
