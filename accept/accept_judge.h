/* Verdicts: measurements compared with limits. Pure functions.
 *
 * A metric's value is the median of its repeats. A metric that has a limit and was not measured in
 * every repeat is MISSING, or SKIP where the limit allows that; a metric without a limit is SKIP. A
 * check's verdict is the worst of its metrics' verdicts and of the verdict on how it ended. */
#pragma once

#include "accept/accept_spec.h"

/* Judges one check. Metrics that have a limit and were not measured are added. Metrics whose only
 * limit is relative to a fleet are SKIP (accept/fleet.h compares them). */
MUST_CHECK enum status accept_judge(const struct accept_check *check, struct accept_result *r);

/* Judges all checks of a report, each found by its name, and counts the verdicts. If the report
 * lacks a check of the spec that is not above the report's level, adds it: as MISSING if it was
 * selected (`asked`), else as SKIP. */
MUST_CHECK enum status accept_judge_report(const struct accept_spec *spec, struct accept_report *r);

/* Counts the metrics that have a limit, by verdict. */
void accept_count_metrics(const struct accept_report *r, int count[VERDICTS]);

/* "accepted: checks: 3 passed, ...; metrics with a limit: 7 passed, ..." without a newline. */
void accept_conclusion(const struct accept_report *r, bool strict, char *out, size_t size);

/* A note on the metrics that one node's verdict does not cover, because their limits need a fleet
 * baseline; without a newline, "" if there are none. */
void accept_note(const struct accept_report *r, char *out, size_t size);
