/* Reading the folder of a study, and writing its analysis. */
#pragma once

#include "study/study_analyse.h"
#include "study/study_store.h"

/* Analyses the complete runs, even if other runs are missing; a run whose record cannot be read
 * counts as failed. `command` is the command that runs the study again. The caller frees with
 * analysis_free. */
MUST_CHECK enum status study_collect(const struct study_store *store, const char *command,
                                     struct analysis *a);
