/* Verdicts: measurements compared with limits. Pure functions.
 *
 * A metric's value is the median of its repeats. A metric without a limit is SKIP. A metric with a
 * limit is MISSING if one of the repeats did not measure it. It is SKIP instead if no repeat
 * measured it and its limit says "absent": "skip". The speeds of a disturbed check are MISSING
 * (accept_noise.h); all else is judged. A check's verdict is the worst of its metrics'
 * verdicts and of the verdict on how the check ended. */
#pragma once

#include "accept/accept_spec.h"

/* Judges one check. Adds each metric that has a limit and was not measured. A metric whose only
 * limit is relative to a fleet gets SKIP (accept/fleet.h compares it). */
MUST_CHECK enum status accept_judge(const struct accept_check *check, struct accept_result *r);

/* Judges each check of a report by the limits of the spec's check of the same name, and counts the
 * verdicts. Also adds the spec's checks that the report lacks, if their level is at most the
 * report's level. An added check is MISSING if it was selected (`asked`), else SKIP. */
MUST_CHECK enum status accept_judge_report(const struct accept_spec *spec, struct accept_report *r);

/* Counts the metrics that have a limit, by verdict. */
void accept_count_metrics(const struct accept_report *r, int count[VERDICTS]);

/* Writes "accepted: checks: 3 passed, ...; metrics with a limit: 7 passed, ..." without a
 * newline. */
void accept_conclusion(const struct accept_report *r, bool strict, char *out, size_t size);

/* Writes how many metrics were not judged because their limits need a fleet baseline, without a
 * newline; "" if there are no such metrics. */
void accept_note(const struct accept_report *r, char *out, size_t size);
