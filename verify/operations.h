/* Compares a device with the reference on all cases of operations, in worker processes.
 *
 * Each kind of operation has its own worker, so that a kernel that breaks the device, crashes or
 * never ends affects only the results of its kind. A kind of convolution has several workers. A
 * worker is another process of this program. It prints a line for each step (comparison.h) to a
 * log; operations_run reads the results from the logs. If a case ends a worker or breaks its
 * device, a new worker runs the cases after that one; after some such cases the rest stays
 * untested. With `sanitizer`, each worker runs under that tool of NVIDIA's compute-sanitizer. The
 * tool's command line then selects only ampscale's own kernels, because the tools report false
 * errors in library kernels. */
#pragma once

#include "base/bar.h"
#include "verify/worker.h"

#include <stdint.h>
#include <stdio.h>

enum {
    OPERATIONS_JOBS_MAX = 12,
    OPERATIONS_GPU_JOBS = 6, /* more processes would wait for each other on one GPU */
};

struct operations_config {
    struct worker_config worker;
    int jobs;              /* number of workers at a time, at most OPERATIONS_JOBS_MAX; 0: one per
                            * core, and at most OPERATIONS_GPU_JOBS on a GPU */
    int64_t limit_s;       /* seconds for all workers together; 0: unlimited */
    const char *sanitizer; /* memcheck, racecheck or synccheck; NULL: none */
    bool json;             /* print one JSON object instead of lines */
    bool verbose;          /* print every kind of operation, not only totals and failures */
    FILE *out;
    struct bar *bar; /* shows how many workers have ended; NULL: none */
};

/* Prints the numbers and names of the selected cases. */
MUST_CHECK enum status operations_list(const struct operations_config *c);

/* Runs the workers, prints all results, and fails with the first of these that is true:
 * STATUS_MISMATCH: a result is wrong; STATUS_DATA: the sanitizer does not support the device;
 * STATUS_MISMATCH: the sanitizer found an error; STATUS_INTERRUPTED: a signal; STATUS_LIBRARY: a
 * worker crashed; STATUS_DATA: the limit ended a worker, or no selected case could run, or the
 * device supports a kind with at least 20 selected cases but none of these cases could run. Before
 * any worker starts: STATUS_DATA if the device or the sanitizer is missing, STATUS_USAGE if no case
 * is selected. */
MUST_CHECK enum status operations_run(const struct operations_config *c);
