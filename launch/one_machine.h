/* Inside launch/: confines a job to this machine if all its ranks run here. */
#pragma once

#include "base/file.h"
#include "launch/launch.h"

/* The resources of a job on one machine. Begins as {0}. */
struct one_machine {
    bool is_one;                 /* the job runs on this machine alone */
    struct temporary_dir shared; /* Open MPI's shared memory; mpirun inherits the lock */
};

/* Sets environment variables for a job without hosts, without --mpi-arg, and without a batch system
 * that names other hosts. Variables that the user has set are kept.
 *
 * If there is enough shared memory, Open MPI's ranks exchange messages over it alone. Their
 * segments are in a folder of /dev/shm that this function makes and locks, so that killed processes
 * leave files only there; it removes folders of earlier jobs that no process locks. MPICH's ranks
 * use the loopback interface, and so do Open MPI's if shared memory is too small. mpirun listens on
 * the loopback address (loopback.c). */
MUST_CHECK enum status one_machine_begin(const struct launch_config *c, struct one_machine *m);

/* Removes the folder. Does nothing for {0}. */
void one_machine_end(struct one_machine *m);

/* Removes loopback.c's library from the environment, for the command of a rank. */
MUST_CHECK enum status one_machine_rank(void);
