/* Builds the command lines of mpirun, srun and ranks. */
#include "base/host.h"
#include "launch/parts.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

const char *launch_command_value(int argc, char *const *argv, const char *flag)
{
    const char *value = NULL;
    size_t n = strlen(flag);
    for (int i = 0; i < argc; i++) {
        if (strncmp(argv[i], flag, n) != 0)
            continue;
        if (argv[i][n] == '=')
            value = argv[i] + n + 1;
        else if (argv[i][n] == '\0' && i + 1 < argc)
            value = argv[++i];
    }
    return value;
}

/* Hydra exports the whole environment to other hosts. Open MPI exports only variables that its
 * command line names: those that change how a rank computes or whether it starts, or that belong to
 * this program. */
static enum status add_environment(struct words *w)
{
    static const char *const prefixes[] = {
        "OMP_",   "GOMP_", "KMP_", "MKL_", "DNNL_",     "ONEDNN_",      "NCCL_",
        "CUDNN_", "CUDA_", "UCX_", "FI_",  "AMPSCALE_", "NVIDIA_TF32_", "LD_LIBRARY_PATH=",
    };
    for (char **v = environ; *v; v++)
        for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
            if (strncmp(*v, prefixes[i], strlen(prefixes[i])) == 0)
                TRY(words_add_flag(w, "-x", "%.*s", (int)strcspn(*v, "="), *v));
    return STATUS_OK;
}

/* Adds the address where ranks on several hosts connect over TCP. A port that is free here is most
 * likely free on the first host too. */
static enum status add_address(const struct launch *l, struct words *w)
{
    const struct launch_config *c = &l->config;
    char address[LAUNCHER_ADDRESS_MAX];
    int port = c->port;
    if (port == 0 && !c->rendezvous)
        TRY(host_free_port(false, &port));
    TRY(c->rendezvous ? path_format(address, sizeof address, "%s", c->rendezvous)
                      : path_format(address, sizeof address, "%s:%d", c->hosts.v[0].name, port));
    char *end = strrchr(address, ':');
    *end = '\0';
    if (l->kind == MPI_KIND_MPICH)
        return words_add_all(w, "-genv", "MASTER_ADDR", address, "-genv", "MASTER_PORT", end + 1,
                             NULL);
    TRY(words_add_flag(w, "-x", "MASTER_ADDR=%s", address));
    return words_add_flag(w, "-x", "MASTER_PORT=%s", end + 1);
}

/* Adds mpirun and its flags. A list of hosts has slots. On this machine each core is a slot of Open
 * MPI; more ranks than slots must be allowed, and yield the core while they wait. A batch system
 * has slots of its own. mpirun must not bind ranks to cores, because their supervisors do that. */
static enum status add_mpirun(const struct launch *l, struct words *w)
{
    const struct launch_config *c = &l->config;
    bool open = l->kind == MPI_KIND_OPENMPI;
    TRY(words_add(w, "%s", c->mpirun));
    TRY(words_add_flag(w, "-n", "%d", c->nproc));
    if (open && geteuid() == 0)
        TRY(words_add(w, "--allow-run-as-root"));
    if (c->hosts.n > 0) {
        TRY(words_add(w, open ? "--host" : "-hosts"));
        TRY(launch_hosts_word(&c->hosts, false, w));
    } else if (open) {
        bool more = c->nproc > host_cores() || launcher_has_hosts();
        TRY(words_add(w, more ? "--oversubscribe" : "--use-hwthread-cpus"));
    }
    if (open)
        TRY(words_add_all(w, "--bind-to", "none", NULL));
    if (open && !l->one_machine)
        TRY(add_environment(w));
    if (!open && l->one_machine)
        TRY(words_add_all(w, "-iface", "lo", NULL));
    if (l->over_tcp)
        TRY(add_address(l, w));
    return words_add_list(w, c->mpi_args.n, c->mpi_args.v);
}

enum status command_start(const struct launch *l, bool resume, struct words *w)
{
    const struct launch_config *c = &l->config;
    if (l->kind != MPI_KIND_NONE)
        TRY(add_mpirun(l, w));
    TRY(words_add_all(w, c->program, "launch", "--as-rank", "--log-dir", c->log_dir, NULL));
    if (c->threads)
        TRY(words_add_flag(w, "--threads", "%d", c->threads));
    if (c->bind != LAUNCH_BIND_AUTO)
        TRY(words_add_all(w, "--bind", c->bind == LAUNCH_BIND_NONE ? "none" : "cores", NULL));
    if (c->terminal)
        TRY(words_add(w, "--terminal"));
    TRY(words_add(w, "--"));
    TRY(words_add_list(w, c->argc, c->argv));
    return resume ? words_add_all(w, "--resume", "auto", NULL) : STATUS_OK;
}

/* Slurm binds each task to cores. The command uses all cores of its task. */
enum status command_srun(const struct launch *l, struct words *w)
{
    const struct launch_config *c = &l->config;
    int most = c->nproc;
    if (c->hosts.n)
        launch_hosts_slots(&c->hosts, &most);
    TRY(words_add_all(w, "srun", l->kind == MPI_KIND_OPENMPI ? "--mpi=pmix" : "--mpi=pmi2", NULL));
    if (c->hosts.n) {
        TRY(words_add(w, "--nodes=%d", c->hosts.n));
        TRY(words_add(w, "--nodelist"));
        TRY(launch_hosts_word(&c->hosts, true, w));
        TRY(words_add(w, "--ntasks-per-node=%d", most));
    }
    TRY(words_add(w, "--ntasks=%d", c->nproc));
    TRY(words_add(w, "--cpus-per-task=%d",
                  c->threads ? c->threads : cores_share(most, host_cores())));
    TRY(words_add(w, "%s", c->program));
    return words_add_list(w, c->argc, c->argv);
}

/* --threads is the number of threads of each device of the rank: of 2 for "--devices cpu:2". */
enum status command_rank(const struct launch_config *c, int cores, struct words *w)
{
    static const char *const takers[] = {"amp-report", "bench", "selftest", "train"};
    const char *devices = launch_command_value(c->argc, c->argv, "--devices");
    int n = devices && strncmp(devices, "cpu:", 4) == 0 ? atoi(devices + 4) : 1;
    TRY(words_add_all(w, "ampscale", c->argv[0], NULL));
    for (size_t i = 0; i < sizeof takers / sizeof *takers; i++)
        if (strcmp(c->argv[0], takers[i]) == 0 &&
            !launch_command_value(c->argc, c->argv, "--threads"))
            TRY(words_add_flag(w, "--threads", "%d",
                               c->threads ? c->threads : cores_share(n, cores)));
    return words_add_list(w, c->argc - 1, c->argv + 1);
}
