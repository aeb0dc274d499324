/* Holding a device against the reference, one case of the table (cases.h) at a time.
 *
 * Each case runs in a rig (rig.h: guards, poisoned outputs and workspace, inputs that must stay) on
 * random inputs, is compared within the bounds of bounds.h, and runs again, which must give the
 * same bits where a plan promises that (backend.h), and hold the bounds again. What it is compared
 * with is the reference without any rounding, on inputs rounded beforehand, so that the reference's
 * rounding is held to account like any other. Then each in-place form that kernels/ops.h allows is
 * run alike.
 *
 * A case or in-place form that the device does not support is printed and counted as skipped. A
 * failure prints the command that runs that case alone. */
#ifndef VERIFY_HARNESS_H
#define VERIFY_HARNESS_H

#include "verify/bounds.h"
#include "verify/cases.h"

enum { HARNESS_NOTHING_RAN = 77 };

/* What the cases of one problem share. */
struct problem {
    int number; /* -1: none yet */
    struct operands in, want;
    struct bounds bounds;
};

/* Starts with the devices, `problem.number` -1 and the rest 0. */
struct harness {
    struct device *dev, *ref;
    const char *command; /* what runs this program as it was run, but for the case */
    bool digest;         /* print a hash of each result */
    struct problem problem;
    int passed, skipped, failed;
};

/* Runs case `number` of the table, in all its forms. */
void harness_run(struct harness *h, int number, const struct op_case *c);

/* Prints the counts, under a name, and frees what the harness holds. Returns the exit code: 0 when
 * all that ran passed, 1 when something failed, HARNESS_NOTHING_RAN. */
int harness_end(struct harness *h, const char *name);

#endif
