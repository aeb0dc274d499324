/* What an acceptance came to, for people and for programs. */
#ifndef ACCEPT_REPORT_H
#define ACCEPT_REPORT_H

#include "accept/result.h"

#include <stdio.h>

/* A table for the terminal, of what has a limit; it ends with accept_note's line and
 * accept_conclusion's. */
void accept_print(const struct accept_report *r, bool strict, FILE *out);

/* A test suite: a case for each check, and one for each of its metrics that has a limit. What
 * failed is a failure, what is missing an error. A warning passes, unless `strict`. */
void accept_print_junit(const struct accept_report *r, bool strict, FILE *out);

/* Writes accept.json, .md, .html and .xml (JUnit) into the folder, each whole or not at all. */
MUST_CHECK enum status accept_write(const struct accept_report *r, bool strict, const char *dir);

/* "2345 images/s", or the texts of all repeats that differ, "a, b"; "-" where nothing was
 * measured. */
void accept_value_words(const struct accept_metric *m, char *out, size_t size);

/* The lowest and highest of the repeats, and the place of the worst: "60 to 91 of 3, worst on node7
 * cuda:3"; "" of a text, and of one repeat without a place. */
void accept_spread_words(const struct accept_metric *m, char *out, size_t size);
#endif
