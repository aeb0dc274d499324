/* Running a study: all missing runs, one after the other, each as a child process. */
#pragma once

#include "study/study_store.h"

#include <regex.h>
#include <stdio.h>

struct study_options {
    const char *program; /* path of this program */
    const regex_t *only; /* only runs whose "<cell>/r<k>" matches; NULL: all runs */
    bool retry;          /* also repeat runs that failed or were disturbed in earlier calls; try
                          * each run up to twice */
    FILE *progress;      /* gets a line for each run, and on a terminal a redrawn status line */
};

/* Runs that are not complete. */
struct study_left {
    int64_t failed, pending; /* incomplete runs that study_options.only selects */
    int64_t others;          /* incomplete runs that study_options.only does not select */
};
MUST_CHECK enum status study_count_left(const struct study_store *store,
                                        const struct study_options *options,
                                        struct study_left *left);

/* Checks that the data, hosts and devices of all missing runs exist, and then runs them. If
 * something is missing, returns STATUS_DATA before any run starts, and the message names everything
 * that is missing. A run that fails is recorded as failed, and the next run starts. A timed
 * run that other work disturbed is measured once more at the end, unless the machine stays busy.
 * Only a signal (STATUS_INTERRUPTED) and errors that affect all runs (STATUS_IO, data that cannot
 * be made) stop the study. */
MUST_CHECK enum status study_run_missing(const struct study_store *store,
                                         const struct study_options *options);

/* Prints the commands that study_run_missing would run, and then as a comment their number and
 * their time, estimated from complete runs. Warns if they have more threads than cores. Changes
 * nothing in the folder, which need not exist. */
MUST_CHECK enum status study_dry_run(const struct study_store *store,
                                     const struct study_options *options, FILE *out);
