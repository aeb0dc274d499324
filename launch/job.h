/* Inside launch/: runs mpirun once, until the last process of the job on this host has ended. */
#pragma once

#include "base/process.h"

#include <stdio.h>

struct job_config {
    const struct process_signals *signals;
    int grace; /* seconds that the ranks have for an orderly stop */
    /* Seconds from a rank's failure until this process ends the other ranks, unless mpirun ends
     * them earlier. */
    int fail_seconds;
    int ranks;
    /* Time limit for every rank to begin its log. 0: no limit, for instance because ranks run on
     * other hosts. */
    int start_seconds;
    const char *log_dir; /* folder of the ranks' logs, "rank-N.log" */
    FILE *mpirun_log;    /* for mpirun's own output */
    const char *mpirun_log_path;
    const char *starter; /* "mpirun", for messages */
};

/* Runs `command` as launch_run describes; *received is the first stop signal to this process, or 0.
 * The process must adopt orphaned processes (PR_SET_CHILD_SUBREAPER) and have no other children. */
MUST_CHECK enum status job_run(const struct job_config *c, char **command, int *received,
                               int *exit_code);
