/* Inside watch/: lines that fit a width, bars and sparklines. */
#ifndef WATCH_DRAW_H
#define WATCH_DRAW_H

#include "base/status.h"
#include "watch/view.h"

#include <stdint.h>

/* Writes a line and its end, cut at the width; what is cut between two characters of UTF-8 stays
 * whole. Text of unknown origin must have been cleaned (results/text.h). */
void draw_line(FILE *out, const struct view_options *o, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* Text for a line. */
enum { DRAW_MAX = 1024 };

/* n values as columns of blocks, the mean of a few where there are more than `columns`; from the
 * lowest to the highest. Values that are not finite are left out. */
void draw_spark(char out[DRAW_MAX], const double *x, int64_t n, int columns, bool ascii);

/* "[=====>     ]": `share` of 0..1. */
void draw_bar(char out[DRAW_MAX], double share, int columns);

/* Seconds as "1:23" or "2:03:04"; "-" for what is not finite or beyond a century. */
enum { DRAW_TIME_MAX = 32 };
void draw_time(char out[DRAW_TIME_MAX], double seconds);

#endif
