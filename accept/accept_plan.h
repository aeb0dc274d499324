/* Plans an acceptance: which checks of a spec are run, with which commands, and for how long. */
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

/* Returns the time limit in seconds of a check that starts when `left` seconds of the budget are
 * left: its own limit or, if that is less, the time left but for a reserve. The reserve is half of
 * `later`, the expected time of all later checks, but at most half of the time left; and it leaves
 * the check its own expected time, `planned`. A check whose estimate is too low can thus use time
 * that later, less important checks would have had, and leaves them enough to begin. The result is
 * less than 1 if no time is left. */
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
