/* Functions for fuzz targets: files made from an input. */
#include "tests/fuzz/fuzz.h"

#include "base/file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[4096];

static void remove_folder(void)
{
    if (dir_remove(folder) != STATUS_OK)
        fprintf(stderr, "%s\n", status_message());
}

/* A target that cannot make its files must not pass. */
static void need(bool ok, const char *what)
{
    if (ok)
        return;
    perror(what);
    abort();
}

const char *fuzz_dir(void)
{
    const char *tmp = getenv("TMPDIR");
    if (*folder)
        return folder;
    snprintf(folder, sizeof folder, "%s/ampscale-fuzz-XXXXXX", tmp ? tmp : "/tmp");
    need(mkdtemp(folder), folder);
    atexit(remove_folder);
    return folder;
}

const char *fuzz_file(const char *name, const void *bytes, size_t size)
{
    static char path[sizeof folder + 256];
    snprintf(path, sizeof path, "%s/%s", fuzz_dir(), name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    need(fd >= 0 && write(fd, bytes, size) == (ssize_t)size, path);
    close(fd);
    return path;
}

/* The index of the name in a line "@name"; -1 for any other line. */
static int heading(const char *line, size_t length, const char *const *names)
{
    for (int i = 0; length > 1 && line[0] == '@' && names[i]; i++)
        if (strlen(names[i]) == length - 1 && memcmp(line + 1, names[i], length - 1) == 0)
            return i;
    return -1;
}

unsigned fuzz_files(const uint8_t *data, size_t size, const char *const *names)
{
    const char *at = (const char *)data, *end = at + size, *begin = NULL;
    char path[sizeof folder + 256];
    unsigned found = 0;
    int name = -1;
    for (int i = 0; names[i]; i++) {
        snprintf(path, sizeof path, "%s/%s", fuzz_dir(), names[i]);
        unlink(path);
    }
    while (at <= end) {
        const char *newline = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
        const char *stop = newline ? newline : end;
        int next = heading(at, (size_t)(stop - at), names);
        if ((next >= 0 || !newline) && name >= 0)
            fuzz_file(names[name], begin, (size_t)((next >= 0 ? at : end) - begin));
        if (next >= 0) {
            name = next;
            found |= 1u << next;
            begin = newline ? newline + 1 : end;
            if (!newline)
                fuzz_file(names[name], begin, 0);
        }
        if (!newline)
            break;
        at = newline + 1;
    }
    return found;
}

void fuzz_refused(enum status st)
{
    if (st == STATUS_OK || *status_message())
        return;
    fprintf(stderr, "a refusal (%s) has no message\n", status_str(st));
    abort();
}
