/* Runs selected test cases (cases.h) on a device in this process, and compares the results with
 * those of the reference backend. */
#pragma once

#include "verify/comparison.h"

enum { SELECTION_WITHOUT_MAX = 4 };

struct selection {
    const char *kind; /* kind of operation, as op_str names it; NULL: all */
    const char *only; /* text that the case's name contains; NULL: all */
    const char *without[SELECTION_WITHOUT_MAX]; /* texts that the case's name does not contain */
    int n_without;
    int every, share;    /* number of parts of the table, and index of the part that is run; all
                          * layouts of a problem are in the same part */
    int first;           /* number of the first case; 0: all */
    int number;          /* number of a single case; -1: all */
    bool depends_on_isa; /* only cases whose CPU kernels exist in a version for each instruction
                          * set */
};

bool selection_has(const struct selection *s, int number, const struct op_case *c);

struct worker_config {
    const char *devices; /* one device: "cpu", "ref", "cuda:1" ... */
    int threads;         /* of the host */
    const char *isa;     /* instruction set of ampscale's own CPU kernels: "avx2"; NULL: the best
                          * one that the machine has */
    enum conv_algorithm conv_algorithm;
    struct selection selection;
    struct comparison_fault fault;
};

/* Opens the device, with the kernels of c->isa if set. STATUS_DATA if the machine lacks the device
 * or the instruction set; STATUS_USAGE if the build lacks kernels for the instruction set, or if
 * c->isa is set and the device is not a CPU. */
MUST_CHECK enum status worker_open(const struct worker_config *c, struct device **dev);

/* Fails if the device does not work any more: if a kernel has accessed invalid memory, CUDA fails
 * every later call of the process, so that other cases would fail without having been tested. */
MUST_CHECK enum status worker_try(struct device *dev);

/* Runs the selected cases. Prints to stdout a line when a case begins, and a line with the result
 * of each form of the case (comparison.h). Prints a line "done" after the last case. Stops earlier
 * if an error has broken the device for this process, or after several errors in a row. cuDNN plans
 * are cached in `dir` and not in the user's cache: their timings are unreliable, because other
 * processes run at the same time. STATUS_MISMATCH when a case failed, STATUS_LIBRARY if the worker
 * stopped early. */
MUST_CHECK enum status worker_run(const struct worker_config *c, const char *dir);
