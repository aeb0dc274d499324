/* Inside study/: the progress of a study, and its remaining time, estimated from finished runs. */
#pragma once

#include "base/process.h"
#include "study/study_store.h"

#include <stdio.h>

struct study_progress {
    const struct study_plan *plan;
    FILE *out;           /* NULL: silent */
    bool terminal;       /* a line is redrawn in place */
    int64_t done, total; /* runs of this call */
    double *seconds;     /* (n_cells) sum over the finished runs, also of earlier calls */
    int64_t *runs;       /* (n_cells) number of finished runs, also of earlier calls */
    int64_t *left;       /* (n_cells) number of runs still to do */
};

/* Begins to show the progress of a call of study_run_missing. wanted[i] says whether the call
 * executes run i of the plan. */
MUST_CHECK enum status study_progress_begin(struct study_progress *p,
                                            const struct study_store *store, const bool *wanted,
                                            FILE *out);

/* Prints the numbers of runs and cells, and the time that the runs will take. */
void study_progress_forecast(const struct study_progress *p, FILE *out);

void study_progress_data(struct study_progress *p, const char *name);
void study_progress_start(struct study_progress *p, const struct study_run *run);
void study_progress_end(struct study_progress *p, const struct study_run *run,
                        const struct process_end *end, bool done);
/* A run that other work disturbed is executed again. */
void study_progress_again(struct study_progress *p, const struct study_run *run);
void study_progress_free(struct study_progress *p); /* no-op on a zeroed struct */

/* Prints a line. If `stays` is false, the line is printed only on a terminal, and the next line
 * replaces it. If `out` is NULL, nothing is printed. */
void study_say(FILE *out, bool terminal, bool stays, const char *text);
