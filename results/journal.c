/* Appends lines to a file. */
#include "results/journal.h"

#include "base/file.h"
#include "base/json.h"
#include "base/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum status fail(struct journal *j)
{
    if (!j->error)
        j->error = errno ? errno : EIO;
    return status_fail(STATUS_IO, "cannot write '%s': %s", j->path,
                       j->error == ESTALE ? "another program removed, moved or shortened it"
                                          : strerror(j->error));
}

/* Whether the last `size` bytes of a file are complete JSON. */
static bool is_complete(int fd, off_t from, off_t size)
{
    char *line = size > 0 && size <= LINE_MAX_BYTES ? malloc((size_t)size) : NULL;
    bool complete =
        line && pread(fd, line, (size_t)size, from) == size && json_is_complete(line, (size_t)size);
    free(line);
    return complete;
}

/* Ends the file's last line, which has no newline, or removes it if it is not complete. */
static enum status journal_cut_torn(struct journal *j, int fd, off_t size)
{
    char block[4096];
    off_t end = size;
    while (end > 0) {
        size_t n = end < (off_t)sizeof block ? (size_t)end : sizeof block;
        ssize_t got = pread(fd, block, n, end - (off_t)n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got != (ssize_t)n)
            return fail(j);
        const char *newline = memrchr(block, '\n', n);
        if (newline) {
            end += newline + 1 - (block + n);
            break;
        }
        end -= (off_t)n;
    }
    if (is_complete(fd, end, size - end))
        return write(fd, "\n", 1) == 1 ? STATUS_OK : fail(j);
    return end == size || ftruncate(fd, end) == 0 ? STATUS_OK : fail(j);
}

enum status journal_open(struct journal *j, const char *path)
{
    struct stat s;
    *j = (struct journal){0};
    TRY(path_format(j->path, sizeof j->path, "%s", path));
    int fd;
    TRY(log_open(path, O_RDWR, &fd));
    enum status st = fstat(fd, &s) == 0 ? journal_cut_torn(j, fd, s.st_size) : fail(j);
    if (st == STATUS_OK && (fstat(fd, &s) != 0 || !(j->stream = fdopen(fd, "a"))))
        st = fail(j);
    j->size = s.st_size;
    if (st != STATUS_OK)
        close(fd);
    return st;
}

/* Writes the buffer, but not behind a line of which another program has left a part: the next
 * journal_open can remove a partial line only at the end. */
static enum status write_out(struct journal *j)
{
    struct stat s;
    if (j->error)
        return fail(j);
    if (stat(j->path, &s) != 0 ? errno == ENOENT
                               : s.st_size < j->size - (off_t)__fpending(j->stream)) {
        errno = ESTALE;
        __fpurge(j->stream);
        return fail(j);
    }
    return fflush(j->stream) == 0 ? STATUS_OK : fail(j);
}

enum status journal_write(struct journal *j, const char *lines, size_t size)
{
    if (size > __fbufsize(j->stream) - __fpending(j->stream))
        TRY(write_out(j));
    if (j->error || fwrite(lines, 1, size, j->stream) != size)
        return fail(j);
    j->size += (off_t)size;
    return STATUS_OK;
}

enum status journal_write_json(struct journal *j, json_t *value, size_t flags)
{
    size_t size;
    char *text = json_line(value, flags, &size);
    enum status st = size <= LINE_MAX_BYTES
                         ? journal_write(j, text, size)
                         : status_fail(STATUS_DATA, "a line of '%s' is too long", j->path);
    free(text);
    return st;
}

enum status journal_flush(struct journal *j, bool durable)
{
    TRY(write_out(j));
    /* EINVAL: this file system does not support fsync; the write itself has succeeded. */
    return durable && fsync(fileno(j->stream)) != 0 && errno != EINVAL ? fail(j) : STATUS_OK;
}

enum status journal_close(struct journal *j)
{
    if (!j->stream)
        return STATUS_OK;
    enum status st = journal_flush(j, true);
    if (fclose(j->stream) != 0 && st == STATUS_OK)
        st = fail(j);
    j->stream = NULL;
    return st;
}
