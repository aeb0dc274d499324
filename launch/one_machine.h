/* Inside launch/: confines a job to this machine if all its ranks run here. */
#pragma once

#include "base/file.h"
#include "launch/launch.h"

/* The resources of a job on one machine. Starts as {0}. */
struct one_machine {
    bool is_one;                 /* the job runs on this machine alone */
    struct temporary_dir shared; /* folder of Open MPI's shared memory segments; mpirun
                                  * inherits the lock on it */
};

/* Sets environment variables for a job on one machine: a job without a list of hosts, without
 * --mpi-arg, and without a batch system that may name other hosts. Does not change variables that
 * the user has set.
 *
 * If there is enough shared memory, ranks of Open MPI exchange messages only over shared memory.
 * The segments are in a folder of /dev/shm, which this function creates and locks. Files of killed
 * processes are therefore only in such folders. This function also removes the folder of an earlier
 * job if no process has locked the folder. Ranks of MPICH use the loopback interface, and so do
 * ranks of Open MPI if there is too little shared memory. mpirun listens only at the loopback
 * address (loopback.c). */
MUST_CHECK enum status one_machine_begin(const struct launch_config *c, struct one_machine *m);

/* Removes the folder of the shared memory segments. Does nothing for {0}. */
void one_machine_end(struct one_machine *m);

/* Removes the library of loopback.c from LD_PRELOAD, so that the command of a rank runs without
 * it. */
MUST_CHECK enum status one_machine_rank(void);
