/* Variables that the launcher of this process (mpirun, srun, torchrun ...) has set. Only launcher.c
 * finds the rank and the job of a process. (results/environment.c records the variables, and
 * `launch` takes MASTER_ADDR and MASTER_PORT as defaults.) Launchers may be nested, such as mpirun
 * within a Slurm job; the variables of the innermost launcher are used. */
#pragma once

#include "base/status.h"

#include <stdbool.h>

enum { LAUNCHER_RANKS_MAX = 65536 };

struct launcher_place {
    int rank;       /* in the job; -1: no launcher names it */
    int size;       /* ranks of the job; 0: not known */
    int local_rank; /* on this host */
    int local_size; /* ranks on this host, or local_rank + 1 if the launcher does not give the
                     * number; 0: local_rank is not known either */
};

/* STATUS_USAGE if no launcher names a rank, or if a launcher's variables contradict each other. */
MUST_CHECK enum status launcher_place_find(struct launcher_place *place);

/* Writes the address of rank 0, HOST:PORT, from MASTER_ADDR and MASTER_PORT, with an IPv6 address
 * in brackets. If torchrun itself listens at that port, the ranks use the next port. If a variable
 * is missing or the port is not valid, writes "" and returns false. */
enum { LAUNCHER_ADDRESS_MAX = 320 };
bool launcher_address(char address[LAUNCHER_ADDRESS_MAX]);

/* Whether this process was started for one device of its host: RANK and LOCAL_RANK are set. */
bool launcher_is_local_rank(void);

/* Sets torchrun's variables to `place` and `address` (HOST:PORT, where the ranks of the job
 * connect), and removes the variables of other launchers. Child processes that are started
 * afterwards read their rank and that address from torchrun's variables. */
MUST_CHECK enum status launcher_export(const struct launcher_place *place, const char *address);

/* Writes a text that differs between jobs on the same machines: the value of AMPSCALE_JOB, or the
 * launcher's variables. If no such variable is set, writes "" and returns false. */
enum { LAUNCHER_JOB_MAX = 512 };
bool launcher_job(char job[LAUNCHER_JOB_MAX]);

/* Whether an MPI launcher started this process. */
bool launcher_is_mpi(void);

/* Whether a process that inherits `variable`, "NAME=value", becomes a rank of this process's job.
 */
bool launcher_makes_rank(const char *variable);

/* Whether a batch system (Slurm, PBS, LSF, Grid Engine, Flux) may give mpirun a list of hosts other
 * than this host. */
bool launcher_has_hosts(void);

/* Number of tasks of the Slurm allocation; 0: there is no allocation, or Slurm does not give the
 * number. */
int launcher_slurm_tasks(void);
