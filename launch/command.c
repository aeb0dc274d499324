/* Builds the command lines of mpirun, srun and ranks. */
#include "launch/command.h"

#include "base/process.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { VERSION_SECONDS = 10 };

enum status launch_mpi_kind(const char *mpirun, const char *text, enum mpi_kind *kind)
{
    static const struct {
        const char *mark;
        enum mpi_kind kind;
    } marks[] = {
        {"Open MPI", MPI_KIND_OPENMPI},
        {"OpenRTE", MPI_KIND_OPENMPI},
        {"HYDRA", MPI_KIND_MPICH},
    };
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        if (strstr(text, marks[i].mark)) {
            *kind = marks[i].kind;
            return STATUS_OK;
        }
    }
    return status_fail(STATUS_UNSUPPORTED,
                       "'%s' is neither Open MPI's nor MPICH's mpirun: its --version prints '%.*s'",
                       mpirun, (int)strcspn(text, "\n"), text);
}

/* Runs `mpirun --version` and reads its output, cut to `size` bytes. */
static enum status read_version(const char *mpirun, int file, char *text, size_t size)
{
    char path[64];
    char *argv[] = {(char *)mpirun, "--version", NULL};
    struct process_signals signals;
    struct process_end end;
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    TRY(process_signals_open(&signals));
    const struct process_config c = {
        .argv = argv, .log = path, .signals = &signals, .limit_s = VERSION_SECONDS};
    enum status st = process_run(&c, &end);
    process_signals_close(&signals);
    TRY(st);
    if (end.received)
        return status_fail(STATUS_INTERRUPTED, "interrupted by %s", strsignal(end.received));
    if (end.late)
        return status_fail(STATUS_IO, "'%s --version' did not exit within %d s", mpirun,
                           VERSION_SECONDS);
    if (end.code == PROCESS_NOT_STARTED)
        return status_fail(STATUS_IO,
                           "%s; install Open MPI or MPICH, or give the path of mpirun by --mpirun",
                           end.message);
    ssize_t n = pread(file, text, size - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    return STATUS_OK;
}

enum status launch_mpi_probe(const char *mpirun, enum mpi_kind *kind)
{
    char text[4096];
    int file = memfd_create("mpirun-version", MFD_CLOEXEC);
    if (file < 0)
        return status_fail(STATUS_IO, "cannot create a file in memory: %s", strerror(errno));
    enum status st = read_version(mpirun, file, text, sizeof text);
    close(file);
    return st == STATUS_OK ? launch_mpi_kind(mpirun, text, kind) : st;
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

/* Hydra (MPICH's mpirun) exports the whole environment to other hosts. Open MPI exports only
 * variables that its command line names. The variables listed here change how a rank computes or
 * whether it starts, or belong to this program. */
bool launch_is_exported(const char *variable)
{
    static const char *const prefixes[] = {
        "OMP_",   "KMP_",      "MKL_",
        "DNNL_",  "ONEDNN_",   "NCCL_",
        "CUDNN_", "AMPSCALE_", "LD_LIBRARY_PATH=",
    };
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (strncmp(variable, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

static enum status add_environment(char *const *environment, struct words *w)
{
    for (; *environment; environment++) {
        if (!launch_is_exported(*environment))
            continue;
        TRY(words_add_flag(w, "-x", "%.*s", (int)strcspn(*environment, "="), *environment));
    }
    return STATUS_OK;
}

static enum status add_hosts(const struct launch_config *c, const char *flag, struct words *w)
{
    if (c->hosts.n == 0)
        return STATUS_OK;
    TRY(words_add(w, "%s", flag));
    return launch_hosts_word(&c->hosts, false, w);
}

/* Adds the flags of Open MPI. Without a list of hosts, mpirun may start more ranks than there are
 * cores; with a list, its slots limit the number of ranks. mpirun must not bind ranks to cores,
 * because each rank's supervisor binds its rank to cores. */
static enum status add_openmpi(const struct launch_config *c, const struct launch_site *site,
                               struct words *w)
{
    if (site->root)
        TRY(words_add(w, "--allow-run-as-root"));
    if (c->hosts.n == 0)
        TRY(words_add(w, "--oversubscribe"));
    TRY(add_hosts(c, "--host", w));
    TRY(words_add_all(w, "--bind-to", "none", NULL));
    return add_environment(site->environment, w);
}

static enum status add_mpich(const struct launch_config *c, const struct launch_site *site,
                             struct words *w)
{
    if (site->loopback)
        TRY(words_add_all(w, "-iface", "lo", NULL));
    return add_hosts(c, "-hosts", w);
}

/* Adds the flags for a supervisor. */
static enum status add_rank_flags(const struct supervisor_config *r, struct words *w)
{
    TRY(words_add_all(w, "--log-dir", r->log_dir, NULL));
    if (r->threads)
        TRY(words_add_flag(w, "--threads", "%d", r->threads));
    if (r->bind == LAUNCH_BIND_CORES)
        TRY(words_add_all(w, "--bind", "cores", NULL));
    return r->terminal ? words_add(w, "--terminal") : STATUS_OK;
}

/* Adds "--" and the command. */
static enum status add_command(int argc, char *const *argv, bool resume, struct words *w)
{
    TRY(words_add(w, "--"));
    TRY(words_add_list(w, argc, argv));
    return resume ? words_add_all(w, "--resume", "auto", NULL) : STATUS_OK;
}

static struct supervisor_config supervisor_of(const struct launch_config *c,
                                              const struct launch_site *site)
{
    return (struct supervisor_config){.program = c->program,
                                      .log_dir = site->log_dir,
                                      .threads = c->threads,
                                      .bind = c->bind,
                                      .terminal = site->terminal,
                                      .argc = c->argc,
                                      .argv = c->argv};
}

enum status launch_command_supervisor(const struct supervisor_config *c, bool resume,
                                      struct words *w)
{
    TRY(words_add_all(w, c->program, "launch", "--as-rank", NULL));
    TRY(add_rank_flags(c, w));
    return add_command(c->argc, c->argv, resume, w);
}

enum status launch_command_mpirun(const struct launch_config *c, const struct launch_site *site,
                                  struct words *w)
{
    const struct supervisor_config rank = supervisor_of(c, site);
    TRY(words_add(w, "%s", site->mpirun));
    TRY(words_add_flag(w, "-n", "%d", c->nproc));
    if (site->kind == MPI_KIND_OPENMPI)
        TRY(add_openmpi(c, site, w));
    else
        TRY(add_mpich(c, site, w));
    TRY(words_add_list(w, c->mpi_args.n, c->mpi_args.v));
    TRY(words_add_all(w, c->program, "launch", "--as-rank", NULL));
    TRY(add_rank_flags(&rank, w));
    return add_command(c->argc, c->argv, site->resume, w);
}

bool launch_joins(const struct launch_config *c)
{
    return c->nodes > 1 && c->hosts.n == 0 && (c->restarts > 0 || c->min_nodes < c->nodes);
}

/* Adds the flags for nodes that join (join.h). */
static enum status add_join(const struct launch_config *c, struct words *w)
{
    TRY(words_add_flag(w, "--min-nodes", "%d", c->min_nodes));
    return words_add_flag(w, "--join-timeout", "%d", c->join_timeout);
}

enum status launch_command_node(const struct launch_config *c, const struct launch_site *site,
                                struct words *w)
{
    const struct supervisor_config rank = supervisor_of(c, site);
    TRY(words_add_all(w, c->program, "launch", "--as-node", NULL));
    TRY(words_add_flag(w, "--nproc-per-node", "%d", c->node_ranks));
    TRY(words_add_flag(w, "--nnodes", "%d", c->nodes));
    TRY(words_add_flag(w, "--node-rank", "%d", c->node));
    if (c->rendezvous)
        TRY(words_add_flag(w, "--rendezvous", "%s", c->rendezvous));
    /* Nodes that join agree among themselves whether they resume. */
    if (launch_joins(c)) {
        TRY(add_join(c, w));
        if (site->resume)
            TRY(words_add(w, "--restarted"));
    }
    TRY(add_rank_flags(&rank, w));
    return add_command(c->argc, c->argv, site->resume && !launch_joins(c), w);
}

enum status launch_command_hosts(const struct launch_config *c, const struct launch_site *site,
                                 struct words *w)
{
    const struct supervisor_config rank = supervisor_of(c, site);
    TRY(words_add_all(w, c->program, "launch", "--as-hosts", NULL));
    TRY(words_add_flag(w, "--nproc", "%d", c->nproc));
    TRY(add_hosts(c, "--hosts", w));
    if (c->rendezvous)
        TRY(words_add_flag(w, "--rendezvous", "%s", c->rendezvous));
    TRY(words_add_flag(w, "--master-port", "%d", c->port));
    TRY(add_join(c, w));
    if (c->restarts > 0)
        TRY(words_add_flag(w, "--restarts", "%d", c->restarts));
    TRY(add_rank_flags(&rank, w));
    return add_command(c->argc, c->argv, site->resume, w);
}

enum status launch_command_host(const struct launch_config *c, int ranks, const char *dir,
                                struct words *w)
{
    const struct supervisor_config rank = {
        .log_dir = c->log_dir, .threads = c->threads, .bind = c->bind};
    TRY(words_add_all(w, "env", "-C", dir, c->program, "launch", "--as-node", "--over-ssh", NULL));
    TRY(words_add_flag(w, "--nproc-per-node", "%d", ranks));
    TRY(add_rank_flags(&rank, w));
    return add_command(c->argc, c->argv, false, w);
}

/* Slurm binds each task to cores. The command uses all cores of its task. */
enum status launch_command_srun(const struct launch_config *c, const struct launch_site *site,
                                struct words *w)
{
    int most = c->hosts.n ? launch_hosts_most(&c->hosts) : c->nproc;
    int share = site->cores > most ? site->cores / most : 1;
    TRY(words_add(w, "srun"));
    TRY(words_add(w, "--mpi=%s", site->kind == MPI_KIND_OPENMPI ? "pmix" : "pmi2"));
    if (c->hosts.n) {
        TRY(words_add(w, "--nodes=%d", c->hosts.n));
        TRY(words_add(w, "--nodelist"));
        TRY(launch_hosts_word(&c->hosts, true, w));
        TRY(words_add(w, "--ntasks-per-node=%d", most));
    }
    TRY(words_add(w, "--ntasks=%d", c->nproc));
    TRY(words_add(w, "--cpus-per-task=%d", c->threads ? c->threads : share));
    TRY(words_add(w, "%s", c->program));
    return words_add_list(w, c->argc, c->argv);
}

static bool takes_threads(const char *command)
{
    static const char *const names[] = {"amp-report", "bench", "selftest", "train"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(command, names[i]) == 0)
            return true;
    return false;
}

/* The number of devices of a rank, for example 2 for "--devices cpu:2". The command's --threads is
 * the number of threads per device. */
static int devices(int argc, char *const *argv)
{
    const char *value = launch_command_value(argc, argv, "--devices");
    int n = value && strncmp(value, "cpu:", 4) == 0 ? atoi(value + 4) : 1;
    return n > 1 ? n : 1;
}

enum status launch_command_rank(int argc, char *const *argv, int threads, int cores,
                                struct words *w)
{
    int n = devices(argc, argv);
    TRY(words_add_all(w, "ampscale", argv[0], NULL));
    if (takes_threads(argv[0]) && !launch_command_value(argc, argv, "--threads"))
        TRY(words_add_flag(w, "--threads", "%d", threads ? threads : cores > n ? cores / n : 1));
    return words_add_list(w, argc - 1, argv + 1);
}
