/* Running the checks of a spec on this node, one after the other, each in a process of its own.
 * Burn-in checks of single devices run at the same time, so that the whole node is under load.
 *
 * A budget can shorten a check's time limit: the time that the spec's "seconds" give for the later
 * checks is reserved for them. If a check is cut off, its measurements so far count, its other
 * metrics are missing, and the next check starts.
 *
 * Measurements are stored as soon as each repeat ends, so that a stopped run of the spec resumes;
 * with `resume`, checks that could not be measured are run again. A check that crashes, hangs or
 * fails gets FAIL, and the next check starts; but if a device is missing, or is not the hardware
 * that the spec describes, no further check is run. */
#pragma once

#include "accept/accept_plan.h"

/* Runs the checks that have no results yet, and judges all. STATUS_USAGE if the folder holds other
 * results, and for hours without a burn-in check; STATUS_INTERRUPTED after a signal: `report` is
 * then empty. On success the caller frees `report`. */
MUST_CHECK enum status accept_run(const struct accept_spec *spec,
                                  const struct accept_options *options,
                                  struct accept_report *report);
