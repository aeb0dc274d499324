/* Starts a command of this program as the ranks of a job, with mpirun or without MPI. Without MPI,
 * the user runs the same command line on each node, or names the nodes by --hosts, and this program
 * contacts them by ssh. On each node this program starts the node's ranks, which connect over TCP.
 *
 * mpirun, or launch_node in its place, starts a supervisor for each rank. A supervisor is also a
 * process of this program. It runs the command as its child and copies the command's output to a
 * log file; rank 0's supervisor also copies the output to stdout. A supervisor reports the failure
 * of its rank in one line. Supervisors and launcher use only streams and signals that mpirun
 * forwards: rank 0's stdout, stderr lines that begin with "ampscale: ", and SIGUSR1 for an orderly
 * stop. Therefore the command line that launch_print prints also works without the launcher. */
#pragma once

#include "base/status.h"
#include "base/words.h"
#include "launch/hosts.h"

#include <stdbool.h>
#include <stdio.h>

enum launch_bind {
    LAUNCH_BIND_NONE,  /* ranks run on any core */
    LAUNCH_BIND_CORES, /* each rank runs on its own share of the cores */
};

/* The caller owns the strings. */
struct launch_config {
    const char *program; /* this program's file, an absolute path */
    int nproc;           /* number of ranks; 0: one for each slot of the hosts, or for each
                          * Slurm task */
    int node_ranks;      /* number of ranks on each node; 0: not given */
    /* Number of nodes on which the user runs this command line, without MPI; 0: not given. */
    int nodes;
    /* Smallest number of nodes on which the job continues after it has lost nodes. 0: not given;
     * the job needs all nodes. */
    int min_nodes;
    int join_timeout;       /* time limit in seconds for nodes to join, at each start */
    int node;               /* index of this node, from 0 */
    const char *rendezvous; /* HOST:PORT of node 0, without MPI; NULL: not given */
    const char *comm;       /* --comm of the command; with "gloo" and "local" the ranks start
                             * without MPI */
    /* Port of the rendezvous on the first host, used if `rendezvous` is NULL. */
    int port;
    bool direct;               /* the ranks start without MPI; launch_config_check sets it */
    struct launch_hosts hosts; /* empty: this machine, or the hosts of the batch system */
    const char *log_dir;       /* NULL: next to the run's folder */
    int threads;               /* number of threads of each rank; 0: an equal share of its host's
                                * cores */
    enum launch_bind bind;
    const char *mpirun;    /* NULL: mpirun, or else mpiexec */
    struct words mpi_args; /* arguments that are passed to mpirun unchanged */
    int grace;             /* seconds that ranks have for an orderly stop */
    int start_timeout;     /* time limit in seconds for every rank of this host to start; 0: none */
    int restarts;          /* maximum number of restarts after failures */
    int argc;              /* the command and its arguments */
    char **argv;
};

/* Checks the configuration; sets nproc if it is 0. After STATUS_USAGE the message names the wrong
 * flag. */
MUST_CHECK enum status launch_config_check(struct launch_config *c);

/* Runs the job until it ends. STATUS_OK: the job ran, and its failures have been printed on stderr.
 * *exit_code is then 0, or the exit code of the first rank that failed; if a signal to this process
 * ended the job, 128 + the number of the signal. Any other status: mpirun could not run, or failed
 * by itself. On return no process of the job runs on this host. */
MUST_CHECK enum status launch_run(const struct launch_config *c, int *exit_code);

/* Prints the mpirun command line that launch_run would run, and an srun command line for the same
 * job. */
MUST_CHECK enum status launch_print(const struct launch_config *c, FILE *out);

/* The value of `flag` ("--out") in a command; the last value if the flag is given several times;
 * NULL: not given. */
const char *launch_command_value(int argc, char *const *argv, const char *flag);

struct supervisor_config {
    const char *program; /* this program's file */
    const char *log_dir;
    int threads; /* number of threads of the command; 0: the rank's share of cores */
    enum launch_bind bind;
    bool terminal; /* rank 0's command writes to a terminal */
    int argc;      /* the command and its arguments */
    char **argv;
};

struct node_config {
    struct supervisor_config rank; /* configuration of each rank's supervisor */
    int ranks;                     /* of this node */
    int nodes, node;
    int min_nodes; /* above 0: the job fails if fewer nodes have joined within join_timeout
                    * seconds */
    int join_timeout;
    bool restart;        /* the ranks have failed before */
    bool over_ssh;       /* launch_hosts_start started this process */
    const char *address; /* HOST:PORT, where rank 0 will listen; NULL: a free port of the loopback
                          * address */
};

/* Starts the supervisors of a node's ranks, as mpirun does, and waits for all of them. Forwards
 * SIGUSR1 to the supervisors, and ends them on any other stop signal. *exit_code is the exit code
 * of the first supervisor that failed, or 0. */
MUST_CHECK enum status launch_node(const struct node_config *c, int *exit_code);

/* Starts launch_node on each of c->hosts by ssh, and waits for all of them. launch_config_check and
 * the command line have set all members of *c. If a host is lost, ends the ranks on the other
 * hosts. Handles signals and *exit_code as launch_node does. */
MUST_CHECK enum status launch_hosts_start(const struct launch_config *c, int *exit_code);

/* Supervises a rank: runs its command and returns the command's exit code, or 128 + the number of
 * the signal that killed it. Returns 0 after an orderly stop, because after any other code mpirun
 * would end the ranks that have not stopped yet. */
int launch_supervise(const struct supervisor_config *c);
