/* Comparing a device with the reference, one case of the table (cases.h) at a time.
 *
 * Each case runs in a rig (rig.h: guards, poisoned outputs and workspace, inputs that must stay) on
 * random inputs, is compared within the bounds of bounds.h, and runs again, which must give the
 * same bits where a plan promises that (backend.h), and hold the bounds again. What it is compared
 * with is the reference without any rounding, on inputs rounded beforehand, so that the reference's
 * rounding is held to account like any other; for fused forms, the reference with its roundings.
 * Then each in-place form that kernels/ops.h allows is run alike.
 *
 * A case or in-place form that the device does not support is printed and counted as skipped:
 *     skip NUMBER NAME: REASON
 *     FAIL NUMBER NAME: REASON
 * and, with `steps`, what tells where a process was when it crashed:
 *     at NUMBER NAME
 *     pass NUMBER NAME */
#ifndef VERIFY_COMPARISON_H
#define VERIFY_COMPARISON_H

#include "verify/bounds.h"
#include "verify/cases.h"

enum { COMPARISON_NOTHING_RAN = 77 };

/* What the cases of one problem share. */
struct problem {
    int number; /* -1: none yet */
    struct operands in, want;
    struct bounds bounds;
};

/* Made on purpose at one case, to see that it is found: a bit of the result flips, or the process
 * is killed, or it never ends. */
enum comparison_fault_kind {
    COMPARISON_SOUND,
    COMPARISON_WRONG,
    COMPARISON_CRASH,
    COMPARISON_HANG
};
struct comparison_fault {
    enum comparison_fault_kind kind;
    int number;
};

/* Starts with the devices, `problem.number` -1 and the rest 0. */
struct comparison {
    struct device *dev, *ref;
    const char *command; /* what runs this program as it was run, but for the case: printed after a
                          * failure; NULL: nothing is */
    bool steps;          /* print the beginning of each case, and what passed */
    struct comparison_fault fault;
    struct problem problem;
    int passed, skipped, failed;
    int errors_in_row; /* forms that the device could not compute, since the last that it could */
};

/* Runs case `number` of the table, in all its forms. */
void comparison_run(struct comparison *h, int number, const struct op_case *c);

/* Prints the counts, under a name, and frees what the comparison holds. Returns the exit code: 0
 * when all that ran passed, 1 when something failed, COMPARISON_NOTHING_RAN. */
int comparison_end(struct comparison *h, const char *name);

/* Frees what the comparison holds; its devices are the caller's. */
void comparison_close(struct comparison *h);

#endif
