/* Opens the files of a data set, and knows images by their names. */
#include "input/image_files.h"

#include "base/array.h"
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <unistd.h>

bool image_name_is(const char *name)
{
    static const char *const extensions[] = {".jpg", ".jpeg", ".png",  ".ppm", ".bmp",
                                             ".pgm", ".tif",  ".tiff", ".webp"};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof extensions / sizeof *extensions; i++)
        if (strcasecmp(dot, extensions[i]) == 0)
            return true;
    return false;
}

int image_name_compare(const char *a, const char *b)
{
    const char *na = strrchr(a, '/'), *nb = strrchr(b, '/');
    size_t la = (size_t)(na - a), lb = (size_t)(nb - b);
    int order = memcmp(a, b, la < lb ? la : lb);
    if (order != 0 || la != lb)
        return order != 0 ? order : (la > lb) - (la < lb);
    return strcmp(na, nb);
}

enum { OTHER_FILES = 256 }; /* number of files that the rest of the process may open */

/* Raises the process's soft limit of open files if it is below the sum of the files open now, `n`
 * archives and OTHER_FILES. The files that are open now are counted, because they may belong to the
 * run's other data set. */
static enum status make_space(int n)
{
    struct rlimit limit;
    /* the lowest free descriptor, which is close to the number of open files */
    int lowest = dup(0);
    rlim_t want = (rlim_t)n + OTHER_FILES + (rlim_t)(lowest > 0 ? lowest : 0);
    fd_close(&lowest);
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= want)
        return STATUS_OK;
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = want;
    if (want <= limit.rlim_max && setrlimit(RLIMIT_NOFILE, &limit) == 0)
        return STATUS_OK;
    return status_fail(STATUS_USAGE,
                       "%d tar archives need %llu open files, and the limit is %llu; raise it with "
                       "'ulimit -n', or pack the images into fewer archives",
                       n, (unsigned long long)want, (unsigned long long)before);
}

static enum status open_shards(struct image_files *f)
{
    const struct dataset *data = f->data;
    TRY(make_space(data->shards));
    TRY(array_new(&f->shard, data->shards));
    for (int i = 0; i < data->shards; i++)
        f->shard[i] = -1;
    for (int i = 0; i < data->shards; i++) {
        f->shard[i] = open(data->shard[i], O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (f->shard[i] < 0)
            return status_fail(STATUS_IO, "cannot open '%s': %s", data->shard[i], strerror(errno));
    }
    return STATUS_OK;
}

enum status image_files_open(const struct dataset *data, struct image_files *f)
{
    *f = (struct image_files){.data = data, .folder = -1};
    if (data->shards > 0) {
        enum status st = open_shards(f);
        if (st != STATUS_OK)
            image_files_close(f);
        return st;
    }
    f->folder = open(data->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return f->folder >= 0
               ? STATUS_OK
               : status_fail(STATUS_IO, "cannot open folder '%s': %s", data->root, strerror(errno));
}

void image_files_close(struct image_files *f)
{
    if (!f->data)
        return;
    fd_close(&f->folder);
    for (int i = 0; f->shard && i < f->data->shards; i++)
        fd_close(&f->shard[i]);
    free(f->shard);
    *f = (struct image_files){0};
}
