/* Inside report/: drawing the figures of a record, and loading runs for it. */
#ifndef REPORT_DRAW_H
#define REPORT_DRAW_H

#include "report/scan.h"

/* Draws into the item's folder of figures. STATUS_UNSUPPORTED without gnuplot; STATUS_DATA for a
 * record without a figure. */
MUST_CHECK enum status item_draw(const struct item *item);

/* Whether a picture ("loss.svg") of such an item belongs into a report. Runs that are compared are
 * so by what they learnt: their times are a study's business. */
bool figure_is_shown(enum item_kind kind, const char *figure);

/* Puts names of pictures into the order in which a report shows them: first what a study is made
 * for, the rest by name. */
void figures_order(char **figures, int n);

/* The runs of an item, by name; at most REPORT_MAX_RUNS. What is damaged is left out, and named. */
struct runs {
    int n;
    struct run *v[REPORT_MAX_RUNS]; /* (n) */
    struct table damaged;           /* a list: of each what is wrong with it */
};
MUST_CHECK enum status runs_load(const struct item *item, struct runs *runs);
void runs_free(struct runs *runs);

#endif
