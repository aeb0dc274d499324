/* Builds the command lines of mpirun, srun and ranks. */
#include "base/host.h"
#include "comm/comm.h"
#include "launch/parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

extern char **environ;

enum { VERSION_SECONDS = 10 };

enum status mpi_kind_find(const char *mpirun, enum mpi_kind *kind)
{
    char text[4096], path[64];
    char *argv[] = {(char *)mpirun, "--version", NULL};
    struct process_signals signals;
    struct process_end end;
    int file = memfd_create("mpirun-version", MFD_CLOEXEC);
    if (file < 0)
        return status_fail(STATUS_IO, "cannot create a file in memory: %s", strerror(errno));
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    const struct process_config c = {
        .argv = argv, .log = path, .signals = &signals, .limit_s = VERSION_SECONDS};
    enum status st = process_signals_open(&signals);
    if (st == STATUS_OK)
        st = process_run(&c, &end);
    process_signals_close(&signals);
    ssize_t n = pread(file, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    close(file);
    TRY(st);
    if (end.received)
        return status_fail(STATUS_INTERRUPTED, "interrupted by %s", strsignal(end.received));
    if (end.late)
        return status_fail(STATUS_IO, "cannot run '%s --version': it hangs", mpirun);
    if (end.code == PROCESS_NOT_STARTED)
        return status_fail(STATUS_IO, "%s", end.message);
    *kind = strstr(text, "HYDRA") ? MPI_KIND_MPICH : MPI_KIND_OPENMPI;
    if (*kind == MPI_KIND_MPICH || strstr(text, "Open MPI") || strstr(text, "OpenRTE"))
        return STATUS_OK;
    return status_fail(STATUS_UNSUPPORTED,
                       "'%s' is neither Open MPI's nor MPICH's mpirun: its --version prints '%.*s'",
                       mpirun, (int)strcspn(text, "\n"), text);
}

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

static enum status add_hosts(const struct launch_config *c, const char *flag, struct words *w)
{
    TRY(words_add(w, "%s", flag));
    return launch_hosts_word(&c->hosts, false, w);
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

/* Adds the flags of Open MPI. A list of hosts has slots. On this machine each core is a slot; more
 * ranks than slots must be allowed, and yield the core while they wait. A batch system has slots of
 * its own. mpirun must not bind ranks to cores, because each rank's supervisor does that. */
static enum status add_openmpi(const struct launch *l, struct words *w)
{
    const struct launch_config *c = &l->config;
    if (geteuid() == 0)
        TRY(words_add(w, "--allow-run-as-root"));
    if (c->hosts.n > 0)
        TRY(add_hosts(c, "--host", w));
    else
        TRY(words_add(w, "%s",
                      c->nproc > host_cores() || launcher_has_hosts() ? "--oversubscribe"
                                                                      : "--use-hwthread-cpus"));
    TRY(words_add_all(w, "--bind-to", "none", NULL));
    return l->one_machine ? STATUS_OK : add_environment(w);
}

enum status command_mpirun(const struct launch *l, struct words *w)
{
    const struct launch_config *c = &l->config;
    TRY(words_add(w, "%s", c->mpirun));
    TRY(words_add_flag(w, "-n", "%d", c->nproc));
    if (l->kind == MPI_KIND_OPENMPI)
        TRY(add_openmpi(l, w));
    if (l->kind == MPI_KIND_MPICH && l->one_machine)
        TRY(words_add_all(w, "-iface", "lo", NULL));
    if (l->kind == MPI_KIND_MPICH && c->hosts.n > 0)
        TRY(add_hosts(c, "-hosts", w));
    if (l->over_tcp)
        TRY(add_address(l, w));
    TRY(words_add_list(w, c->mpi_args.n, c->mpi_args.v));
    TRY(words_add_all(w, c->program, "launch", "--as-rank", "--log-dir", c->log_dir, NULL));
    if (c->threads)
        TRY(words_add_flag(w, "--threads", "%d", c->threads));
    if (c->bind != LAUNCH_BIND_AUTO)
        TRY(words_add_all(w, "--bind", c->bind == LAUNCH_BIND_NONE ? "none" : "cores", NULL));
    if (c->terminal)
        TRY(words_add(w, "--terminal"));
    TRY(words_add(w, "--"));
    TRY(words_add_list(w, c->argc, c->argv));
    return l->resume ? words_add_all(w, "--resume", "auto", NULL) : STATUS_OK;
}

/* Slurm binds each task to cores. The command uses all cores of its task. */
enum status command_srun(const struct launch *l, struct words *w)
{
    const struct launch_config *c = &l->config;
    int most = c->nproc;
    if (c->hosts.n)
        launch_hosts_slots(&c->hosts, &most);
    const struct launcher_place place = {.local_size = most};
    TRY(words_add_all(w, "srun", l->kind == MPI_KIND_OPENMPI ? "--mpi=pmix" : "--mpi=pmi2", NULL));
    if (c->hosts.n) {
        TRY(words_add(w, "--nodes=%d", c->hosts.n));
        TRY(words_add(w, "--nodelist"));
        TRY(launch_hosts_word(&c->hosts, true, w));
        TRY(words_add(w, "--ntasks-per-node=%d", most));
    }
    TRY(words_add(w, "--ntasks=%d", c->nproc));
    TRY(words_add(w, "--cpus-per-task=%d",
                  c->threads ? c->threads : cores_share(&place, host_cores())));
    TRY(words_add(w, "%s", c->program));
    return words_add_list(w, c->argc, c->argv);
}

/* --threads is the number of threads of each device of the rank: of 2 for "--devices cpu:2". */
enum status command_rank(const struct launch_config *c, int cores, struct words *w)
{
    static const char *const takers[] = {"amp-report", "bench", "selftest", "train"};
    const char *devices = launch_command_value(c->argc, c->argv, "--devices");
    int n = devices && strncmp(devices, "cpu:", 4) == 0 ? atoi(devices + 4) : 1;
    const struct launcher_place share = {.local_size = n};
    TRY(words_add_all(w, "ampscale", c->argv[0], NULL));
    for (size_t i = 0; i < sizeof takers / sizeof *takers; i++)
        if (strcmp(c->argv[0], takers[i]) == 0 &&
            !launch_command_value(c->argc, c->argv, "--threads"))
            TRY(words_add_flag(w, "--threads", "%d",
                               c->threads ? c->threads : cores_share(&share, cores)));
    return words_add_list(w, c->argc - 1, c->argv + 1);
}
