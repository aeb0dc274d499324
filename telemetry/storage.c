/* Reads the kernel's counters of storage. */
#include "telemetry/storage.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* The longest line of /proc/diskstats and mountinfo that is read. */
enum { LINE_MAX_BYTES = 4096, SECTOR_BYTES = 512 };

/* A file of /proc that is read line by line. storage_read also runs after a failure, and must not
 * replace the failure's message. base/lines.h would replace it, and is therefore not used. */
struct proc_lines {
    int fd;
    size_t n; /* bytes in `text` */
    char text[2 * LINE_MAX_BYTES];
};

static bool proc_lines_open(struct proc_lines *l, const char *proc, const char *file)
{
    char path[4096];
    l->n = 0;
    bool fits = snprintf(path, sizeof path, "%s/%s", proc, file) < (int)sizeof path;
    l->fd = fits ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    return l->fd >= 0;
}

/* Reads the next line; a line that is too long is cut. At the end of the file, closes the file and
 * returns false. */
static bool proc_lines_next(struct proc_lines *l, char line[LINE_MAX_BYTES])
{
    char *end;
    while (!(end = memchr(l->text, '\n', l->n)) && l->n < sizeof l->text) {
        ssize_t got = read(l->fd, l->text + l->n, sizeof l->text - l->n);
        if (got <= 0) {
            close(l->fd);
            return false;
        }
        l->n += (size_t)got;
    }
    size_t size = end ? (size_t)(end - l->text) : l->n, used = end ? size + 1 : size;
    size_t kept = size < LINE_MAX_BYTES ? size : LINE_MAX_BYTES - 1;
    memcpy(line, l->text, kept);
    line[kept] = '\0';
    l->n -= used;
    memmove(l->text, l->text + used, l->n);
    return true;
}

/* Finds a block device in /proc/diskstats: its name, and the bytes read from it. */
static bool device_find(const char *proc, unsigned major, unsigned minor, char name[64],
                        double *bytes)
{
    struct proc_lines l;
    char line[LINE_MAX_BYTES];
    bool found = false;
    if (!proc_lines_open(&l, proc, "diskstats"))
        return false;
    while (proc_lines_next(&l, line)) {
        unsigned a, b;
        unsigned long long sectors;
        char text[64];
        if (sscanf(line, "%u %u %63s %*s %*s %llu", &a, &b, text, &sectors) != 4 || a != major ||
            b != minor)
            continue;
        memcpy(name, text, sizeof text);
        *bytes = (double)sectors * SECTOR_BYTES;
        found = true;
    }
    return found;
}

/* Finds the block device behind the mounted file system with the device number `device`. Btrfs,
 * for example, needs this: its device number differs from the number of its block device. */
static bool source_of(const char *proc, dev_t device, struct stat *source)
{
    struct proc_lines l;
    char line[LINE_MAX_BYTES];
    bool found = false;
    if (!proc_lines_open(&l, proc, "self/mountinfo"))
        return false;
    while (proc_lines_next(&l, line)) {
        unsigned a, b;
        char path[LINE_MAX_BYTES];
        const char *rest = strstr(line, " - ");
        if (found || !rest || sscanf(line, "%*d %*d %u:%u", &a, &b) != 2 || a != major(device) ||
            b != minor(device))
            continue;
        found = sscanf(rest, " - %*s %4095s", path) == 1 && path[0] == '/' &&
                stat(path, source) == 0 && S_ISBLK(source->st_mode);
    }
    return found;
}

void storage_open(struct storage_meter *m, const char *path, const char *proc)
{
    struct stat folder, source;
    double bytes;
    *m = (struct storage_meter){.proc = proc ? proc : "/proc"};
    if (!path || stat(path, &folder) != 0)
        return;
    m->major = major(folder.st_dev);
    m->minor = minor(folder.st_dev);
    if (device_find(m->proc, m->major, m->minor, m->device, &bytes) ||
        !source_of(m->proc, folder.st_dev, &source))
        return;
    m->major = major(source.st_rdev);
    m->minor = minor(source.st_rdev);
    if (!device_find(m->proc, m->major, m->minor, m->device, &bytes))
        m->device[0] = '\0';
}

struct storage_bytes storage_read(const struct storage_meter *m)
{
    struct storage_bytes r = {.process = NAN, .device = NAN};
    struct proc_lines l;
    char line[LINE_MAX_BYTES], name[64];
    unsigned long long bytes;
    if (!*m->device)
        return r;
    if (proc_lines_open(&l, m->proc, "self/io"))
        while (proc_lines_next(&l, line))
            if (sscanf(line, "read_bytes: %llu", &bytes) == 1)
                r.process = (double)bytes;
    if (!device_find(m->proc, m->major, m->minor, name, &r.device))
        r.device = NAN;
    return r;
}

struct storage_bytes storage_since(const struct storage_meter *m, struct storage_bytes before)
{
    struct storage_bytes now = storage_read(m);
    return (struct storage_bytes){.process = now.process - before.process,
                                  .device = now.device - before.device};
}

double storage_cached_percent(double fetched, double read)
{
    return read > 0 && isfinite(fetched) ? fmax(0, 100 * (1 - fetched / read)) : NAN;
}
