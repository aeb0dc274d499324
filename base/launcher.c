/* Reads, sets and removes the variables of launchers. */
#include "base/launcher.h"

#include "base/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* The variables of each launcher, in order of precedence, innermost launcher first. NULL: the
 * launcher has no such variable. */
static const struct launcher {
    const char *rank, *size;
    const char *local_rank, *local_size;
    const char *required; /* another variable that this launcher always sets; NULL: none */
    bool mpi;
} launchers[] = {
    /* Open MPI */
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", NULL, true},
    /* MPICH's Hydra, and srun --mpi=pmi2; srun does not set the two MPI_LOCAL... variables */
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", NULL, true},
    /* MVAPICH */
    {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK",
     "MV2_COMM_WORLD_LOCAL_SIZE", NULL, false},
    /* torchrun */
    {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "LOCAL_RANK", false},
    /* srun. In a batch script SLURM_PROCID is set too, but SLURM_STEP_NUM_TASKS is not. */
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", NULL, NULL, false},
    /* any other launcher that uses PMIx */
    {"PMIX_RANK", NULL, NULL, NULL, NULL, true},
    /* a Kubernetes scheduler that starts one process per pod */
    {"RANK", "WORLD_SIZE", NULL, NULL, NULL, false},
};
enum { LAUNCHERS = sizeof launchers / sizeof *launchers };

/* Prefixes of the variables from which a process reads its job or its rank. */
static const char *const rank_prefixes[] = {
    "OMPI_",     "PMIX_",         "PMI_",           "PRTE_",       "HYD",   "MPIR_",
    "MPI_LOCAL", "SLURM_PROCID=", "SLURM_LOCALID=", "LOCAL_RANK=", "RANK=", "WORLD_SIZE=",
};

/* Reads a whole number from `min` to `max`. A character of `ends` or the text's end must follow the
 * number; *text then points to that place. */
static bool read_number(const char **text, int min, int max, const char *ends, int *out)
{
    char *end;
    errno = 0;
    long v = strtol(*text, &end, 10);
    if (end == *text || errno != 0 || v < min || v > max || (*end && !strchr(ends, *end)))
        return false;
    *out = (int)v;
    *text = end;
    return true;
}

/* Reads a variable; *out is unchanged if the variable is not set. */
static enum status read_variable(const char *name, int min, int *out)
{
    const char *text = name ? getenv(name) : NULL, *rest = text;
    if (!text || read_number(&rest, min, LAUNCHER_RANKS_MAX, "", out))
        return STATUS_OK;
    return status_fail(STATUS_USAGE, "the launcher sets %s='%s': not a whole number from %d to %d",
                       name, text, min, LAUNCHER_RANKS_MAX);
}

static bool has_variable(const char *name)
{
    return !name || getenv(name);
}

/* The number of tasks on this process's node according to SLURM_STEP_TASKS_PER_NODE; 0: not known.
 * "4(x2),3" means 4 tasks on each of nodes 0 and 1, and 3 on node 2. */
static int slurm_local_size(void)
{
    const char *text = getenv("SLURM_STEP_TASKS_PER_NODE"), *node_text = getenv("SLURM_NODEID");
    int node = 0;
    if (node_text && !read_number(&node_text, 0, LAUNCHER_RANKS_MAX, "", &node))
        return 0;
    for (int nodes = 0; text && *text; text++) {
        int tasks, times = 1;
        if (!read_number(&text, 1, LAUNCHER_RANKS_MAX, "(,", &tasks))
            return 0;
        if (strncmp(text, "(x", 2) == 0) {
            text += 2;
            if (!read_number(&text, 1, LAUNCHER_RANKS_MAX, ")", &times))
                return 0;
            text++;
        }
        if (times > node - nodes)
            return tasks;
        nodes += times;
        if (*text != ',')
            return 0;
    }
    return 0;
}

/* Takes the local rank from the first launcher in the table that sets a local rank. This may be
 * another launcher than the one whose rank is used: srun --mpi=pmi2 sets PMI_RANK, but gives the
 * local rank only in SLURM_LOCALID. */
static enum status find_local(struct launcher_place *place)
{
    for (int i = 0; i < LAUNCHERS; i++) {
        const struct launcher *l = &launchers[i];
        if (!l->local_rank || !getenv(l->local_rank))
            continue;
        TRY(read_variable(l->local_rank, 0, &place->local_rank));
        if (l->local_size)
            TRY(read_variable(l->local_size, 1, &place->local_size));
        else
            place->local_size = slurm_local_size();
        if (place->local_size <= place->local_rank)
            place->local_size = place->local_rank + 1;
        break;
    }
    return STATUS_OK;
}

enum status launcher_place_find(struct launcher_place *place)
{
    *place = (struct launcher_place){0};
    for (int i = 0; i < LAUNCHERS; i++) {
        const struct launcher *l = &launchers[i];
        if (!getenv(l->rank) || !has_variable(l->size) || !has_variable(l->required))
            continue;
        TRY(read_variable(l->size, 1, &place->size));
        TRY(read_variable(l->rank, 0, &place->rank));
        if (place->size > 0 && place->rank >= place->size)
            return status_fail(
                STATUS_USAGE,
                "the launcher sets %s=%d and %s=%d: the rank must be below the number of ranks",
                l->rank, place->rank, l->size, place->size);
        return find_local(place);
    }
    place->rank = -1;
    return status_fail(STATUS_USAGE, "no launcher names the rank of this process; set RANK and "
                                     "WORLD_SIZE, or start it with torchrun, srun or mpirun");
}

bool launcher_address(char address[LAUNCHER_ADDRESS_MAX])
{
    const char *host = getenv("MASTER_ADDR"), *port_text = getenv("MASTER_PORT");
    const char *agent = getenv("TORCHELASTIC_USE_AGENT_STORE"), *rest = port_text;
    int port;
    address[0] = '\0';
    if (!host || !*host || !port_text || !read_number(&rest, 1, 65535, "", &port))
        return false;
    if (agent && strcasecmp(agent, "true") == 0)
        port += port < 65535 ? 1 : -1;
    bool bare = strchr(host, ':') && *host != '[';
    return text_append(address, LAUNCHER_ADDRESS_MAX, bare ? "[%s]:%d" : "%s:%d", host, port);
}

bool launcher_is_local_rank(void)
{
    return getenv("RANK") && getenv("LOCAL_RANK");
}

static bool set_number(const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    return setenv(name, text, 1) == 0;
}

enum status launcher_export(const struct launcher_place *place, const char *address)
{
    char host[LAUNCHER_ADDRESS_MAX];
    const char *colon = strrchr(address, ':');
    snprintf(host, sizeof host, "%.*s", colon ? (int)(colon - address) : 0, address);
    /* Removes the variables of other launchers, because this process or its children would read
     * another rank from them. */
    char name[256];
    for (char **v = environ; *v;) {
        size_t n = strcspn(*v, "=");
        if (!launcher_makes_rank(*v) || n >= sizeof name) {
            v++;
            continue;
        }
        memcpy(name, *v, n);
        name[n] = '\0';
        unsetenv(name); /* moves the later variables */
    }
    unsetenv("TORCHELASTIC_USE_AGENT_STORE");
    if (set_number("RANK", place->rank) && set_number("WORLD_SIZE", place->size) &&
        set_number("LOCAL_RANK", place->local_rank) &&
        set_number("LOCAL_WORLD_SIZE", place->local_size) && setenv("MASTER_ADDR", host, 1) == 0 &&
        setenv("MASTER_PORT", colon ? colon + 1 : "", 1) == 0)
        return STATUS_OK;
    return status_fail(STATUS_OOM, "no memory for the environment");
}

bool launcher_job(char job[LAUNCHER_JOB_MAX])
{
    static const char *const names[] = {"SLURM_JOB_ID", "SLURM_STEP_ID", "TORCHELASTIC_RUN_ID",
                                        "PMIX_NAMESPACE"};
    const char *given = getenv("AMPSCALE_JOB");
    job[0] = '\0';
    if (given)
        return text_append(job, LAUNCHER_JOB_MAX, "%s", given);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (getenv(names[i]))
            text_join(job, LAUNCHER_JOB_MAX, " ", "%s=%s", names[i], getenv(names[i]));
    return *job != '\0';
}

bool launcher_is_mpi(void)
{
    for (int i = 0; i < LAUNCHERS; i++)
        if (launchers[i].mpi && getenv(launchers[i].rank))
            return true;
    return false;
}

bool launcher_makes_rank(const char *variable)
{
    if (strncmp(variable, "OMPI_ALLOW_", 11) == 0) /* the user's permission to run as root */
        return false;
    for (size_t i = 0; i < sizeof rank_prefixes / sizeof *rank_prefixes; i++)
        if (strncmp(variable, rank_prefixes[i], strlen(rank_prefixes[i])) == 0)
            return true;
    return false;
}

bool launcher_has_hosts(void)
{
    static const char *const names[] = {"SLURM_JOB_ID", "SLURM_JOBID", "PBS_JOBID",  "PBS_NODEFILE",
                                        "LSB_JOBID",    "PE_HOSTFILE", "FLUX_JOB_ID"};
    const char *nodes = getenv("SLURM_JOB_NUM_NODES");
    if (nodes && strcmp(nodes, "1") == 0)
        return false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (getenv(names[i]))
            return true;
    return false;
}

int launcher_slurm_tasks(void)
{
    const char *text = getenv("SLURM_NTASKS");
    int n;
    return text && read_number(&text, 1, LAUNCHER_RANKS_MAX, "", &n) ? n : 0;
}
