/* Reading the folder of a study, and writing its analysis. */
#pragma once

#include "study/study_analyse.h"
#include "study/study_store.h"

#include <stdio.h>

/* Analyses the complete runs, even if other runs are missing; a run whose record cannot be read
 * counts as failed. `command` is the command that runs the study again. The caller frees with
 * analysis_free. */
MUST_CHECK enum status study_collect(const struct study_store *store, const char *command,
                                     struct analysis *a);

/* Prints a line for each cell: throughput, speed-up, efficiency, top-1, the shares of input and
 * communication, and the verdict or the reason why the cell has no result. Then prints the
 * bottleneck thresholds. */
MUST_CHECK enum status study_print(const struct analysis *a, FILE *out);
