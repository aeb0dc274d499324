/* The results of a comparison as text and as files. A file is written completely or not at all. */
#pragma once

#include "compare/compare_verdict.h"

#include <stdio.h>

/* Version of the JSON format. It is incremented if a reader of the previous version would misread
 * the new one. */
enum { COMPARE_SCHEMA = 4 };

/* Prints a table for each cell, and at the end a line such as "REGRESSION: 2 regressions, 1
 * inconclusive ...". */
void compare_print(const struct compare_report *report, FILE *out);

/* {"record": "compare", "schema": 4, "passed", "begins", "disturbed": {"base", "new"}, "alpha",
 * "family", counts of verdicts, "cells": [{"name", "runs": {"base", "new"}, "missing": text or
 * null, "differences": {field: {"base", "new"}}, "metrics": [{"name", "unit", "better": "higher" or
 * "lower", "base": {"n", "median", "min", "max", "stddev"}, "new", "paired", "ratio", "low",
 * "high", "p", "corrected_p", "exact", "threshold", "decides", "verdict", "deciding_runs"}]}]}; a
 * number that is not known is null. Returns a new object that the caller owns. */
json_t *compare_json(const struct compare_report *report);

/* Paths of the files to write; NULL: not written. */
enum { COMPARE_MARKDOWN_MAX = 20000 }; /* bytes */
struct compare_files {
    const char *markdown, *junit, *benchmark_action;
};
MUST_CHECK enum status compare_write(const struct compare_report *report,
                                     const struct compare_files *files);
