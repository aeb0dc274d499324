/* Inside launch/: the command lines of a job. */
#pragma once

#include "base/status.h"
#include "launch/launch.h"

enum mpi_kind {
    MPI_KIND_OPENMPI,
    MPI_KIND_MPICH,
    MPI_KIND_NONE, /* this program starts the ranks itself */
};

/* Where a job is started. */
struct launch_site {
    enum mpi_kind kind;
    const char *mpirun;
    const char *log_dir; /* an absolute path */
    bool root;           /* the user is root; Open MPI then needs a flag */
    bool terminal;       /* rank 0's output is a terminal */
    bool loopback;       /* all ranks are on this machine, and MPICH's ranks must therefore use the
                          * loopback interface */
    bool resume;         /* the command resumes from its checkpoint */
    int cores;           /* number of cores of this host */
    char *const *environment;
};

/* Whether the launchers of the nodes agree, before each start, on the nodes that take part
 * (join.h). */
bool launch_joins(const struct launch_config *c);

/* Finds the MPI library of `mpirun` from `text`, the output of its --version. STATUS_UNSUPPORTED:
 * the library is neither Open MPI nor MPICH. */
MUST_CHECK enum status launch_mpi_kind(const char *mpirun, const char *text, enum mpi_kind *kind);

/* Runs `mpirun --version` to find the library. STATUS_IO if mpirun cannot be run. */
MUST_CHECK enum status launch_mpi_probe(const char *mpirun, enum mpi_kind *kind);

/* Appends mpirun and its flags, this program as supervisor, and then the command. */
MUST_CHECK enum status launch_command_mpirun(const struct launch_config *c,
                                             const struct launch_site *site, struct words *w);

/* Appends this program, the flags that make it start this node's ranks (launch_node), and then the
 * command. */
MUST_CHECK enum status launch_command_node(const struct launch_config *c,
                                           const struct launch_site *site, struct words *w);

/* Appends this program, the flags that make it start the nodes in c->hosts (launch_hosts_start),
 * and then the command. */
MUST_CHECK enum status launch_command_hosts(const struct launch_config *c,
                                            const struct launch_site *site, struct words *w);

/* Appends this program, the flags that make it start the ranks of a host in the folder `dir`, and
 * then the command. launch_hosts_start runs this line on the host. */
MUST_CHECK enum status launch_command_host(const struct launch_config *c, int ranks,
                                           const char *dir, struct words *w);

/* Appends this program, the flags that make it the supervisor of a rank, and then the command. With
 * `resume`, the command resumes from its checkpoint. */
MUST_CHECK enum status launch_command_supervisor(const struct supervisor_config *c, bool resume,
                                                 struct words *w);

/* Whether the launcher also sets this variable, "NAME=value", for ranks on other hosts. */
bool launch_is_exported(const char *variable);

/* Appends srun and the command, without a supervisor, because Slurm itself writes logs, binds ranks
 * to cores and forwards signals. */
MUST_CHECK enum status launch_command_srun(const struct launch_config *c,
                                           const struct launch_site *site, struct words *w);

/* Appends the command of a rank: "ampscale train ...". Adds --threads if the command allows this
 * flag and does not contain it. `cores` is the rank's number of cores. */
MUST_CHECK enum status launch_command_rank(int argc, char *const *argv, int threads, int cores,
                                           struct words *w);
