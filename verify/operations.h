/* Comparing a device with the reference on the whole table, in worker processes.
 *
 * Each kind of operation has a worker of its own, convolutions several, so that a kernel that
 * breaks the device, crashes or never ends spoils its own kind alone. A worker is this program
 * again, which prints a line for each step (comparison.h) into a log; the results are read from the
 * logs. With a sanitizer each worker runs under that tool of NVIDIA's compute-sanitizer, on own
 * kernels alone: in those of libraries the tools find much that is no error. */
#ifndef VERIFY_OPERATIONS_H
#define VERIFY_OPERATIONS_H

#include "verify/worker.h"

#include <stdint.h>
#include <stdio.h>

enum { OPERATIONS_JOBS_MAX = 12 };

struct operations_config {
    struct worker_config worker;
    int jobs;              /* workers at a time; at most OPERATIONS_JOBS_MAX; 0: as many as cores */
    int64_t limit_s;       /* for all; 0: none */
    const char *sanitizer; /* memcheck, racecheck or synccheck; NULL: none */
    bool json;             /* print one JSON object instead of lines */
    bool quiet;            /* print the totals and failures alone */
    FILE *out;
};

/* Prints the numbers and names of the cases that are chosen. */
MUST_CHECK enum status operations_list(const struct operations_config *c);

/* STATUS_MISMATCH where a result is wrong or a sanitizer found something, STATUS_LIBRARY where a
 * worker crashed, STATUS_INTERRUPTED after a signal, STATUS_DATA where there is no such device or
 * sanitizer, the limit ended a worker, or no case could run of a kind of which the device has
 * operations and 20 cases or more were chosen; the first of these that holds. What was found until
 * then is printed once workers have begun. */
MUST_CHECK enum status operations_run(const struct operations_config *c);
#endif
