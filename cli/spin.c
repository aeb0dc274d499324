/* Sets the spin time of OpenMP's threads before OpenMP starts. */
#include "cli/cli.h"

#include <stdlib.h>
#include <unistd.h>

void spin_limit(char **argv)
{
    static const char *const said[] = {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY", "KMP_BLOCKTIME"};
    for (size_t i = 0; i < sizeof said / sizeof *said; i++)
        if (getenv(said[i]))
            return;
    /* 5000 spins take tens of microseconds, which is longer than the gap between two operations. */
    if (setenv("GOMP_SPINCOUNT", "5000", 1) == 0)
        execv("/proc/self/exe", argv);
}
