/* Reads untrusted files of lines, such as CSV. */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Limit of a line's length, far above that of any line that ampscale writes. A longer line is
 * STATUS_DATA. */
enum { LINE_MAX_BYTES = 1 << 20 };

struct lines {
    int fd;
    char *path;
    char *buf;         /* LINE_MAX_BYTES and a NUL */
    size_t begin, end; /* the bytes of `buf` not yet returned */
    int64_t number;    /* number of the line that was returned last, from 1 */
    int64_t whole;     /* bytes of the file up to the end of the line returned last */
    bool torn;         /* the file ends in a line without a newline; lines_next does not return that
                        * line */
};

/* Opens a regular file. A missing file is STATUS_DATA. */
MUST_CHECK enum status lines_open(struct lines *l, const char *path);

/* Sets *line to the next line, or to NULL at the end of the file. The line is valid until the next
 * call; a NUL replaces its newline. Sets *size to the line's length, because an untrusted line may
 * contain another NUL. */
MUST_CHECK enum status lines_next(struct lines *l, char **line, size_t *size);

/* Call it for a file that may have grown. lines_next then continues after the last line that has a
 * newline, and reads an incomplete line again. */
MUST_CHECK enum status lines_refresh(struct lines *l);

/* Calls `take` for each line of a file. After a failure the message names the file and the line. A
 * last line without a newline is STATUS_DATA if `whole` is true; otherwise it is skipped, unless it
 * is complete JSON. */
typedef enum status lines_take(void *context, char *line, size_t size);
MUST_CHECK enum status lines_each(const char *path, bool whole, lines_take *take, void *context);

/* Cuts a line of CSV (RFC 4180, without line ends inside quotes) into its cells, in place, and
 * returns their number; -1 if there are more than `max`, or the line is not CSV. */
int csv_split(char *line, char *cell[], int max);

/* Does nothing for a zeroed struct. */
void lines_close(struct lines *l);
