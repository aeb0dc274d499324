/* Replaces mpi.c in a build without MPI. */
#include "comm/comm.h"

#include <stddef.h>

bool comm_under_mpi(void)
{
    return false;
}

const char *comm_mpi_version(void)
{
    return "none";
}

const char *comm_srun_mpi(void)
{
    return NULL;
}

enum status comm_open_mpi(const struct comm_mpi_config *config, struct comm **c)
{
    (void)config, (void)c;
    return status_fail(STATUS_UNSUPPORTED,
                       "this build has no MPI: apt-get install libopenmpi-dev openmpi-bin (or "
                       "libmpich-dev mpich), and build again");
}
