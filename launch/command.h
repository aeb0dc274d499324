/* Inside launch/: the command lines of a job. Nothing here starts anything but `mpirun --version`.
 */
#ifndef LAUNCH_COMMAND_H
#define LAUNCH_COMMAND_H

#include "base/status.h"
#include "launch/launch.h"

enum mpi_kind { MPI_KIND_OPENMPI, MPI_KIND_MPICH };

/* What the line depends on besides the configuration. */
struct launch_site {
    enum mpi_kind kind;
    const char *mpirun;
    const char *log_dir; /* an absolute path */
    bool root;           /* the user is root, to whom Open MPI says no */
    bool terminal;       /* rank 0's output goes to one */
    bool resume;         /* the command goes on from its checkpoint */
    int cores;           /* of this host */
    char *const *environment;
};

/* Whose mpirun says `text` to --version; STATUS_UNSUPPORTED where it is neither's. */
MUST_CHECK enum status launch_mpi_kind(const char *mpirun, const char *text, enum mpi_kind *kind);

/* Asks a starter for its version. STATUS_IO where it cannot be run. */
MUST_CHECK enum status launch_mpi_probe(const char *mpirun, enum mpi_kind *kind);

/* mpirun, its flags, this program as keeper, the command. */
MUST_CHECK enum status launch_command_mpirun(const struct launch_config *c,
                                             const struct launch_site *site, struct words *w);

/* srun and the command itself: Slurm has logs, binding and signals of its own. */
MUST_CHECK enum status launch_command_srun(const struct launch_config *c,
                                           const struct launch_site *site, struct words *w);

/* The command of a rank: "ampscale train ...", with --threads where it takes that flag and has
 * none. `cores` are the rank's. */
MUST_CHECK enum status launch_command_rank(int argc, char *const *argv, int threads, int cores,
                                           struct words *w);
#endif
