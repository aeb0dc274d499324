/* Variables that the launcher of this process (mpirun, srun, torchrun ...) has set.
 *
 * The program finds a process's rank and job only here. (results/environment.c records variables,
 * and `launch` takes MASTER_ADDR and MASTER_PORT as defaults.) Launchers may be nested, as mpirun
 * within a job of Slurm is: the innermost launcher counts. */
#pragma once

#include "base/status.h"

#include <stdbool.h>

enum { LAUNCHER_RANKS_MAX = 65536 };

struct launcher_place {
    int rank;       /* in the job */
    int size;       /* ranks of the job; 0: not known */
    int local_rank; /* on this host */
    int local_size; /* ranks on this host, as far as known; 0: local_rank is not known either */
};

/* STATUS_USAGE if no launcher names a rank, or if a launcher's variables contradict each other. */
MUST_CHECK enum status launcher_place_find(struct launcher_place *place);

/* Writes HOST:PORT of rank 0 from MASTER_ADDR and MASTER_PORT, an IPv6 address in brackets. If
 * torchrun itself listens at that port, its ranks use the next port. False, and "": a variable is
 * missing, or the port is not valid. */
enum { LAUNCHER_ADDRESS_MAX = 320 };
bool launcher_address(char address[LAUNCHER_ADDRESS_MAX]);

/* Was this process started for one device of its host (RANK and LOCAL_RANK are set)? */
bool launcher_is_local_rank(void);

/* Sets torchrun's variables and removes those of other launchers: child processes started
 * afterwards are rank `place` of a job whose ranks connect at `address`, HOST:PORT. */
MUST_CHECK enum status launcher_export(const struct launcher_place *place, const char *address);

/* Writes the text that identifies the job among all jobs of its machines: AMPSCALE_JOB, or the
 * launcher's variables. False, and "": none of them is set. */
enum { LAUNCHER_JOB_MAX = 512 };
bool launcher_job(char job[LAUNCHER_JOB_MAX]);

/* Whether a launcher of MPI started this process. */
bool launcher_is_mpi(void);

/* Whether a process that inherits `variable`, "NAME=value", becomes a rank of this process's job.
 */
bool launcher_makes_rank(const char *variable);

/* Whether a batch system (Slurm, PBS, LSF, Grid Engine, Flux) lists other hosts for mpirun. True
 * also if this is not certain. */
bool launcher_has_hosts(void);

/* Number of tasks of the Slurm allocation; 0: no allocation, or it does not give the number. */
int launcher_slurm_tasks(void);
