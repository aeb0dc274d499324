/* The results of an acceptance, for people and for programs. */
#pragma once

#include "accept/accept_result.h"

#include <stdio.h>

/* Prints, for the terminal, a table of the metrics that have a limit, and then the lines of
 * accept_note and accept_conclusion. */
void accept_print(const struct accept_report *r, bool strict, FILE *out);

/* Writes accept.json, .md, .html and .xml into the folder, each whole or not at all. The JUnit test
 * suite has a case for each check, and for each metric that has a limit. FAIL becomes a failure,
 * and MISSING becomes an error. WARN passes, unless `strict`. */
MUST_CHECK enum status accept_write(const struct accept_report *r, bool strict, const char *dir);

/* The lowest and the highest value of the repeats, and the place of the worst value, such as "60 to
 * 91 in 3 repeats, worst on node7 cuda:3". "" for a text metric, and for a single repeat without a
 * place. */
void accept_spread_words(const struct accept_metric *m, char *out, size_t size);
