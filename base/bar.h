/* A progress bar with the time left, redrawn in place on a terminal:
 *
 *     gemm [=========>              ] 24/63  0:41 left
 *
 * It is for stderr: results go to stdout, so that pipes work. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct bar {
    FILE *out;         /* NULL: silent */
    const char *title; /* text before the bar */
    /* Inside bar.c: */
    int64_t total, done;
    double begun, drawn; /* when the bar began, and when it was last drawn, in seconds */
    bool shown;          /* the line is on the terminal */
};

/* Whether `out` is a terminal that executes escape sequences: not with TERM=dumb or without TERM.
 */
bool bar_redraws(FILE *out);

/* The descriptor of a stream; fileno does not know those of base/output.h. */
int bar_descriptor(FILE *out);

/* stderr if bar_redraws(stderr) and `quiet` is false, else NULL. */
FILE *bar_stream(bool quiet);

/* The caller sets `out` and `title`. The functions below draw nothing if `b` or its `out` is NULL,
 * or if the bar has not begun. */

/* Begins a bar of `total` items. */
void bar_begin(struct bar *b, int64_t total);

/* Counts one more item as done, and draws the bar, at most ten times a second; the last item erases
 * it. */
void bar_step(struct bar *b);

/* Erases the bar, at its end or before another line is printed; the next step draws it again. */
void bar_erase(struct bar *b);

/* --- for bars whose fields the caller writes --- */

/* Writes a bar such as "[=====>     ]", `columns` wide between the brackets. share: 0 to 1. */
void bar_text(char *out, double share, int columns);

/* Writes seconds as "1:23" or "2:03:04"; "-" if negative, not finite or more than a century. */
enum { BAR_TIME_SIZE = 32 };
void bar_time(double seconds, char out[BAR_TIME_SIZE]);

/* Draws "title [===> ]" and as many of the n fields as fit the terminal's width, because a wider
 * line could not be redrawn in place. share: 0 to 1. */
void bar_draw(FILE *out, const char *title, double share, const char *const *field, int n);

/* Writes the time left, "  1:23 left" or "  2:03:04 left". `share` (above 0) of the work is done
 * and took `seconds`. */
enum { BAR_LEFT_SIZE = 48 };
void bar_left(double seconds, double share, char out[BAR_LEFT_SIZE]);
