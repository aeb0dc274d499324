/* Inside watch/: lines that fit a width, bars and sparklines. */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct view_options {
    int width;      /* maximum number of columns of a line; at least VIEW_MIN_WIDTH */
    bool ascii;     /* use only ASCII characters, except in names */
    double quiet_s; /* seconds since the last record */
};

enum { VIEW_MIN_WIDTH = 40 };

/* Writes a line with a newline, cut at the width but never within a UTF-8 character. Text of
 * unknown origin must have been cleaned (base/text.h). */
void draw_line(FILE *out, const struct view_options *o, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* Writes text as draw_line does, but over as many lines as it needs; lines break at spaces. */
void draw_lines(FILE *out, const struct view_options *o, const char *text);

/* Size in bytes of a buffer for the text of a line. */
enum { DRAW_MAX = 1024 };

/* Draws n values in order, with a block for each; a higher value has a taller block. If n is above
 * `columns`, neighbours are averaged. Values that are not finite are ignored. */
void draw_spark(char out[DRAW_MAX], const double *x, int64_t n, int columns, bool ascii);
