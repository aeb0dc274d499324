/* Reads untrusted files of lines, such as CSV. */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Far longer than any line that ampscale writes; a longer line is STATUS_DATA. */
enum { LINE_MAX_BYTES = 1 << 20 };

struct lines {
    int fd;
    char *path;
    char *buf;         /* LINE_MAX_BYTES and a NUL */
    size_t begin, end; /* the bytes of `buf` not yet returned */
    int64_t number;    /* number of the line that was returned last, from 1 */
    int64_t whole;     /* bytes of the file up to that line's end */
    bool torn;         /* the file ends in a line without its newline, which is not returned */
};

/* Opens a regular file; one that is missing is STATUS_DATA. */
MUST_CHECK enum status lines_open(struct lines *l, const char *path);

/* The next line, NUL in place of its newline, valid until the next call; *line is NULL at the end.
 * *size is its length: a hostile line may contain a NUL. */
MUST_CHECK enum status lines_next(struct lines *l, char **line, size_t *size);

/* For a file that has grown: lets lines_next read again from the end of the last whole line. A torn
 * line is thus read again. */
MUST_CHECK enum status lines_refresh(struct lines *l);

/* Calls `take` for each line of a file; a failure names the file and the line. With `whole`, a last
 * line without its newline is STATUS_DATA; else that line is skipped. */
typedef enum status lines_take(void *context, char *line, size_t size);
MUST_CHECK enum status lines_each(const char *path, bool whole, lines_take *take, void *context);

/* Cuts a line of CSV (RFC 4180, without line ends inside quotes) into its cells, in place, and
 * returns their number; -1 if there are more than `max`, or the line is not CSV. */
int csv_split(char *line, char *cell[], int max);

/* Does nothing for a zeroed struct. */
void lines_close(struct lines *l);
