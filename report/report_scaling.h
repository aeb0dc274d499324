/* Internal to report/: the table of a study's speed-ups. */
#pragma once

#include "report/report_study.h"

/* Writes a heading and the table. Writes nothing if no cell has a speed-up, or if the study has
 * more rows or columns than a reader can survey: the table of all cells has the numbers then. */
void study_scaling_table(struct writer *w, const struct analysis *a);
