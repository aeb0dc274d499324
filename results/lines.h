/* Reading a file of lines of which nothing is known yet. */
#ifndef RESULTS_LINES_H
#define RESULTS_LINES_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* No line of ours comes near; a longer one is STATUS_DATA. */
enum { LINE_MAX_BYTES = 1 << 20 };

struct lines {
    int fd;
    char *path;
    char *buf;         /* LINE_MAX_BYTES and a NUL */
    size_t begin, end; /* the bytes of `buf` not yet given away */
    int64_t number;    /* of the last line given, from 1 */
    int64_t whole;     /* bytes of the file up to that line's end */
    bool torn;         /* the file ends in a line without its newline, which is not given */
};

/* Opens a regular file; one that is missing is STATUS_DATA. */
MUST_CHECK enum status lines_open(struct lines *l, const char *path);

/* The next line, NUL in place of its newline, valid until the next call; *line is NULL at the end.
 * Its length is given because a hostile line may hold a NUL. */
MUST_CHECK enum status lines_next(struct lines *l, char **line, size_t *size);

/* Forgets the end of the file, a torn line included, so that lines_next reads what is there now:
 * for a file that grows. */
MUST_CHECK enum status lines_refresh(struct lines *l);

/* Fine on a zeroed struct. */
void lines_close(struct lines *l);
#endif
