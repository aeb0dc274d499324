/* Inside launch/: a stream of bytes cut into lines, with the bars in it that are redrawn in place
 * behind carriage returns. */
#ifndef LAUNCH_LINES_H
#define LAUNCH_LINES_H

#include <stdbool.h>
#include <stddef.h>

enum { LINES_MAX = 16384 };

/* Begins as {0}, or with `live` set. */
struct lines {
    bool live;  /* hand on what is redrawn as it comes; else only what stays in the end */
    bool drawn; /* in the midst of a line that is being redrawn */
    size_t n;
    char held[LINES_MAX];
};

/* Takes a line with its newline; without one a piece of a line that is overlong or redrawn, or what
 * a stream ends with. */
typedef void lines_take(void *self, const char *line, size_t n);

/* Hands on the lines that `bytes` complete, and keeps the rest for the next call. */
void lines_feed(struct lines *l, const char *bytes, size_t n, lines_take *take, void *self);

/* Hands on what is left. */
void lines_end(struct lines *l, lines_take *take, void *self);
#endif
