/* Inside launch/: the parts of the launcher. */
#pragma once

#include "base/file.h"
#include "base/launcher.h"
#include "base/process.h"
#include "launch/launch.h"

#include <limits.h>
#include <sched.h>
#include <stdio.h>

/* MPI_KIND_NONE: this program starts the ranks itself. */
enum mpi_kind { MPI_KIND_OPENMPI, MPI_KIND_MPICH, MPI_KIND_NONE };

/* A job that is being launched. */
struct launch {
    struct launch_config config; /* with all values set */
    enum mpi_kind kind;
    bool over_tcp;    /* ranks of mpirun on --hosts connect over TCP: by Gloo, or without MPI */
    bool one_machine; /* all ranks of mpirun are on this machine */
    bool joins;       /* the launchers agree, before each start, on the nodes that take part */
    bool resume;      /* a restart: the command resumes from its checkpoint */
    struct temporary_dir shared; /* of Open MPI's shared memory; mpirun inherits its lock */
    struct process_signals signals;
    char log_dir[PATH_MAX];      /* an absolute path */
    char own_log_path[PATH_MAX]; /* of the log for output that comes from no rank */
    FILE *own_log;
};

/* --- command.c: command lines --- */

/* Append a whole command line: the supervisor of a rank, or mpirun, which starts them; srun,
 * without supervisors, because Slurm itself writes logs, binds ranks to cores and forwards signals;
 * the command of a rank, with --threads for its number of cores if it takes that and has none. */
MUST_CHECK enum status command_start(const struct launch *l, bool resume, struct words *w);
MUST_CHECK enum status command_srun(const struct launch *l, struct words *w);
MUST_CHECK enum status command_rank(const struct launch_config *c, int cores, struct words *w);

/* --- supervisor.c --- */

enum { REPORT_MAX = 2048, REASON_MAX = 1024, LINES_MAX = 16384 };

/* The last three have no code. ASKED acknowledges a request for an orderly stop. */
enum report_end {
    REPORT_KILLED,
    REPORT_STOPPED,
    REPORT_EXITED,
    REPORT_ENDED,
    REPORT_STARTED,
    REPORT_ASKED
};

/* A line that a supervisor writes to stderr about its rank: it starts, is to stop, or has failed:
 *   ampscale: rank 1 (host h, pid p) exited with code 5: cannot open 'x': no such file */
struct rank_report {
    enum report_end end;
    int rank;
    long pid;
    int code; /* the exit code that the end means, as a shell has it */
    char host[256];
    char reason[REASON_MAX]; /* the rank's error message without "ampscale: ", or "" */
};

/* Writes the line, with a newline; reads it, or returns false for any other line. */
void report_write(const struct rank_report *r, char out[REPORT_MAX]);
bool report_read(const char *line, struct rank_report *r);

/* The name of a signal without "SIG"; "?" if the number has no name. */
const char *signal_name(int signo);

/* The error message in a line that a command has printed on stderr, without "ampscale: ". NULL: the
 * line is a warning, or comes from another program. */
const char *error_of_line(const char *line);

/* Finds the first error message after the last heading of a rank's log. If there is none, `out`
 * gets the last line, and the result is false. */
bool log_reason(const char *log_dir, int rank, char out[REASON_MAX]);

/* Cuts a stream of bytes into lines, and passes each to `take`, with its newline and a NUL; a part
 * of a line that is too long has no newline, and nor has the rest, which lines_end passes. Of a
 * line that is redrawn after carriage returns, only the last version counts. */
struct lines {
    void (*take)(void *self, char *line, size_t n);
    void *self;
    size_t n;
    char text[LINES_MAX + 1];
};
void lines_feed(struct lines *l, const char *bytes, size_t n);
void lines_end(struct lines *l);

/* Waits up to `timeout_ms` for output on two streams (-1: ended) or for signals (-1: no wait), and
 * calls `take` with output of stream i. Returns false if nothing has arrived. */
bool streams_read(int stream[2], int signals, int timeout_ms,
                  void (*take)(void *self, int i, const char *bytes, size_t n), void *self);

/* Opens the two streams of children: pipes, or, if `terminal`, a pseudo-terminal for stdout that
 * passes every byte unchanged. After a failure the ends that are not open are unchanged. */
MUST_CHECK enum status streams_open(bool terminal, int own[2], int child[2]);

/* Starts a child process in a new session, with /dev/null as stdin. */
struct spawn {
    const char *program; /* found as a shell does, and run with no signal blocked */
    char *const *argv;
    int out, err;                       /* the child's stdout and stderr */
    int death_signal;                   /* signal that the child gets when this process dies */
    const struct launcher_place *place; /* exported with `address` to the child; NULL: neither is */
    const char *address;
};
MUST_CHECK enum status spawn(const struct spawn *c, pid_t *pid);

/* The number of cores of each rank, at least 1, if `ranks` ranks share `cores` equally. */
int cores_share(int ranks, int cores);

/* Reduces `*set`, the CPUs that the process may run on, to the rank's share: a range in the order
 * of socket and core. If there are more ranks than CPUs, ranks share CPUs. */
void cores_bind(const struct launcher_place *place, cpu_set_t *set);

/* --- join.c: nodes without MPI --- */

struct node_place {
    int first, size;                    /* rank of the node's first process; ranks of the job */
    bool resume;                        /* the command resumes from its checkpoint */
    char address[LAUNCHER_ADDRESS_MAX]; /* where rank 0 listens */
};

/* Finds the place of this node's ranks. If the launchers join, node 0 waits until all nodes have
 * joined, or at the time limit min_nodes, and numbers the ranks in the order of the nodes.
 * STATUS_LIBRARY: too few nodes, no node 0, or a refusal; STATUS_USAGE: the address or the secret
 * is wrong; STATUS_INTERRUPTED after a signal. */
MUST_CHECK enum status node_place_find(const struct launch *l, struct node_place *place);

/* --- job.c --- */

/* Runs the job once, until its last process on this host has ended. This process must be a
 * subreaper without other children. */
MUST_CHECK enum status job_run(const struct launch *l, int *exit_code);
