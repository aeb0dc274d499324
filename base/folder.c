/* Lists the names of the files in a folder, and locks folders. */
#include "base/folder.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/stop.h"
#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

static int is_visible(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

/* Compares names by bytes, so that the order does not depend on the locale. */
static int by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

enum status dir_look(const char *dir, const char *name, bool *has)
{
    char path[4096];
    TRY(path_look_dir(dir, has)); /* a link that leads nowhere has nothing */
    if (!*has)
        return STATUS_OK;
    TRY(path_format(path, sizeof path, "%s/%s", dir, name));
    return path_look(path, has);
}

enum status dir_list(const char *dir, const char *suffix, struct words *names)
{
    struct dirent **entry;
    enum status st = STATUS_OK;
    int n = scandir(dir, &entry, is_visible, by_bytes);
    if (n < 0)
        return status_fail(errno == ENOENT || errno == ENOTDIR ? STATUS_DATA : STATUS_IO,
                           "cannot open '%s': %s", dir, strerror(errno));
    for (int i = 0; i < n; i++) {
        if (st == STATUS_OK && text_ends_with(entry[i]->d_name, suffix))
            st = words_add(names, "%s", entry[i]->d_name);
        free(entry[i]);
    }
    free(entry);
    return st;
}

int fd_lock(int fd, int wait_s)
{
    const struct timespec pause = {.tv_nsec = 100000000};
    uint64_t until_ns = clock_ns() + (uint64_t)wait_s * 1000000000u;
    while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EINTR && errno != EWOULDBLOCK)
            return -1;
        if (errno == EWOULDBLOCK && (clock_ns() >= until_ns || stop_requested()))
            return -1;
        nanosleep(&pause, NULL);
    }
    return 0;
}

enum status dir_lock(const char *dir, const char *who, int wait_s, int *fd)
{
    *fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*fd < 0)
        return status_fail(STATUS_IO, "cannot open '%s': %s", dir, strerror(errno));
    if (fd_lock(*fd, wait_s) == 0)
        return STATUS_OK;
    bool held = errno == EWOULDBLOCK;
    const char *why = strerror(errno);
    fd_close(fd);
    TRY(stop_check());
    if (held)
        return status_fail(STATUS_IO, "another '%s' is using '%s'; wait until it has finished", who,
                           dir);
    return status_fail(STATUS_IO, "cannot lock '%s': %s", dir, why);
}

enum status file_remove(const char *path)
{
    if (unlink(path) == 0 || errno == ENOENT)
        return STATUS_OK;
    return status_fail(STATUS_IO, "cannot remove '%s': %s", path, strerror(errno));
}
