/* Appends lines to a file that only grows. A run's *.jsonl files are written in this way.
 *
 * Lines are buffered. A crash may leave a partial last line, which readers ignore and journal_open
 * removes. A last line that lacks only its newline counts. */
#pragma once

#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

struct journal {
    FILE *stream; /* NULL: not open */
    int error;    /* errno of the first failed write; all later calls fail with this error */
    off_t size;   /* bytes that the file has at least, after a flush */
    char path[4096];
};

/* Opens `path` for appending. Removes a partial last line, or ends a complete one. Creates a
 * missing file. Fails if `path` is a symbolic link, or another file that is not regular. */
MUST_CHECK enum status journal_open(struct journal *j, const char *path);

/* Appends `size` bytes of whole lines. The failure that it returns may be a failure to write an
 * earlier line. */
MUST_CHECK enum status journal_write(struct journal *j, const char *lines, size_t size);

/* Appends `value` as a line of at most LINE_MAX_BYTES (base/lines.h), and takes ownership of
 * `value`. `flags` are jansson's. */
MUST_CHECK enum status journal_write_json(struct journal *j, json_t *value, size_t flags);

/* Writes all lines to the operating system, and with `durable` waits until they are on disk. Fails
 * if another program has removed the file, or has made it shorter. */
MUST_CHECK enum status journal_flush(struct journal *j, bool durable);

/* Flushes durably and closes the journal. Does nothing if the journal is not open. */
MUST_CHECK enum status journal_close(struct journal *j);
