/* Inside launch/: one start of mpirun, from fork to the last of its processes on this host. */
#ifndef LAUNCH_JOB_H
#define LAUNCH_JOB_H

#include "base/status.h"

#include <stdio.h>

struct job_config {
    int signals;      /* a signalfd, not blocking, of SIGCHLD and of what asks for an end */
    int grace;        /* seconds for an orderly stop */
    int fail_seconds; /* between a rank's failure and the end of the others, if mpirun lets them be
                       */
    int ranks;
    int start_seconds;   /* for every rank to begin its log; 0: not looked at, as on other hosts */
    const char *log_dir; /* of the ranks' logs, "rank-N.log" */
    FILE *chatter;       /* takes what mpirun says */
    const char *chatter_path;
};

/* Runs `command` as launch_run says; *received is the signal that asked for an end, or 0. The
 * process must be the reaper of what mpirun leaves behind (PR_SET_CHILD_SUBREAPER) and have no
 * other children. */
MUST_CHECK enum status job_run(const struct job_config *c, char **command, int *received,
                               int *exit_code);
#endif
