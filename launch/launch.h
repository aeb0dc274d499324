/* Starting a command of ours as the ranks of a job, through the MPI library's own starter.
 *
 * mpirun starts a keeper for each rank, this same program: it runs the command as its child, copies
 * its output to a log file and rank 0's onward, and says in one line how the rank ended where that
 * was not in order. Keepers and launcher talk by what mpirun carries anyway: rank 0's output on
 * stdout, lines that begin with "ampscale: " on stderr, SIGUSR1 for an orderly stop. A line to be
 * copied (launch_print) therefore works without the launcher too. */
#ifndef LAUNCH_LAUNCH_H
#define LAUNCH_LAUNCH_H

#include "base/status.h"
#include "base/words.h"
#include "launch/hosts.h"

#include <stdbool.h>
#include <stdio.h>

enum launch_bind {
    LAUNCH_BIND_NONE,  /* ranks run on any core */
    LAUNCH_BIND_CORES, /* each on its own share */
};

/* Strings belong to the caller. */
struct launch_config {
    const char *program;       /* this program's file, an absolute path */
    int nproc;                 /* ranks; 0: one for each slot of the hosts, or task of Slurm's */
    struct launch_hosts hosts; /* none: this machine, or what mpirun's batch system gives */
    const char *log_dir;       /* NULL: beside the run's folder */
    int threads;               /* of each rank; 0: an equal share of its host's cores */
    enum launch_bind bind;
    const char *mpirun;    /* NULL: mpirun, or else mpiexec */
    struct words mpi_args; /* for mpirun, as they are */
    int grace;             /* seconds that ranks have for an orderly stop */
    int start_timeout;     /* seconds until every rank of this host runs; 0: no limit */
    int restarts;          /* at most, after failures */
    int argc;              /* the command and its arguments */
    char **argv;
};

/* STATUS_USAGE with the flag's name for what cannot be; fills in nproc. */
MUST_CHECK enum status launch_config_check(struct launch_config *c);

/* Runs the job to its end. STATUS_OK: it ran, what there is to say has been said on stderr, and
 * *exit_code is 0, that of the first rank that failed, or 128 + a signal's number when one that
 * this process received has ended it. Other: mpirun could not be run, or failed on its own.
 * On return no process of the job runs on this host. */
MUST_CHECK enum status launch_run(const struct launch_config *c, int *exit_code);

/* Prints the line that launch_run would run, and srun's for the same job. */
MUST_CHECK enum status launch_print(const struct launch_config *c, FILE *out);

/* The value of `flag` ("--out") in a command, of the last if there are several; NULL: none. */
const char *launch_command_value(int argc, char *const *argv, const char *flag);

/* What a keeper is told. */
struct keeper_config {
    const char *program;
    const char *log_dir;
    int threads; /* 0: the share */
    enum launch_bind bind;
    bool terminal; /* rank 0's command sees a terminal */
    int argc;
    char **argv;
};

/* Keeps a rank: runs its command and returns the exit code that stands for its end, 0 after an
 * orderly stop: mpirun would end the other ranks before they have come to theirs. */
int launch_keep(const struct keeper_config *c);
#endif
