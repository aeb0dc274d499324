/* Running the checks of a spec on this node, one after the other, each in a process of its own.
 * Burn-in checks of single devices run at the same time, so that the whole node is under load.
 *
 * A budget can shorten a check's time limit (accept_plan_room). If a check is cut off, its
 * measurements so far count, its other metrics are missing, and the next check starts. If its
 * command printed nothing, its measurements are those of the record in its folder "work".
 *
 * The load is measured around each repeat. A repeat whose speeds other work disturbed is measured
 * again, at most twice, if the time for later checks allows it; if that does not help, the check is
 * MISSING (accept_noise.h).
 *
 * Measurements are stored as soon as each repeat ends, so that an interrupted test suite can be
 * resumed. With `resume`, checks that could not be measured are run again, from their beginning. Of
 * a check that was interrupted and is not selected now, the report has the measurements so far. A
 * check that crashes, hangs or fails gets FAIL, and the next check starts; but if a device is
 * missing, or is not the hardware that the spec describes, no further check is run. */
#pragma once

#include "accept/accept_plan.h"

/* Runs the checks that have no results yet, and judges all checks. STATUS_USAGE if the folder holds
 * results that `options` do not resume, or results of another spec, or if options->hours is given
 * and no burn-in check is selected. STATUS_INTERRUPTED after a signal: `report` is then empty. On
 * success the caller frees `report`. */
MUST_CHECK enum status accept_run(const struct accept_spec *spec,
                                  const struct accept_options *options,
                                  struct accept_report *report);
