/* What a comparison came to, for people and for programs. Files are whole or absent. */
#ifndef COMPARE_FORMATS_H
#define COMPARE_FORMATS_H

#include "compare/compare.h"

#include <stdio.h>

/* Grows when a reader of the previous version of the JSON would misunderstand. */
enum { COMPARE_SCHEMA = 2 };

/* A table for the terminal; a table a cell, as Markdown. Both end with compare_conclusion's line.
 */
void compare_print(const struct compare_report *report, FILE *out);
void compare_print_markdown(const struct compare_report *report, FILE *out);

/* "2 regressions, 0 not confirmed, 1 better, 7 same ...", without a newline. */
void compare_conclusion(const struct compare_report *report, char *out, size_t size);

/* A test suite in which each metric of a cell is a case: a regression fails, what decides and could
 * not be judged is an error, what else could not be is skipped. */
void compare_print_junit(const struct compare_report *report, FILE *out);

/* {"record": "compare", "schema": 2, "passed", "alpha", "family", counts of verdicts, "cells":
 * [{"name", "runs": {"base", "new"}, "missing": text or null, "differences": {field: {"base",
 * "new"}}, "metrics": [{"name", "unit", "better": "higher" or "lower", "base": {"n", "median",
 * "min", "max", "stddev"}, "new", "paired", "ratio", "low", "high", "p", "corrected_p", "exact",
 * "threshold", "decides", "verdict"}]}]}; a number that is not known is null. A new object that the
 * caller owns; NULL when memory is short. */
json_t *compare_json(const struct compare_report *report);

/* The new side in the customBiggerIsBetter form of github-action-benchmark: [{"name", "unit",
 * "value", "range", "extra"}], of those metrics of which more is better. */
json_t *compare_benchmark_action(const struct compare_report *report);

/* Where to write what; NULL: nowhere. */
struct compare_files {
    const char *markdown, *junit, *json, *benchmark_action;
};
MUST_CHECK enum status compare_write(const struct compare_report *report,
                                     const struct compare_files *files);
#endif
