/* Inside study/: how far a study is and how long it will take, from the runs that are over. */
#ifndef STUDY_PROGRESS_H
#define STUDY_PROGRESS_H

#include "base/process.h"
#include "study/plan.h"

#include <stdio.h>

struct study_progress {
    const struct study_plan *plan;
    FILE *out;           /* NULL: silent */
    bool terminal;       /* a line is redrawn in place */
    int64_t done, total; /* runs of this call */
    double *seconds;     /* (n_cells) sums over the runs that are over, and their number */
    int64_t *runs;
    int64_t *left; /* (n_cells) runs still to come */
};

/* `wanted` says of each run of the plan whether it is to come. */
MUST_CHECK enum status study_progress_begin(struct study_progress *p, const struct study_plan *plan,
                                            const bool *wanted, FILE *out);
void study_progress_data(struct study_progress *p, const char *name);
void study_progress_start(struct study_progress *p, const struct study_run *run);
void study_progress_end(struct study_progress *p, const struct study_run *run,
                        const struct process_end *end, bool done);
void study_progress_free(struct study_progress *p); /* fine on a zeroed struct */

/* Seconds until all is done: a cell's runs take what its earlier ones took on average, others what
 * all did. NAN while none is over. */
double study_progress_left(const struct study_progress *p);

/* A line that stays, or, on a terminal, one that the next takes the place of. `out` NULL: silent.
 */
void study_say(FILE *out, bool terminal, bool stays, const char *text);

#endif
