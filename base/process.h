/* Runs child processes, each with its own process group, log and time limit, and handles the
 * signals that ask this process to stop while the children run.
 *
 *     TRY(process_run(&config, &end));                       one child, until it ends
 *
 *     TRY(process_start(&config, &child[i]));                or several children at a time
 *     while (process_any(child, n)) {
 *         TRY(process_wait(&signals, child, n, &which));     child[which].end: how it ended
 *     }
 *
 * A request for an orderly stop (base/stop.h) is forwarded to all children as SIGTERM; `train` and
 * `launch` then stop in an orderly way. A second signal, or the end of the grace period, sends
 * SIGTERM again, which ends them. A third signal, or the end of the next grace period, sends
 * SIGKILL to the child's whole process group. A child's time limit starts the same sequence for
 * that child alone. A child whose parent is killed gets SIGTERM too. */
#pragma once

#include "base/stop.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* process_signals_open blocks the stop signals; this process then reads them from `fd` while it
 * waits for children. `before` is the earlier signal mask. */
struct process_signals {
    int fd;
    sigset_t before;
};
MUST_CHECK enum status process_signals_open(struct process_signals *s);
void process_signals_close(struct process_signals *s);

/* The next stop signal that has been received, or 0. Only for signals that ask for something else
 * than base/stop.h says. */
int process_signals_next(const struct process_signals *s);

/* Notes the signals that have been received, and returns the most that they ask for; or fails as
 * stop_check does. */
enum stop_action process_signals_take(const struct process_signals *s);
MUST_CHECK enum status process_signals_check(const struct process_signals *s);

enum {
    PROCESS_MESSAGE_SIZE = 320,
    PROCESS_NOT_STARTED = 127, /* exit code of a child that could not run its program */
};

struct process_config {
    char *const *argv; /* ends with NULL; argv[0] is found through PATH, as in a shell */
    const char *dir;   /* folder in which it runs; NULL: this process's */
    const char *log;   /* file for the child's stderr, emptied first; NULL: this process's stderr */
    const char *out;   /* file for the child's stdout; NULL: `log`, which must then not be NULL */
    int output;        /* above 0: a descriptor that becomes the child's stdout and stderr, in place
                        * of `out` and `log` */
    int talk;          /* above 0: a descriptor, for example a socket, that becomes the child's
                        * stdin and stdout, in place of /dev/null and `out` */
    const struct process_signals *signals; /* NULL: the child keeps the signal mask */
    int64_t limit_s;                       /* 0: none */
    int64_t grace_s; /* seconds from the first stop request to the second. The third request follows
                      * the second after the same time, but after at most 10 s */
};

struct process_end {
    int code;  /* exit code, or 128 + the number of the signal that ended it; that of STATUS_DATA if
                * it failed without a message, and its log cannot be written */
    bool late; /* the child ran past its time limit */
    double seconds;
    char message[PROCESS_MESSAGE_SIZE]; /* the last line of the child's log that begins with
                                         * "ampscale: ", without this prefix; if there is no such
                                         * line, the log's last line; "": no output or no log */
};

/* A child process. Begins as {0}. */
struct process {
    pid_t pid; /* 0: none runs */
    struct process_end end;
    int log; /* -1: none */
    int64_t grace_s;
    int asked;                 /* number of stop requests sent: the first two are SIGTERM, all later
                                * ones SIGKILL */
    uint64_t begun_ns, due_ns; /* due_ns: when the next request is due; 0: never */
};

/* Writes the path of this program's file, with which the program can run itself as a child. */
MUST_CHECK enum status process_own_file(char *out, size_t size);

/* Runs a child until it ends. Fails if the child cannot be started or waited for. */
MUST_CHECK enum status process_run(const struct process_config *c, struct process_end *end);

/* Starts a child, which the caller must wait for or kill. */
MUST_CHECK enum status process_start(const struct process_config *c, struct process *child);

/* Waits until one of the n children has ended; *which is its index. At least one child must run,
 * and all children must have been started with `signals`. */
MUST_CHECK enum status process_wait(const struct process_signals *signals, struct process *child,
                                    int n, int *which);

/* Whether any of the n children is running. */
bool process_any(const struct process *child, int n);

/* Kills those of the n children that are running, and their process groups. */
void process_kill(struct process *child, int n);
