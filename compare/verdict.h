/* Inside compare/: the metrics of a cell measured, and verdicts over all cells together. */
#ifndef COMPARE_VERDICT_H
#define COMPARE_VERDICT_H

#include "compare/compare.h"
#include "compare/repeats.h"

/* Adds the results of the cell's metrics, without their verdicts; what is missing for those that
 * decide is told in c->missing. Where c->turns, the i-th runs of both sides are neighbours. */
MUST_CHECK enum status judge_measure(const struct repeats *base, const struct repeats *new,
                                     const struct compare_config *config, struct compare_cell *c);

/* Gives every result its verdict, and counts them. */
MUST_CHECK enum status judge_report(struct compare_report *report);

/* Adds a sentence to what a cell lacks. */
void cell_lacks(struct compare_cell *c, const char *fmt, ...) PRINTF_LIKE(2, 3);

#endif
