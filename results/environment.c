/* Collects facts about this machine and process. */
#include "results/environment.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/host.h"
#include "base/json.h"
#include "base/text.h"
#include "config.h"
#include "results/version.h"

#include <errno.h>
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

bool environment_allowed(const char *name)
{
    static const char *const prefixes[] = {
        "OMP_", "GOMP_", "KMP_", "MKL_", "DNNL_", "ONEDNN_", "NCCL_", "CUDNN_", "OMPI_COMM_WORLD_",
    };
    static const char *const names[] = {"AMPSCALE_CUDNN_WITHOUT",
                                        "CUDA_VISIBLE_DEVICES",
                                        "JOB_COMPLETION_INDEX",
                                        "LOCAL_RANK",
                                        "LOCAL_WORLD_SIZE",
                                        "NVIDIA_TF32_OVERRIDE",
                                        "PMI_RANK",
                                        "PMI_SIZE",
                                        "RANK",
                                        "SLURM_CPUS_PER_TASK",
                                        "SLURM_JOB_ID",
                                        "SLURM_JOB_NODELIST",
                                        "SLURM_JOB_PARTITION",
                                        "SLURM_LOCALID",
                                        "SLURM_NNODES",
                                        "SLURM_NODEID",
                                        "SLURM_NTASKS",
                                        "SLURM_PROCID",
                                        "WORLD_SIZE"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

double environment_time(char out[ENVIRONMENT_TIME_MAX])
{
    struct tm utc;
    double now_s = clock_wall_s();
    time_t seconds = (time_t)now_s;
    gmtime_r(&seconds, &utc);
    strftime(out, ENVIRONMENT_TIME_MAX, "%Y-%m-%dT%H:%M:%SZ", &utc);
    return now_s;
}

/* Returns the number of groups of CPUs (sockets or cores). Counts the CPUs that are the first in
 * their group's list. Returns 0 if the system has no such lists. */
static int count_groups(const char *list_name)
{
    int groups = 0;
    long n = sysconf(_SC_NPROCESSORS_CONF);
    for (long i = 0; i < n; i++) {
        char path[128], line[256];
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%ld/topology/%s", i, list_name);
        if (file_first_line(path, line, sizeof line) && strtol(line, NULL, 10) == i)
            groups++;
    }
    return groups;
}

/* Adds a number, unless it is not known (0 or less). */
static void put_count(json_t *object, const char *key, long long n)
{
    if (n > 0)
        json_put(object, key, json_integer(n));
}

static void fill_cpu(json_t *cpu)
{
    char line[256];
    double quota = host_quota("");
    host_cpu_name(line, sizeof line);
    json_put(cpu, "model", text_json(line));
    put_count(cpu, "sockets", count_groups("core_siblings_list"));
    put_count(cpu, "cores", count_groups("thread_siblings_list"));
    put_count(cpu, "threads", sysconf(_SC_NPROCESSORS_ONLN));
    put_count(cpu, "usable", host_affinity());
    json_put_known(cpu, "quota", quota);
    if (file_first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", line, sizeof line))
        json_put(cpu, "governor", text_json(line));
}

/* Adds the name of the distribution, from PRETTY_NAME="..." of os-release. */
static void put_os(json_t *host)
{
    char line[256];
    if (!file_find_line("/etc/os-release", "PRETTY_NAME=", line, sizeof line))
        return;
    char *name = line + (line[0] == '"');
    name[strcspn(name, "\"")] = '\0';
    json_put(host, "os", text_json(name));
}

static void fill_variables(json_t *variables)
{
    for (char **v = environ; *v; v++) {
        char name[64];
        size_t len = strcspn(*v, "=");
        if (len >= sizeof name || (*v)[len] != '=')
            continue;
        text_clean(name, len + 1, *v);
        if (environment_allowed(name))
            json_put(variables, name, text_json(*v + len + 1));
    }
}

const char *environment_version(void)
{
    return BUILD_VERSION;
}

void environment_program(json_t *object)
{
    json_put(object, "version", text_json(BUILD_VERSION));
    json_put(object, "build", text_json(AMPSCALE_BUILD_TYPE));
    if (BUILD_COMMIT[0])
        json_put(object, "commit", text_json(BUILD_COMMIT));
}

/* Whether members that both have differ: a run of one process has no MPI among its libraries. */
static bool differs(const json_t *a, const json_t *b)
{
    const char *key;
    json_t *member;
    bool found = false;
    json_object_foreach((json_t *)a, key, member)
    {
        found = found || differs(member, json_object_get(b, key));
    }
    return found || (a && b && !json_is_object(a) && !json_equal(a, b));
}

/* A member of a record, or of its processor. */
static const json_t *member(const json_t *record, const char *key)
{
    const json_t *cpu = json_object_get(json_object_get(record, "host"), "cpu");
    const json_t *of_cpu = json_object_get(cpu, key);
    return of_cpu ? of_cpu : json_object_get(record, key);
}

/* Length of a device's text without ", 2 threads" at its end. */
static size_t device_length(const char *text)
{
    const char *comma = strrchr(text, ','), *threads = comma ? strstr(comma, " thread") : NULL;
    return threads ? (size_t)(comma - text) : strlen(text);
}

enum status environment_joins(const json_t *record, const json_t *other, bool exact)
{
    enum { EXACT = 3 };
    static const char *const keys[] = {"version", "build",   "commit", "libraries",
                                       "model",   "sockets", "cores",  "threads",
                                       "device",  "usable",  "quota"};
    const char *mine = json_text_at(record, "device"), *theirs = json_text_at(other, "device");
    size_t n = device_length(mine);
    if (*mine && *theirs && (device_length(theirs) != n || strncmp(mine, theirs, n) != 0))
        return status_fail(STATUS_DATA, "it is of another device: '%s', not '%s'", theirs, mine);
    for (size_t i = 0; i < sizeof keys / sizeof *keys - (exact ? 0 : EXACT); i++) {
        const json_t *a = member(record, keys[i]), *b = member(other, keys[i]);
        /* Without a quota, a processor's record has none. */
        bool quota = strcmp(keys[i], "quota") == 0 && member(record, "model") &&
                     member(other, "model") && !a != !b;
        if (quota || differs(a, b))
            return status_fail(STATUS_DATA, "it is of another program or machine: '%s' differs",
                               keys[i]);
    }
    return STATUS_OK;
}

enum status environment_joins_own(const json_t *record, bool here, bool exact)
{
    json_t *own = json_new("{s:o*}", "host", here ? environment_describe() : NULL);
    environment_program(own);
    enum status st = environment_joins(record, own, exact);
    json_decref(own);
    return st;
}

void environment_gpus(const char *field, char *out, size_t size)
{
    glob_t found = {0};
    char line[256];
    *out = '\0';
    (void)glob("/proc/driver/nvidia/gpus/*/information", 0, NULL, &found);
    for (size_t i = 0; i < found.gl_pathc; i++)
        if (file_find_line(found.gl_pathv[i], field, line, sizeof line))
            text_join(out, size, ", ", "%s", line + strspn(line, " \t"));
    globfree(&found);
}

json_t *environment_describe(void)
{
    struct utsname u = {0};
    (void)uname(&u);
    json_t *out = json_object();
    json_put(out, "hostname", text_json(u.nodename));
    json_put(out, "kernel", text_json(u.release));
    json_put(out, "machine", text_json(u.machine));
    put_os(out);
    json_put(out, "cpu", json_object());
    fill_cpu(json_object_get(out, "cpu"));
    put_count(out, "memory_bytes", (long long)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE));
    json_put(out, "environment", json_object());
    fill_variables(json_object_get(out, "environment"));
    return out;
}
