/* mpirun's, srun's and a rank's command lines. */
#include "launch/command.h"

#include <stdlib.h>
#include <string.h>

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
                       "'%s' is neither Open MPI's nor MPICH's: to --version it says '%.*s'",
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

/* Variables that change how a rank computes, or whether it starts at all, or that say who is in the
 * job, and that Open MPI keeps from other hosts unless told. Hydra carries the whole environment.
 */
static bool is_carried(const char *variable)
{
    static const char *const prefixes[] = {"OMP_",
                                           "KMP_",
                                           "MKL_",
                                           "DNNL_",
                                           "ONEDNN_",
                                           "NCCL_",
                                           "CUDNN_",
                                           "LD_LIBRARY_PATH=",
                                           LAUNCH_HOSTS_VARIABLE "="};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (strncmp(variable, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

static enum status add_environment(char *const *environment, struct words *w)
{
    for (; *environment; environment++) {
        if (!is_carried(*environment))
            continue;
        TRY(words_add(w, "-x"));
        TRY(words_add(w, "%.*s", (int)strcspn(*environment, "="), *environment));
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

/* Ranks without hosts may be more than cores; with hosts the slots have been said. The share of
 * cores is the keeper's business, on the rank's own host: no binding here. */
static enum status add_openmpi(const struct launch_config *c, const struct launch_site *site,
                               struct words *w)
{
    if (site->root)
        TRY(words_add(w, "--allow-run-as-root"));
    if (c->hosts.n == 0)
        TRY(words_add(w, "--oversubscribe"));
    TRY(add_hosts(c, "--host", w));
    TRY(words_add(w, "--bind-to"));
    TRY(words_add(w, "none"));
    return add_environment(site->environment, w);
}

static enum status add_keeper(const struct launch_config *c, const struct launch_site *site,
                              struct words *w)
{
    TRY(words_add(w, "%s", c->program));
    TRY(words_add(w, "launch"));
    TRY(words_add(w, "--as-rank"));
    TRY(words_add(w, "--log-dir"));
    TRY(words_add(w, "%s", site->log_dir));
    if (c->threads) {
        TRY(words_add(w, "--threads"));
        TRY(words_add(w, "%d", c->threads));
    }
    if (c->bind == LAUNCH_BIND_CORES) {
        TRY(words_add(w, "--bind"));
        TRY(words_add(w, "cores"));
    }
    return site->terminal ? words_add(w, "--terminal") : STATUS_OK;
}

enum status launch_command_mpirun(const struct launch_config *c, const struct launch_site *site,
                                  struct words *w)
{
    TRY(words_add(w, "%s", site->mpirun));
    TRY(words_add(w, "-n"));
    TRY(words_add(w, "%d", c->nproc));
    if (site->kind == MPI_KIND_OPENMPI)
        TRY(add_openmpi(c, site, w));
    else
        TRY(add_hosts(c, "-hosts", w));
    TRY(words_add_list(w, c->mpi_args.n, c->mpi_args.v));
    TRY(add_keeper(c, site, w));
    TRY(words_add(w, "--"));
    TRY(words_add_list(w, c->argc, c->argv));
    if (!site->resume)
        return STATUS_OK;
    TRY(words_add(w, "--resume"));
    return words_add(w, "auto");
}

/* Slurm gives each task its cores, and the command takes all that it may run on. */
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

/* Devices of a rank: 2 of "--devices cpu:2", each with its own --threads. */
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
    TRY(words_add(w, "ampscale"));
    TRY(words_add(w, "%s", argv[0]));
    if (takes_threads(argv[0]) && !launch_command_value(argc, argv, "--threads")) {
        TRY(words_add(w, "--threads"));
        TRY(words_add(w, "%d", threads ? threads : cores > n ? cores / n : 1));
    }
    return words_add_list(w, argc - 1, argv + 1);
}
