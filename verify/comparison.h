/* Comparing a device with the reference, one case of the table (cases.h) at a time.
 *
 * Each case runs in a rig (rig.h: guards, poisoned outputs and workspace, inputs that must not
 * change) on random inputs, and its result must be within the bounds of bounds.h. The result of a
 * second run must be within these bounds too, and must have the same bits if the plan promises this
 * (backend.h). The reference computes the expected result from rounded inputs, but does not round
 * the result: this way the rounding of every device is checked, even if the device is itself the
 * reference. The reference rounds results only for fused forms. If the case passes, each in-place
 * form that kernels/ops.h allows runs in the same way.
 *
 * Prints a line for each case or in-place form that is skipped because the device does not support
 * it, and for each that fails:
 *     skip NUMBER NAME: REASON
 *     FAIL NUMBER NAME: REASON
 *     OOM NUMBER NAME: REASON     memory ran out, which says nothing about the device
 * With `steps`, also prints lines that show which case a crashed process was running:
 *     at NUMBER NAME
 *     pass NUMBER NAME */
#pragma once

#include "verify/bounds.h"
#include "verify/cases.h"

/* The inputs, expected results and bounds that the cases of one problem share. */
struct problem {
    int number; /* -1: none yet */
    struct operands in, want;
    struct bounds bounds, winograd; /* `winograd`: for plans that use this algorithm */
};

/* A fault injected into one case, to test that the comparison finds it: none; a bit of the result
 * flips; the process is killed; or the process never ends. */
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

/* Before the first case, the caller sets the devices, and `problem.number` to -1; all counters are
 * 0. */
struct comparison {
    struct device *dev, *ref;
    bool steps; /* print a line when a case begins, and for each passed form */
    struct comparison_fault fault;
    struct problem problem;
    int passed, skipped, failed;
    int errors_in_row; /* number of consecutive forms that failed with an error rather than a wrong
                        * result */
};

/* Runs case `number` of the table, in all its forms. */
void comparison_run(struct comparison *h, int number, const struct op_case *c);

/* Frees the comparison's memory. The caller owns its devices. */
void comparison_close(struct comparison *h);
