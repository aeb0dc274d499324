/* Which of a spec's checks are run, and for how long. */
#ifndef ACCEPT_PLAN_H
#define ACCEPT_PLAN_H

#include "accept/battery.h"

/* Whether the check is run: it is asked for, and not above the level. */
bool accept_plan_has(const struct accept_check *check, const struct accept_options *options);
int accept_plan_count(const struct accept_spec *spec, const struct accept_options *options);

/* Seconds of each check that burns. STATUS_USAGE for hours without a check that burns, which would
 * be believed to have been a burn-in. */
MUST_CHECK enum status accept_plan_burn(const struct accept_spec *spec,
                                        const struct accept_options *options, double *seconds);

/* Seconds that a battery is expected to take from its beginning to its end; STATUS_USAGE as above.
 */
MUST_CHECK enum status accept_plan_seconds(const struct accept_spec *spec,
                                           const struct accept_options *options, double *seconds);

/* Prints which checks would be run, how long they take, and their commands. */
MUST_CHECK enum status accept_plan_print(const struct accept_spec *spec,
                                         const struct accept_options *options, FILE *out);
#endif
