/* Checks that a run's record belongs to its cell. */
#pragma once

#include "results/run.h"
#include "study/study_plan.h"

/* Compares the settings in the record with those of the study's plan. The spec's "launcher" or
 * "train" may have changed a setting; the run would then be shown under the name of the wrong cell.
 * STATUS_DATA names the first difference; settings that the record lacks are not compared. */
MUST_CHECK enum status study_check_run(const struct study_plan *plan, const struct study_run *r,
                                       const struct run *record);
