/* Appending lines. */
#include "results/journal.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static enum status fail(struct journal *j)
{
    if (!j->error)
        j->error = errno ? errno : EIO;
    const char *way_out = j->error == ENOSPC || j->error == EDQUOT
                              ? "free some space and go on with --resume auto"
                              : "see to it and go on with --resume auto";
    return status_fail(STATUS_IO, "cannot write '%s': %s; %s", j->path, strerror(j->error),
                       way_out);
}

enum status journal_open(struct journal *j, const char *path, int64_t keep)
{
    *j = (struct journal){0};
    TRY(path_format(j->path, sizeof j->path, "%s", path));
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0)
        return fail(j);
    if (ftruncate(fd, keep) == 0)
        j->stream = fdopen(fd, "a");
    if (!j->stream) {
        enum status st = fail(j);
        close(fd);
        return st;
    }
    return STATUS_OK;
}

enum status journal_write(struct journal *j, const char *lines, size_t size)
{
    if (j->error || fwrite(lines, 1, size, j->stream) != size)
        return fail(j);
    return STATUS_OK;
}

enum status journal_flush(struct journal *j, bool durable)
{
    if (j->error || fflush(j->stream) != 0)
        return fail(j);
    /* EINVAL: this file system does not offer it, and the write itself has been accepted. */
    if (durable && fsync(fileno(j->stream)) != 0 && errno != EINVAL)
        return fail(j);
    return STATUS_OK;
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
