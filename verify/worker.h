/* Compares a device with the reference in this process, on a selection of the table. */
#pragma once

#include "verify/comparison.h"
#include "verify/selection.h"

struct worker_config {
    const char *devices; /* one device: "cpu", "ref", "cuda:1" ... */
    int threads;         /* of the host */
    const char *isa;     /* instruction set of ampscale's own CPU kernels: "avx2"; NULL: the best
                          * one that the machine has */
    struct selection selection;
    struct comparison_fault fault;
};

/* Opens the device, with the kernels of c->isa if set. STATUS_DATA if the machine lacks the device
 * or the instruction set; STATUS_USAGE if the build lacks kernels for the instruction set, or if
 * c->isa is set and the device is not a CPU. */
MUST_CHECK enum status worker_open(const struct worker_config *c, struct device **dev);

/* Runs the selection, and prints to stdout a line when a case begins and a line for the result of
 * each of its forms (comparison.h). cuDNN plans are cached in `dir`, not in the user's cache,
 * because they were timed while other processes ran. STATUS_MISMATCH when a case failed,
 * STATUS_LIBRARY after several errors in a row. */
MUST_CHECK enum status worker_run(const struct worker_config *c, const char *dir);
