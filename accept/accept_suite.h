/* Planning and running the checks of a spec on this node, one after the other, each in a process of
 * its own. Burn-in checks of single devices run at the same time, so that the whole node is under
 * load.
 *
 * A budget can shorten a check's time limit (accept_plan_room). If a check is cut off, its
 * measurements so far count, its other metrics are missing, and the next check starts. If its
 * command printed nothing, its measurements are those of the record in its folder "work".
 *
 * The load is measured around each repeat. A repeat whose speeds other work disturbed is measured
 * again, at most twice, if the time for later checks allows it; if that does not help, the check is
 * MISSING (accept_withhold).
 *
 * Measurements are stored as soon as each repeat ends, so that an interrupted test suite can be
 * resumed. With `resume`, checks that could not be measured are run again, from their beginning. Of
 * a check that was interrupted and is not selected now, the report has the measurements so far. A
 * check that crashes, hangs or fails gets FAIL, and the next check starts; but if a device is
 * missing, or is not the hardware that the spec describes, no further check is run. */
#pragma once

#include "accept/accept_spec.h"
#include "base/words.h"

struct accept_options {
    const char *program; /* path of this program */
    const char *dir;     /* the node's folder (accept_result.h) */
    int level;           /* highest level of the checks that are run */
    double hours;        /* total burn-in time of all checks; 0: each check runs the number of
                          * repeats in the spec */
    int64_t budget_s;    /* time limit of all checks together, seconds; 0: unlimited */
    bool resume;         /* keep the results that the folder holds */
    const char *proc;    /* folder to read in place of /proc; NULL: /proc */
    const char *name;    /* of the node; NULL: the host's */
    FILE *progress;      /* gets progress lines; NULL: none */
};

/* Whether the check is run: it is selected (check->asked), and its level is at most
 * options->level. */
bool accept_plan_has(const struct accept_check *check, const struct accept_options *options);
int accept_plan_count(const struct accept_spec *spec, const struct accept_options *options);

/* Sets *seconds to the duration of each burn-in check. STATUS_USAGE if options->hours is set and no
 * burn-in check would be run: otherwise the user would believe that a burn-in had been run. */
MUST_CHECK enum status accept_plan_burn(const struct accept_spec *spec,
                                        const struct accept_options *options, double *seconds);

/* Sets *seconds to the expected duration of the whole test suite. STATUS_USAGE as for
 * accept_plan_burn. */
MUST_CHECK enum status accept_plan_seconds(const struct accept_spec *spec,
                                           const struct accept_options *options, double *seconds);

/* Returns the time limit in seconds of a check (docs/reference/specs.md) when `left` seconds of the
 * budget are left: a check whose estimate, `planned`, is too low can use time that later, less
 * important checks would have had (`later`), and leaves them enough to begin. The result is less
 * than 1 if no time is left. */
int64_t accept_plan_room(double left, double planned, double later, int64_t limit_s);

/* Prints the checks that would be run, their expected durations, and their commands. */
MUST_CHECK enum status accept_plan_print(const struct accept_spec *spec,
                                         const struct accept_options *options, FILE *out);

/* Appends the command line of one repeat to `w`. `dir` is the repeat's folder,
 * <node>/checks/<check>/r<k>; `room_s` is the repeat's time limit in seconds. */
MUST_CHECK enum status accept_command(const struct accept_spec *spec,
                                      const struct accept_check *check, const char *program,
                                      const char *dir, int64_t room_s, struct words *w);

/* Adds the repeat's measurements to `r` (accept_read.h). `output` is the object that the command
 * printed, NULL for a kind that writes a folder. STATUS_DATA for output that cannot be read. */
MUST_CHECK enum status accept_read_repeat(const struct accept_spec *spec,
                                          const struct accept_check *check, const json_t *output,
                                          const char *dir, struct accept_result *r);

/* Runs the checks that have no results yet, and judges all checks. STATUS_USAGE if the folder holds
 * results that `options` do not resume, or results of another spec, or if options->hours is given
 * and no burn-in check is selected. STATUS_INTERRUPTED after a signal: `report` is then empty. On
 * success the caller frees `report`. */
MUST_CHECK enum status accept_run(const struct accept_spec *spec,
                                  const struct accept_options *options,
                                  struct accept_report *report);
