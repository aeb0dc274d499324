/* Facts about this machine and process. */
#include "results/environment.h"

#include "base/host.h"
#include "config.h"
#include "results/commit.h"
#include "results/text.h"

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
    static const char *const names[] = {
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
        "WORLD_SIZE",
    };
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
    struct timespec now;
    struct tm utc;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    strftime(out, ENVIRONMENT_TIME_MAX, "%Y-%m-%dT%H:%M:%SZ", &utc);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* The first line of a small system file, without its newline; false where there is none. */
static bool read_line(const char *path, char *out, int size)
{
    FILE *in = fopen(path, "r");
    if (!in)
        return false;
    bool got = fgets(out, size, in) != NULL;
    fclose(in);
    if (got)
        out[strcspn(out, "\n")] = '\0';
    return got && out[0] != '\0';
}

/* A setter that refuses no value but NULL: memory ran out. */
static bool set_text(json_t *object, const char *key, const char *text)
{
    return json_object_set_new(object, key, text_json(text)) == 0;
}

/* How many CPUs come first in their own list of siblings: as many as there are groups. 0 where the
 * system does not say. */
static int count_groups(const char *list_name)
{
    int groups = 0;
    long n = sysconf(_SC_NPROCESSORS_CONF);
    for (long i = 0; i < n; i++) {
        char path[128], line[256];
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%ld/topology/%s", i, list_name);
        if (read_line(path, line, sizeof line) && strtol(line, NULL, 10) == i)
            groups++;
    }
    return groups;
}

static bool set_count(json_t *object, const char *key, long long n)
{
    return n <= 0 || json_object_set_new(object, key, json_integer(n)) == 0;
}

static bool add_cpu(json_t *host)
{
    char line[256];
    json_t *cpu = json_object();
    host_cpu_name(line, sizeof line);
    bool ok = set_text(cpu, "model", line);
    ok = set_count(cpu, "sockets", count_groups("core_siblings_list")) && ok;
    ok = set_count(cpu, "cores", count_groups("thread_siblings_list")) && ok;
    ok = set_count(cpu, "threads", sysconf(_SC_NPROCESSORS_ONLN)) && ok;
    ok = set_count(cpu, "usable", host_cores()) && ok;
    double quota, period;
    if (read_line("/sys/fs/cgroup/cpu.max", line, sizeof line) &&
        sscanf(line, "%lf %lf", &quota, &period) == 2 && period > 0)
        ok = json_object_set_new(cpu, "quota", json_real(quota / period)) == 0 && ok;
    if (read_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", line, sizeof line))
        ok = set_text(cpu, "governor", line) && ok;
    return json_object_set_new(host, "cpu", cpu) == 0 && ok;
}

/* The name a distribution gives itself, from PRETTY_NAME="..." of os-release. */
static bool add_os(json_t *host)
{
    char line[256];
    bool ok = true;
    FILE *in = fopen("/etc/os-release", "r");
    while (in && fgets(line, sizeof line, in)) {
        if (strncmp(line, "PRETTY_NAME=", 12) != 0)
            continue;
        char *name = line + 12 + (line[12] == '"');
        name[strcspn(name, "\"\n")] = '\0';
        ok = set_text(host, "os", name);
        break;
    }
    if (in)
        fclose(in);
    return ok;
}

static bool add_variables(json_t *host)
{
    json_t *variables = json_object();
    bool ok = variables != NULL;
    for (char **v = environ; *v && ok; v++) {
        char name[64];
        size_t len = strcspn(*v, "=");
        if (len >= sizeof name || (*v)[len] != '=')
            continue;
        memcpy(name, *v, len);
        name[len] = '\0';
        if (environment_allowed(name))
            ok = set_text(variables, name, *v + len + 1);
    }
    return json_object_set_new(host, "environment", variables) == 0 && ok;
}

bool environment_program(json_t *object)
{
    return set_text(object, "version", AMPSCALE_VERSION) &&
           set_text(object, "build", AMPSCALE_BUILD_TYPE) &&
           (!AMPSCALE_COMMIT[0] || set_text(object, "commit", AMPSCALE_COMMIT));
}

enum status environment_describe(json_t **out)
{
    json_t *host = json_object();
    struct utsname u;
    bool ok = uname(&u) == 0 && set_text(host, "hostname", u.nodename) &&
              set_text(host, "kernel", u.release) && set_text(host, "machine", u.machine);
    long long memory = (long long)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    ok = ok && add_os(host) && add_cpu(host) && set_count(host, "memory_bytes", memory) &&
         add_variables(host);
    if (!ok) {
        json_decref(host);
        return status_fail(STATUS_OOM, "no memory to describe this machine");
    }
    *out = host;
    return STATUS_OK;
}
