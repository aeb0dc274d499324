/* Prints text into new memory. */
#pragma once

#include "base/status.h"

#include <stddef.h>
#include <stdio.h>

/* Formats text into new memory that the caller frees. On failure (STATUS_OOM) *out is NULL. */
MUST_CHECK enum status text_new(char **out, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* A stream that writes to memory. text_stream_close closes the stream and checks for write errors.
 * Afterwards `text` contains `size` bytes and a NUL, and the caller frees it. On failure
 * (STATUS_OOM) `text` is NULL. */
struct text_stream {
    FILE *out;
    char *text;
    size_t size;
};
MUST_CHECK enum status text_stream_open(struct text_stream *s);
MUST_CHECK enum status text_stream_close(struct text_stream *s);
