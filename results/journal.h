/* A file of lines that only grows: the writing side of a run's *.jsonl.
 *
 * Lines gather in memory first. A crash may leave a torn last line, which readers ignore and
 * journal_open cuts off. */
#ifndef RESULTS_JOURNAL_H
#define RESULTS_JOURNAL_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct journal {
    FILE *stream; /* NULL: not open */
    int error;    /* the errno of the first failed write; all later calls fail with it */
    char path[4096];
};

/* Opens `path` for appending after its last whole line; a torn line behind it is cut off, and
 * nothing else ever is. A file that does not exist is made; a symbolic link is refused, and so is
 * what is no regular file. */
MUST_CHECK enum status journal_open(struct journal *j, const char *path);

/* Appends `size` bytes, whole lines. A failure may belong to an earlier line. */
MUST_CHECK enum status journal_write(struct journal *j, const char *lines, size_t size);

/* Hands everything to the operating system, and with `durable` waits until the disk has it. */
MUST_CHECK enum status journal_flush(struct journal *j, bool durable);

/* Flushes durably and closes; one that is not open is fine. */
MUST_CHECK enum status journal_close(struct journal *j);
#endif
