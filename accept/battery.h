/* Running the checks of a spec on this node, one after the other, each in a process of its own.
 * Those of a burn-in of each device run at the same time, so that the node is under load as a
 * whole.
 *
 * A budget leaves each check its own limit, or less: what the later ones need by the spec's
 * "seconds". What a check that is cut off has measured by then counts, the rest of it is missing,
 * and the next one starts.
 *
 * What a check measured is kept as soon as it has ended, and what its repeats measured as soon as
 * each has, so that a stopped run of the spec resumes; with `resume` checks that
 * could not be measured are run again. A check that crashes, hangs or fails has failed, and the
 * next one comes; only when the devices are not there, or not what the spec is for, nothing more is
 * run. */
#ifndef ACCEPT_BATTERY_H
#define ACCEPT_BATTERY_H

#include "accept/result.h"

struct accept_options {
    const char *program; /* the file of this program */
    const char *dir;     /* the node's folder (result.h) */
    int level;           /* checks up to it */
    double hours;        /* for all checks that burn in sum; 0: as often as they repeat */
    int64_t budget_s;    /* for all checks; 0: none */
    bool resume;         /* go on with what the folder holds */
    FILE *progress;      /* lines for people; NULL: none */
};

/* Runs what is missing, and judges all. STATUS_USAGE where the folder holds other results, and for
 * hours without a check that burns; STATUS_INTERRUPTED where a signal asked for an end: then
 * `report` holds nothing. On success the caller frees it. */
MUST_CHECK enum status accept_run(const struct accept_spec *spec,
                                  const struct accept_options *options,
                                  struct accept_report *report);
#endif
