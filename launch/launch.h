/* Starts a command of this program as the ranks of a job: with mpirun, which also reaches other
 * hosts, or without MPI: the user then runs the same command line on each node, and the ranks
 * connect over TCP.
 *
 * mpirun or the launcher starts a supervisor for each rank, also a process of this program. It runs
 * the command, writes its log, copies rank 0's output to stdout, and reports a failure in one line.
 * Supervisors and launcher use only streams and signals that mpirun forwards: rank 0's stdout,
 * stderr lines that begin with "ampscale: ", and SIGUSR1 for an orderly stop. Therefore the mpirun
 * command line that a dry run prints also works without the launcher. */
#pragma once

#include "base/status.h"
#include "base/words.h"
#include "launch/hosts.h"

#include <stdbool.h>

/* AUTO: CORES if its host has a core for each rank, else NONE; NONE: a rank runs on any core;
 * CORES: on its own share of the cores. */
enum launch_bind { LAUNCH_BIND_AUTO, LAUNCH_BIND_NONE, LAUNCH_BIND_CORES };

/* The caller owns the strings. A number 0 that no comment explains: not given. */
struct launch_config {
    const char *program; /* this program's file, an absolute path */
    bool dry_run;        /* print the command lines of the job, and run nothing */
    int nproc;           /* number of ranks; 0: a rank for each slot of the hosts, or Slurm task */
    int node_ranks;      /* number of ranks on each node */
    int nodes;           /* on which the user runs this command line, without MPI */
    int min_nodes;       /* with which the job may start; 0: all nodes */
    int join_timeout;    /* time limit in seconds for nodes to join, at each start */
    int node;            /* index of this node, from 0 */
    const char *rendezvous;    /* HOST:PORT of rank 0, without MPI; NULL: not given */
    int port;                  /* of the rendezvous at the first host; 0: a free port */
    const char *comm;          /* --comm of the command; NULL: not given */
    struct launch_hosts hosts; /* empty: this machine, or the hosts of the batch system */
    const char *log_dir;       /* NULL: next to the run's folder */
    int threads;               /* of each rank; 0: an equal share of its host's cores */
    enum launch_bind bind;
    const char *mpirun;    /* NULL: mpirun */
    struct words mpi_args; /* arguments that are passed to mpirun unchanged */
    int grace;             /* seconds that ranks have for an orderly stop */
    int start_timeout;     /* time limit in seconds for mpirun to start every rank; 0: none */
    int restarts;          /* maximum number of restarts after failures */
    bool terminal;         /* for a supervisor: rank 0's command writes to a terminal */
    int argc;              /* the command and its arguments */
    char **argv;
};

/* Checks the configuration and runs the job until it ends, or prints its command lines for a dry
 * run. STATUS_OK: the job ran, and its failures have been printed on stderr. *exit_code is then 0,
 * or the exit code of the first rank that failed; if a signal to this process ended the job, 128 +
 * the number of the signal. STATUS_USAGE: a flag is wrong. Any other status: mpirun could not run,
 * or failed by itself. On return no process of the job runs on this host. */
MUST_CHECK enum status launch_run(const struct launch_config *c, int *exit_code);

/* The value of `flag` ("--out") in a command; the last value if the flag is given several times;
 * NULL: not given. */
const char *launch_command_value(int argc, char *const *argv, const char *flag);

/* Supervises the rank that the environment names: runs the command and returns its exit code, or
 * 128 + the number of the signal that killed it. Returns 0 after an orderly stop, because after any
 * other code mpirun would end the ranks that have not stopped yet. Uses only program, log_dir,
 * threads, bind, terminal and the command of *c. */
int launch_supervise(const struct launch_config *c);
