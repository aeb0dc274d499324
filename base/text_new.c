/* Prints text into new memory. */
#include "base/text_new.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>

enum status text_new(char **out, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = vasprintf(out, fmt, args);
    va_end(args);
    if (n >= 0)
        return STATUS_OK;
    *out = NULL;
    return status_fail(STATUS_OOM, "no memory for a text");
}

enum status text_stream_open(struct text_stream *s)
{
    *s = (struct text_stream){0};
    s->out = open_memstream(&s->text, &s->size);
    return s->out ? STATUS_OK : status_fail(STATUS_OOM, "no memory for a text");
}

enum status text_stream_close(struct text_stream *s)
{
    bool failed = ferror(s->out) != 0;
    if (fclose(s->out) == 0 && !failed)
        return STATUS_OK;
    free(s->text);
    s->text = NULL;
    return status_fail(STATUS_OOM, "no memory for a text");
}
