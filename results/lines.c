/* Bounded reading, line by line. */
#include "results/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum status lines_open(struct lines *l, const char *path)
{
    *l = (struct lines){.fd = -1};
    l->path = strdup(path);
    l->buf = malloc(LINE_MAX_BYTES + 1);
    if (!l->path || !l->buf)
        return status_fail(STATUS_OOM, "no memory to read '%s'", path);
    l->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not hang us */
    if (l->fd < 0)
        return status_fail(errno == ENOENT ? STATUS_DATA : STATUS_IO, "cannot open '%s': %s", path,
                           strerror(errno));
    struct stat s;
    if (fstat(l->fd, &s) != 0)
        return status_fail(STATUS_IO, "cannot read '%s': %s", path, strerror(errno));
    if (!S_ISREG(s.st_mode))
        return status_fail(STATUS_DATA, "cannot read '%s': not a regular file", path);
    return STATUS_OK;
}

/* Moves what is left to the front and reads on behind it; *eof when there is no more. */
static enum status fill(struct lines *l, bool *eof)
{
    size_t left = l->end - l->begin;
    memmove(l->buf, l->buf + l->begin, left);
    l->begin = 0;
    l->end = left;
    ssize_t got;
    do
        got = read(l->fd, l->buf + left, LINE_MAX_BYTES - left);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return status_fail(STATUS_IO, "cannot read '%s': %s", l->path, strerror(errno));
    *eof = got == 0;
    l->end += (size_t)got;
    return STATUS_OK;
}

enum status lines_next(struct lines *l, char **line, size_t *size)
{
    *line = NULL;
    size_t searched = 0;
    for (;;) {
        size_t left = l->end - l->begin;
        char *from = l->buf + l->begin;
        char *newline = memchr(from + searched, '\n', left - searched);
        if (newline) {
            *newline = '\0';
            *line = from;
            *size = (size_t)(newline - from);
            l->begin += *size + 1;
            l->whole += (int64_t)*size + 1;
            l->number++;
            return STATUS_OK;
        }
        if (left == LINE_MAX_BYTES)
            return status_fail(STATUS_DATA, "'%s' line %lld is longer than any record", l->path,
                               (long long)l->number + 1);
        searched = left;
        bool eof = false;
        TRY(fill(l, &eof));
        if (eof) {
            l->torn = left > 0;
            return STATUS_OK;
        }
    }
}

enum status lines_refresh(struct lines *l)
{
    if (lseek(l->fd, l->whole, SEEK_SET) < 0)
        return status_fail(STATUS_IO, "cannot read '%s': %s", l->path, strerror(errno));
    l->begin = l->end = 0;
    l->torn = false;
    return STATUS_OK;
}

void lines_close(struct lines *l)
{
    if (l->path && l->fd >= 0)
        close(l->fd);
    free(l->path);
    free(l->buf);
    *l = (struct lines){0};
}
