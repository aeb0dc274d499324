/* Under which conditions runs were made: when, and how many of them other work disturbed. */
#pragma once

#include "results/run.h"

#include <stdbool.h>
#include <stdint.h>

enum { CONDITIONS_TIME_SIZE = 24 };

/* Starts as conditions_none. */
struct conditions {
    char from[CONDITIONS_TIME_SIZE]; /* start of the first run, "2026-11-21T06:25:00Z"; "": no run
                                      * recorded it */
    char to[CONDITIONS_TIME_SIZE];   /* end of the last run, likewise */
    int64_t runs;
    int64_t recorded; /* runs whose record says whether they were disturbed; older records do not */
    int64_t disturbed; /* runs that other work disturbed (noise.h) */
    double others; /* largest share of the processors' time that other processes took in one of the
                    * runs; NAN: not known */
};

extern const struct conditions conditions_none;

/* The conditions of one run. */
struct conditions conditions_of(const struct run *run);

/* Adds the conditions of other runs. */
void conditions_add(struct conditions *all, const struct conditions *other);

/* Returns whether a text has the form of a time in a record. */
bool conditions_is_time(const char *text);
