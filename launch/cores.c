/* Orders CPUs by socket and core. */
#include "launch/cores.h"

#include <stdio.h>
#include <stdlib.h>

int cores_share(const struct launcher_place *place, int cores)
{
    int ranks = place->local_size > 0 ? place->local_size : 1;
    return cores > ranks ? cores / ranks : 1;
}

struct cpu {
    int package, core, id;
};

/* Reads a number from a file in the CPU's folder in /sys; 0 if there is no such file. */
static int topology(int cpu, const char *file)
{
    char path[128];
    int value = 0;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/%s", cpu, file);
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

void cores_bind(const struct launcher_place *place, cpu_set_t *set)
{
    struct cpu cpu[CPU_SETSIZE];
    int n = 0;
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, set))
            cpu[n++] = (struct cpu){topology(i, "physical_package_id"), topology(i, "core_id"), i};
    if (n == 0)
        return;
    qsort(cpu, (size_t)n, sizeof *cpu, cpu_order);
    int share = cores_share(place, n);
    CPU_ZERO(set);
    for (int i = 0; i < share; i++)
        CPU_SET(cpu[((int64_t)place->local_rank * share + i) % n].id, set);
}
