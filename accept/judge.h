/* Verdicts: what was measured, held against limits. Pure functions.
 *
 * A metric's value is the median of its repeats. What has a limit and was not measured, or not in
 * every repeat, is MISSING, or SKIP where the limit allows that; what has no limit is SKIP. A check
 * is the worst of its metrics and of how it ended. */
#ifndef ACCEPT_JUDGE_H
#define ACCEPT_JUDGE_H

#include "accept/result.h"

/* The fleet's median of a metric of a check, NAN where it is not known. */
typedef double accept_fleet(void *context, const char *check, const char *metric);

/* Judges one check. Metrics that have a limit and were not measured are added. `fleet` NULL: there
 * is none, and limits by it alone are SKIP. */
MUST_CHECK enum status accept_judge(const struct accept_check *check, accept_fleet *fleet,
                                    void *context, struct accept_result *r);

/* Judges all checks of a report, finding each by its name, and counts. A check of the spec up to
 * the report's level that the report lacks is added as MISSING, or as SKIP where it is not asked
 * for. */
MUST_CHECK enum status accept_judge_report(const struct accept_spec *spec, accept_fleet *fleet,
                                           void *context, struct accept_report *r);

/* Exit code: 4 where something failed, else 5 where something is missing or nothing passed, else
 * 0. `strict` makes a warning a failure. */
int accept_exit_code(const struct accept_report *r, bool strict);

/* How many metrics that have a limit got each verdict. */
void accept_count_metrics(const struct accept_report *r, int count[ACCEPT_VERDICTS]);

/* "accepted: checks: 3 passed, ...; metrics with a limit: 7 passed, ..." without a newline. */
void accept_conclusion(const struct accept_report *r, bool strict, char *out, size_t size);

/* What the verdict of one node does not say, because only other nodes would be a measure for it,
 * without a newline; "" where there is nothing of that sort. */
void accept_note(const struct accept_report *r, char *out, size_t size);

/* What a limit asks for, in words: "at least 2223 images/s (baseline 2470, 10 %)". */
void accept_limit_words(const struct accept_limit *l, const struct accept_metric *m, double fleet,
                        char *out, size_t size);
#endif
