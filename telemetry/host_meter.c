/* The host's processors, from /sys.
 *
 * Energy: powercap's domains "package-N" (Intel's RAPL, and AMD's under the same driver). Each
 * domain has a counter in microjoules, which wraps around at the value in max_energy_range_uj. The
 * counters include the energy of all processes. On most systems only root can read them.
 * Temperature: the maximum over the coretemp, k10temp and zenpower devices; the first sensor of
 * each device measures a package.
 * Clock: the mean over the processors for which cpufreq reports a clock. */
#include "base/json.h"
#include "telemetry/meter.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PACKAGES_MAX = 16, TEXT_MAX = 64 };

struct package {
    char path[4096]; /* path of its energy_uj */
    double range_uj; /* 0: not known */
    double last_uj;
    double joules; /* since the meter was opened */
};

struct host_meter {
    struct meter base;
    char sysfs[4096];
    int n_packages;
    struct package package[PACKAGES_MAX];
    double joules_then; /* energy at the previous sample, to compute power */
    uint64_t then_ns;   /* time of the previous sample; 0: no sample yet */
};

/* Returns the whole number >= 0 that the file contains; NaN if it contains no such number. */
static double read_number(const char *path)
{
    char text[TEXT_MAX], *end;
    if (!file_first_line(path, text, sizeof text) || text[0] < '0' || text[0] > '9')
        return NAN;
    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    return errno == 0 && *end == '\0' ? (double)v : NAN;
}

/* Calls look() with the path of `file` in each folder "<sysfs>/<dir>/<prefix>...". */
static void each(struct host_meter *m, const char *dir, const char *prefix, const char *file,
                 void (*look)(struct host_meter *m, const char *path, void *context), void *context)
{
    char path[4096];
    if (snprintf(path, sizeof path, "%s/%s", m->sysfs, dir) >= (int)sizeof path)
        return;
    DIR *d = opendir(path);
    if (!d)
        return;
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
        if (e->d_name[0] == '.' || strncmp(e->d_name, prefix, strlen(prefix)) != 0)
            continue;
        int size = snprintf(path, sizeof path, "%s/%s/%s/%s", m->sysfs, dir, e->d_name, file);
        if (size < (int)sizeof path)
            look(m, path, context);
    }
    closedir(d);
}

/* Sets `out` to the path of file `name` in the folder of `path`. Returns false if the path would be
 * too long. */
static bool sibling(const char *path, const char *name, char out[4096])
{
    int folder = (int)(strrchr(path, '/') - path);
    return snprintf(out, 4096, "%.*s/%s", folder, path, name) < 4096;
}

/* Adds a domain only if it is a whole package. Adding the package's parts (cores, memory) or psys,
 * which includes the package, would count energy twice. */
static void look_package(struct host_meter *m, const char *name_path, void *context)
{
    char name[TEXT_MAX], range[4096];
    (void)context;
    if (m->n_packages == PACKAGES_MAX || !file_first_line(name_path, name, sizeof name) ||
        strncmp(name, "package-", 8) != 0)
        return;
    struct package *p = &m->package[m->n_packages];
    if (!sibling(name_path, "energy_uj", p->path) ||
        !sibling(name_path, "max_energy_range_uj", range))
        return;
    p->last_uj = read_number(p->path);
    p->range_uj = read_number(range);
    if (!isfinite(p->range_uj))
        p->range_uj = 0;
    m->n_packages += isfinite(p->last_uj);
}

/* *context is the highest temperature so far. Raises it to the temperature of this device, if the
 * device measures processors. */
static void look_temperature(struct host_meter *m, const char *name_path, void *context)
{
    static const char *const known[] = {"coretemp", "k10temp", "zenpower"};
    char name[TEXT_MAX], input[4096];
    double *hottest = context;
    (void)m;
    if (!file_first_line(name_path, name, sizeof name) || !sibling(name_path, "temp1_input", input))
        return;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(name, known[i]) == 0)
            *hottest = fmax(*hottest, read_number(input) * 1e-3); /* fmax ignores a NaN */
}

struct mean {
    double sum;
    int n;
};

static void look_clock(struct host_meter *m, const char *path, void *context)
{
    struct mean *mean = context;
    double khz = read_number(path);
    (void)m;
    if (!isfinite(khz))
        return;
    mean->sum += khz * 1e-3;
    mean->n++;
}

static double temperature(struct host_meter *m)
{
    double hottest = NAN;
    each(m, "class/hwmon", "hwmon", "name", look_temperature, &hottest);
    return hottest;
}

static double clock_mhz(struct host_meter *m)
{
    struct mean mean = {0};
    each(m, "devices/system/cpu", "cpu", "cpufreq/scaling_cur_freq", look_clock, &mean);
    return mean.n ? mean.sum / mean.n : NAN;
}

/* Returns the joules of the package since the meter was opened. If the counter has decreased,
 * assumes that it wrapped around once since the previous reading. A counter
 * needs at least a minute to wrap around. */
static double package_joules(struct package *p)
{
    double now = read_number(p->path);
    double used = now - p->last_uj;
    if (used < 0)
        used += p->range_uj;
    if (!(used >= 0)) /* the counter is unreadable, or has decreased and its range is not known */
        return NAN;
    p->last_uj = now;
    p->joules += used * 1e-6;
    return p->joules;
}

static double host_joules(struct meter *base, int i)
{
    struct host_meter *m = (struct host_meter *)base;
    double sum = 0;
    (void)i;
    for (int k = 0; k < m->n_packages; k++)
        sum += package_joules(&m->package[k]);
    return m->n_packages ? sum : NAN;
}

static void host_sample(struct meter *base, int i, struct telemetry_record *row)
{
    struct host_meter *m = (struct host_meter *)base;
    uint64_t now = clock_ns();
    row->clock_mhz = clock_mhz(m);
    row->temperature_c = temperature(m);
    row->energy_j = host_joules(base, i);
    if (m->then_ns && now > m->then_ns)
        row->power_w = (row->energy_j - m->joules_then) / ((double)(now - m->then_ns) * 1e-9);
    m->joules_then = row->energy_j;
    m->then_ns = now;
}

/* The model of the processor is not among the facts, because run.json has it under "cpu". */
static json_t *host_facts(struct meter *base, int i)
{
    const struct host_meter *m = (const struct host_meter *)base;
    (void)i;
    return json_new("{s:s, s:i}", "name", "processor packages", "packages_with_energy",
                    m->n_packages);
}

static void host_close(struct meter *base)
{
    free((struct host_meter *)base);
}

enum status host_meter_open(const char *sysfs, struct meter **out)
{
    enum status st;
    struct host_meter *m;
    TRY(array_new(&m, 1));
    m->base = (struct meter){.source = "sysfs",
                             .n = 1,
                             .sample = host_sample,
                             .joules = host_joules,
                             .facts = host_facts,
                             .close = host_close};
    CHECK(path_format(m->sysfs, sizeof m->sysfs, "%s", sysfs));
    each(m, "class/powercap", "", "name", look_package, NULL);
    if (m->n_packages == 0 && !isfinite(temperature(m)) && !isfinite(clock_mhz(m)))
        CHECK(status_fail(STATUS_UNSUPPORTED,
                          "'%s' has no energy, temperature or clock of a processor", sysfs));
    *out = &m->base;
    return STATUS_OK;
done:
    free(m);
    return st;
}
