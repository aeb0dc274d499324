/* Reading what the folder of a study holds, and writing down what it comes to. */
#ifndef STUDY_COLLECT_H
#define STUDY_COLLECT_H

#include "study/analyse.h"
#include "study/store.h"

#include <stdio.h>

/* Analyses the runs that are complete, whatever is missing; a run whose record cannot be read
 * counts as failed. `command` is what runs the study again. The caller frees with analysis_free. */
MUST_CHECK enum status study_collect(const struct study_store *store, const char *command,
                                     struct analysis *a);

/* Prints a line for each cell: throughput, speed-up, accuracy, the parts of a step, verdict; what
 * is missing, and why; what the verdicts rest on. */
void study_print(const struct analysis *a, FILE *out);
#endif
