/* Ranks from the environment, and CPUs in the order of sockets and cores. */
#include "launch/place.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *find(char *const *environment, const char *name)
{
    size_t n = strlen(name);
    for (; *environment; environment++)
        if (strncmp(*environment, name, n) == 0 && (*environment)[n] == '=')
            return *environment + n + 1;
    return NULL;
}

/* A whole number of at least `min`, which ends with one of `ends`; false leaves *out. */
static bool read_number(const char **text, long min, const char *ends, int *out)
{
    char *end;
    errno = 0;
    long v = strtol(*text, &end, 10);
    if (end == *text || errno != 0 || v < min || v > INT_MAX)
        return false;
    if (*end != '\0' && !strchr(ends, *end))
        return false;
    *out = (int)v;
    *text = end;
    return true;
}

static bool find_number(char *const *environment, const char *name, long min, int *out)
{
    const char *text = name ? find(environment, name) : NULL;
    return text && read_number(&text, min, "", out);
}

/* The tasks of node `node` in Slurm's "4(x2),3": 4 on nodes 0 and 1, 3 on node 2. */
static bool slurm_tasks(const char *text, int node, int *tasks)
{
    for (int nodes = 0; *text; text++) {
        int times = 1;
        if (!read_number(&text, 1, "(,", tasks))
            return false;
        if (strncmp(text, "(x", 2) == 0) {
            text += 2;
            if (!read_number(&text, 1, ")", &times))
                return false;
            text++;
        }
        if (times > node - nodes)
            return true;
        nodes += times;
        if (*text != ',')
            return false;
    }
    return false;
}

static void read_slurm_size(char *const *environment, struct launch_place *place)
{
    const char *tasks = find(environment, "SLURM_STEP_TASKS_PER_NODE");
    int node = 0, size;
    if (!find_number(environment, "SLURM_NODEID", 0, &node))
        node = 0;
    if (tasks && slurm_tasks(tasks, node, &size))
        place->local_size = size;
}

enum status launch_place_read(char *const *environment, struct launch_place *place)
{
    static const struct {
        const char *rank, *local_rank, *local_size;
    } ways[] = {
        {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
        {"PMI_RANK", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
        {"PMIX_RANK", NULL, NULL},
        {"SLURM_PROCID", NULL, NULL},
    };
    *place = (struct launch_place){.local_size = 1};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        if (!find_number(environment, ways[i].rank, 0, &place->rank))
            continue;
        bool local = find_number(environment, ways[i].local_size, 1, &place->local_size) &&
                     find_number(environment, ways[i].local_rank, 0, &place->local_rank);
        if (!local && find_number(environment, "SLURM_LOCALID", 0, &place->local_rank))
            read_slurm_size(environment, place);
        if (place->local_rank >= place->local_size)
            place->local_size = place->local_rank + 1;
        return STATUS_OK;
    }
    return status_fail(STATUS_USAGE, "--as-rank: no rank is in the environment; "
                                     "mpirun, mpiexec and srun put it there");
}

int launch_place_share(const struct launch_place *place, int cores)
{
    return cores > place->local_size ? cores / place->local_size : 1;
}

struct cpu {
    int package, core, id;
};

/* The system's number for a CPU's `what`; 0 where it has none. */
static int topology(int cpu, const char *what)
{
    char path[128];
    int value = 0;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/%s", cpu, what);
    FILE *in = fopen(path, "r");
    if (!in)
        return 0;
    if (fscanf(in, "%9d", &value) != 1)
        value = 0;
    fclose(in);
    return value;
}

static int cpu_order(const void *a, const void *b)
{
    const struct cpu *x = a, *y = b;
    if (x->package != y->package)
        return x->package < y->package ? -1 : 1;
    if (x->core != y->core)
        return x->core < y->core ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

void launch_place_bind(const struct launch_place *place, cpu_set_t *set)
{
    struct cpu cpu[CPU_SETSIZE];
    int n = 0;
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, set))
            cpu[n++] = (struct cpu){topology(i, "physical_package_id"), topology(i, "core_id"), i};
    if (n == 0)
        return;
    qsort(cpu, (size_t)n, sizeof *cpu, cpu_order);
    int share = launch_place_share(place, n);
    CPU_ZERO(set);
    for (int i = 0; i < share; i++)
        CPU_SET(cpu[((int64_t)place->local_rank * share + i) % n].id, set);
}
