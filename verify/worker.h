/* Comparing a device with the reference in this process, on a part of the table. */
#ifndef VERIFY_WORKER_H
#define VERIFY_WORKER_H

#include "verify/comparison.h"
#include "verify/selection.h"

struct worker_config {
    const char *devices; /* one: "cpu", "ref", "cuda:1" ... */
    int threads;         /* of the host */
    const char *isa;     /* own CPU kernels for this instruction set: "avx2"; NULL: the machine's */
    struct selection selection;
    struct comparison_fault fault;
};

/* The device with the kernels of that instruction set. STATUS_DATA where this machine or build
 * lacks either. */
MUST_CHECK enum status worker_open(const struct worker_config *c, struct device **dev);

/* Prints to stdout, a line each: the case that begins and the result of each of its forms (see
 * comparison.h). Choices of cuDNN's plans that it keeps go to `dir`: times taken beside other
 * processes are not for others to use. STATUS_MISMATCH when a case failed. */
MUST_CHECK enum status worker_run(const struct worker_config *c, const char *dir);
#endif
