/* Reads the kernel's counters of storage. */
#include "telemetry/storage.h"

#include "base/file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

/* The longest line of /proc/diskstats and mountinfo that is read. */
enum { LINE_MAX_BYTES = 4096, SECTOR_BYTES = 512 };

/* storage_read also runs after a failure, whose message opening and reading must not replace. */
static FILE *proc_open(const char *proc, const char *file)
{
    char path[4096];
    bool fits = snprintf(path, sizeof path, "%s/%s", proc, file) < (int)sizeof path;
    return fits ? fopen(path, "re") : NULL;
}

/* Finds a block device in /proc/diskstats: its name, and the bytes read from it. */
static bool device_find(const char *proc, unsigned major, unsigned minor, char name[64],
                        double *bytes)
{
    char line[LINE_MAX_BYTES];
    bool found = false;
    FILE *in = proc_open(proc, "diskstats");
    while (in && fgets(line, sizeof line, in)) {
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
    if (in)
        fclose(in);
    return found;
}

/* Finds the block device behind the mounted file system with the device number `device`. Btrfs,
 * for example, needs this: its device number differs from the number of its block device. */
static bool source_of(const char *proc, dev_t device, struct stat *source)
{
    char line[LINE_MAX_BYTES];
    bool found = false;
    FILE *in = proc_open(proc, "self/mountinfo");
    while (in && fgets(line, sizeof line, in)) {
        unsigned a, b;
        char path[LINE_MAX_BYTES];
        const char *rest = strstr(line, " - ");
        if (found || !rest || sscanf(line, "%*d %*d %u:%u", &a, &b) != 2 || a != major(device) ||
            b != minor(device))
            continue;
        found = sscanf(rest, " - %*s %4095s", path) == 1 && path[0] == '/' &&
                stat(path, source) == 0 && S_ISBLK(source->st_mode);
    }
    if (in)
        fclose(in);
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
    char path[4096], bytes[64], name[64];
    if (!*m->device)
        return r;
    if (snprintf(path, sizeof path, "%s/self/io", m->proc) < (int)sizeof path &&
        file_find_line(path, "read_bytes: ", bytes, sizeof bytes))
        r.process = strtod(bytes, NULL);
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
