/* What a training step costs besides computing: calls that do next to nothing.
 *
 *   launch     an operation on a few numbers, of 100 put on a stream one after the other
 *   event      an event recorded in a stream, of 100
 *   step       a training step on one pixel: a convolution to 8 channels and a linear layer
 *   record     a line of steps.jsonl in a new folder (TMPDIR, else /tmp)
 *   allreduce  of 4 bytes, between the processes of a job, or two threads where there is one; by
 *              the slowest rank
 *
 * Times are of one. Each is shown to have taken place: the numbers were counted up by every launch;
 * the time between the first event and the last is neither nothing nor longer than the host waited;
 * the momentum of the last layer is what so many steps leave (momentum 0.9: told apart up to some
 * 40); the file has so many lines; the sums are right. */
#ifndef BENCH_OVERHEAD_H
#define BENCH_OVERHEAD_H

#include "bench/collective.h"
#include "bench/harness.h"
#include "bench/micro.h"

enum { OVERHEAD_SCHEMA = 1, OVERHEAD_ROWS = 5, OVERHEAD_BATCH = 100, OVERHEAD_ITERS_MAX = 1000 };

struct overhead_config {
    const char *devices;
    int threads;
    struct harness_config timing; /* at most OVERHEAD_ITERS_MAX samples, and as many before */
    enum bench_format format;
    FILE *out;
};

struct overhead_row {
    const char *name;
    struct harness_result time; /* seconds of one */
    int64_t done;               /* that were counted, warm-up included */
    bool valid;                 /* they were as many as they had to be, and right */
};

/* One row each. That a row is not valid is no failure here. */
MUST_CHECK enum status overhead_launch(const struct harness_config *timing, const struct micro *m,
                                       struct overhead_row *row);
MUST_CHECK enum status overhead_event(const struct harness_config *timing, const struct micro *m,
                                      struct overhead_row *row);
MUST_CHECK enum status overhead_step(const struct harness_config *timing, const struct micro *m,
                                     struct overhead_row *row);
/* From then on SIGINT and SIGTERM are a question (base/stop.h): STATUS_INTERRUPTED, with the
 * folder removed, when one has come. */
MUST_CHECK enum status overhead_record(const struct harness_config *timing,
                                       struct overhead_row *row);

struct world;

/* Called by every process of the job; each gets the row. */
MUST_CHECK enum status overhead_allreduce(const struct harness_config *timing, struct world *w,
                                          struct overhead_row *row);

/* Measures all, and prints them on rank 0. STATUS_MISMATCH where a row is not valid, when all is
 * printed. */
MUST_CHECK enum status bench_overhead(const struct overhead_config *c);
#endif
