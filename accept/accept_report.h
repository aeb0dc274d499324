/* The results of an acceptance, for people and for programs. */
#pragma once

#include "accept/accept_result.h"

#include <stdio.h>

/* Prints, for the terminal, a table of the metrics that have a limit, and then the lines of
 * accept_note and accept_conclusion. */
void accept_print(const struct accept_report *r, bool strict, FILE *out);

/* Writes a JUnit test suite: a case for each check, and a case for each metric that has a limit.
 * FAIL becomes a failure, and MISSING becomes an error. WARN passes, unless `strict`. */
MUST_CHECK enum status accept_write_junit(const struct accept_report *r, bool strict,
                                          const char *path);

/* Writes accept.json, .md, .html and .xml (JUnit) into the folder, each whole or not at all. */
MUST_CHECK enum status accept_write(const struct accept_report *r, bool strict, const char *dir);

/* A metric's value as text: "2345 images/s", or the different texts of all repeats, "a, b"; "-" if
 * nothing was measured. */
void accept_value_words(const struct accept_metric *m, char *out, size_t size);

/* The lowest and the highest value of the repeats, and the place of the worst value, such as "60 to
 * 91 in 3 repeats, worst on node7 cuda:3". "" for a text metric, and for a single repeat without a
 * place. */
void accept_spread_words(const struct accept_metric *m, char *out, size_t size);
