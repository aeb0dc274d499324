/* Starts a command of this program as the ranks of a job, with mpirun or without MPI. Without MPI
 * the user runs the same command line on each node, or names the nodes by --hosts, which this
 * program reaches by ssh; it starts the ranks of each node, which connect over TCP.
 *
 * mpirun, or launch_node in its place, starts a supervisor for each rank; a supervisor is this
 * program too. A supervisor runs the command as its child and copies the output to a log file, and
 * rank 0's output to stdout; it reports a failed rank in one line. Supervisors and launcher use
 * only streams and signals that mpirun forwards: rank 0's stdout, stderr lines that begin with
 * "ampscale: ", and SIGUSR1 for an orderly stop. Therefore the command line that launch_print
 * prints also works without the launcher. */
#pragma once

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
    int nproc;                 /* number of ranks; 0: one for each slot of the hosts, or for each
                                * Slurm task */
    int node_ranks;            /* number of ranks of each node; 0: not given */
    int nodes;                 /* number of nodes that run this command line, without MPI; 0: not
                                * given */
    int min_nodes;             /* least number of nodes on which the job runs if others are lost;
                                * 0: not given, all nodes */
    int join_timeout;          /* limit in seconds for nodes to join, at each start */
    int node;                  /* number of this node, from 0 */
    const char *rendezvous;    /* HOST:PORT of node 0, without MPI; NULL: not given */
    const char *comm;          /* --comm of the command; "gloo" and "local" start it without MPI */
    int port;                  /* port on the first of the hosts, if `rendezvous` is NULL */
    bool direct;               /* the ranks start without MPI; launch_config_check sets it */
    struct launch_hosts hosts; /* the hosts; none listed: this machine, or the hosts of the batch
                                * system */
    const char *log_dir;       /* NULL: next to the run's folder */
    int threads;               /* threads of each rank; 0: an equal share of its host's cores */
    enum launch_bind bind;
    const char *mpirun;    /* NULL: mpirun, or else mpiexec */
    struct words mpi_args; /* for mpirun, unchanged */
    int grace;             /* seconds that ranks have for an orderly stop */
    int start_timeout;     /* limit in seconds until every rank of this host runs; 0: none */
    int restarts;          /* maximum number of restarts after failures */
    int argc;              /* the command and its arguments */
    char **argv;
};

/* Checks the configuration; sets nproc where it is 0. STATUS_USAGE names the wrong flag. */
MUST_CHECK enum status launch_config_check(struct launch_config *c);

/* Runs the job to its end. STATUS_OK: it ran, failures have been printed on stderr, and *exit_code
 * is 0, the code of the first rank that failed, or 128 + the number of the signal to this process
 * that ended the job. Any other status: mpirun could not run, or failed by itself. On return no
 * process of the job runs on this host. */
MUST_CHECK enum status launch_run(const struct launch_config *c, int *exit_code);

/* Prints mpirun's command line as launch_run would run it, and srun's for the same job. */
MUST_CHECK enum status launch_print(const struct launch_config *c, FILE *out);

/* The value of `flag` ("--out") in a command; the last value if the flag is given several times;
 * NULL: not given. */
const char *launch_command_value(int argc, char *const *argv, const char *flag);

struct supervisor_config {
    const char *program; /* this program's file */
    const char *log_dir;
    int threads; /* threads of the command; 0: the rank's share of cores */
    enum launch_bind bind;
    bool terminal; /* rank 0's command writes to a terminal */
    int argc;      /* the command and its arguments */
    char **argv;
};

struct node_config {
    struct supervisor_config rank; /* of each rank */
    int ranks;                     /* of this node */
    int nodes, node;
    int min_nodes; /* above 0: the job fails unless this many nodes have joined within
                    * join_timeout seconds */
    int join_timeout;
    bool restart;        /* the ranks have failed before */
    bool over_ssh;       /* launch_hosts_start started this process */
    const char *address; /* HOST:PORT, where rank 0 will listen; NULL: a free port of loopback */
};

/* Starts the supervisors of a node's ranks, as mpirun does, and waits for all. Forwards SIGUSR1 to
 * them, and ends them on any other stop signal. *exit_code is that of the first supervisor that
 * failed, or 0. */
MUST_CHECK enum status launch_node(const struct node_config *c, int *exit_code);

/* Starts launch_node on each of c->hosts by ssh, and waits for all; the other members are those
 * that launch_config_check and the command line have set. A host that is lost ends the others.
 * Signals and *exit_code: as launch_node. */
MUST_CHECK enum status launch_hosts_start(const struct launch_config *c, int *exit_code);

/* Supervises a rank: runs its command and returns the command's exit code, or 128 + the number of
 * the signal that killed it. Returns 0 after an orderly stop, because after any other code mpirun
 * would end the ranks that have not stopped yet. */
int launch_supervise(const struct supervisor_config *c);
