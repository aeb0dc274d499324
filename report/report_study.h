/* Internal to report/: the parts of a study's section. */
#pragma once

#include "base/digits.h"
#include "base/document.h"
#include "results/analysis.h"

/* Writes the main result of the study as a headline.
 *
 * A cell with a speed-up is chosen from the cells with synthetic data, and another from those with
 * real data: the first by the mode (ddp before ddp2 before dp), then fp32 before other precisions,
 * then more devices before fewer, then weak before strong scaling, then the order of the study. The
 * headline is the speed-up and the efficiency on synthetic data, which show what scaling alone
 * costs, and then those on real data with the verdict. Without a speed-up, it is the throughput of
 * the fastest cell. `poor`: it warns of the quality of the data. */
void study_headline(struct writer *w, const struct analysis *a, bool poor);

/* Writes what the study found: a table of speed-ups, the bottlenecks, the effect of the precision,
 * and the accuracy on real data. */
void study_findings(struct writer *w, const struct analysis *a);

/* Writes a heading and the table of speed-ups. Writes nothing if no cell has a speed-up, or if the
 * study has more rows or columns than a reader can survey: the table of all cells has the numbers
 * then. */
void study_scaling_table(struct writer *w, const struct analysis *a);

/* Writes "96 %", and "96 % (88 to 98 %)" if there is an interval. */
void study_percent(char out[DIGITS_SIZE], double x, double low, double high);
