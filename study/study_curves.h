/* Inside study/: the learning curves of a cell, from the records of its runs. */
#pragma once

#include "results/analysis.h"
#include "results/run.h"

/* The curves of one run. Only the medians are set. */
struct study_curves {
    int64_t n;
    struct analysis_epoch *epoch; /* (n), at most ANALYSIS_MAX_EPOCHS; the caller frees it */
};

/* Reads the curves of a run. Of more than ANALYSIS_MAX_EPOCHS epochs, takes every second, third ...
 * and the last one. */
MUST_CHECK enum status study_curves_of(const struct run *run, struct study_curves *c);

/* Sets the curves of a cell from those of its `n` runs: the epochs of the first run, each with the
 * median, the lowest and the highest accuracy of the runs that have the epoch. */
MUST_CHECK enum status study_curves_join(const struct study_curves *run, int64_t n,
                                         struct analysis_cell *cell);
