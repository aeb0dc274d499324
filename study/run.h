/* Running a study: every run that is still missing, one after the other, each as a child process.
 */
#ifndef STUDY_RUN_H
#define STUDY_RUN_H

#include "study/store.h"

#include <regex.h>
#include <stdio.h>

struct study_options {
    const char *program; /* this program's file */
    const regex_t *only; /* runs whose "<cell>/r<k>" it matches; NULL: all */
    bool retry;          /* try a run that fails a second time, and what has failed earlier again */
    FILE *progress;      /* a line for each run, and on a terminal one that is redrawn */
};

/* A run that fails is kept as failed and the next one begins; what stops the study is a signal
 * (STATUS_INTERRUPTED), and what no run could do without (STATUS_IO, data that cannot be made). */
MUST_CHECK enum status study_run_missing(const struct study_store *store,
                                         const struct study_options *options);
#endif
