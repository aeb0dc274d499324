/* Prints text into new memory. */
#pragma once

#include "base/status.h"

#include <stddef.h>
#include <stdio.h>

/* Prints into new memory that the caller frees; *out is NULL after a failure, STATUS_OOM. */
MUST_CHECK enum status text_new(char **out, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* A stream into memory. Close ends it and checks all that was written: `text` then holds `size`
 * bytes and a NUL, which the caller frees; after a failure, STATUS_OOM, it is NULL. */
struct text_stream {
    FILE *out;
    char *text;
    size_t size;
};
MUST_CHECK enum status text_stream_open(struct text_stream *s);
MUST_CHECK enum status text_stream_close(struct text_stream *s);
