/* Reads files line by line, and limits the length of a line. */
#include "base/lines.h"

#include "base/array.h"
#include "base/json.h"
#include "base/text_new.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum status lines_open(struct lines *l, const char *path)
{
    *l = (struct lines){.fd = -1};
    TRY(text_new(&l->path, "%s", path));
    TRY(array_new(&l->buf, LINE_MAX_BYTES + 1));
    l->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* opening a pipe must not block */
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

/* Moves the unread bytes to the front of the buffer and reads more after them. Sets *eof at the end
 * of the file. */
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
            return status_fail(STATUS_DATA, "'%s' line %lld is longer than any record can be",
                               l->path, (long long)l->number + 1);
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

enum status lines_each(const char *path, bool whole, lines_take *take, void *context)
{
    struct lines l;
    char *line;
    size_t size;
    enum status st;
    CHECK(lines_open(&l, path));
    for (;;) {
        CHECK(lines_next(&l, &line, &size));
        if (!line && !whole && json_is_complete(l.buf + l.begin, l.end - l.begin)) {
            line = l.buf + l.begin;
            size = l.end - l.begin;
            line[size] = '\0';
            l.begin = l.end;
            l.number++;
        }
        if (!line)
            break;
        st = take(context, line, size);
        if (st != STATUS_OK)
            CHECK(status_context(st, "'%s' line %lld", path, (long long)l.number));
    }
    if (whole && l.torn)
        st = status_fail(STATUS_DATA, "'%s' ends within a line", path);
done:
    lines_close(&l);
    return st;
}

int csv_split(char *line, char *cell[], int max)
{
    char *in = line, *out = line;
    int n = 0;
    for (;;) {
        bool quoted = *in == '"';
        if (n == max)
            return -1;
        in += quoted;
        cell[n++] = out;
        while (*in && (quoted || *in != ',')) {
            if (quoted && *in == '"' && *++in != '"')
                break;
            *out++ = *in++;
        }
        if (*in && *in != ',')
            return -1;
        bool more = *in == ',';
        in += more;
        *out++ = '\0';
        if (!more)
            return n;
    }
}
