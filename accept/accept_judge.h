/* Verdicts: measurements compared with limits, and their reports.
 *
 * A metric's value is the median of its repeats. A metric without a limit is SKIP. A metric with a
 * limit is MISSING if one of the repeats did not measure it. It is SKIP instead if no repeat
 * measured it and its limit says "absent": "skip". The speeds of a disturbed check are MISSING
 * (accept_withhold); all else is judged. A check's verdict is the worst of its metrics'
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

/* --- reports (accept_report.c) --- */

/* Prints, for the terminal, a table of the metrics that have a limit, and then how many
 * metrics need a fleet baseline, and the conclusion. */
void accept_print(const struct accept_report *r, bool strict, FILE *out);

/* A new object that the caller owns (docs/schema/accept.schema.json); NULL when memory is short. */
json_t *accept_report_json(const struct accept_report *r);

/* Writes accept.json, .md, .html and .xml into the folder, each whole or not at all. The JUnit test
 * suite has a case for each check, and for each metric that has a limit. FAIL becomes a failure,
 * and MISSING becomes an error. WARN passes, unless `strict`. */
MUST_CHECK enum status accept_write(const struct accept_report *r, bool strict, const char *dir);

/* The lowest and the highest value of the repeats, and the place of the worst value, such as "60 to
 * 91 in 3 repeats, worst on node7 cuda:3". "" for a text metric, and for a single repeat without a
 * place. */
void accept_spread_words(const struct accept_metric *m, char *out, size_t size);
