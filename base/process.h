/* Child processes, each with a group of its own, a log, and a time limit; and the signals that ask
 * for an end meanwhile.
 *
 *     TRY(process_run(&config, &end));                       one, to its end
 *
 *     TRY(process_start(&config, &child[i]));                or several at the same time
 *     while (process_any(child, n)) {
 *         TRY(process_wait(&signals, child, n, &which));     child[which].end says how it ended
 *     }
 *
 * The first SIGINT, SIGTERM, SIGHUP or SIGUSR1 is handed on to all as SIGTERM, on which `train` and
 * `launch` stop in order; a second one, or the grace's end, makes it SIGTERM again and then SIGKILL
 * for the whole group. So does the time limit, for the one whose it is. A child whose parent is
 * killed gets SIGTERM too. */
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

#include "base/status.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Signals held back from this process, and read where it waits. Begins with process_signals_open.
 */
struct process_signals {
    int fd;
    sigset_t before;
};
MUST_CHECK enum status process_signals_open(struct process_signals *s);
void process_signals_close(struct process_signals *s);

/* The signal that has asked for an end since the last call, or 0. */
int process_signals_received(const struct process_signals *s);

enum { PROCESS_MESSAGE_SIZE = 320 };

struct process_config {
    char *const *argv; /* ends with NULL; argv[0] is looked up as a shell does */
    const char *log;   /* what it says goes there, in place of what an earlier one said; NULL: where
                        * this process's own goes */
    const char *out;   /* and there what it writes to standard output; NULL: to the log too, which
                        * there must be */
    int talk;          /* above 0: a descriptor, of a socket say, that is its standard input and
                        * output, in place of /dev/null and `out` */
    const struct process_signals *signals;
    int64_t limit_s; /* 0: none */
    int64_t grace_s; /* for an orderly stop; where it is less than 10, for the second request too */
};

struct process_end {
    int code;     /* its exit code; 128 and the number of the signal that ended it */
    int received; /* the signal that asked for an end, or 0 */
    bool late;    /* it ran into the limit */
    double seconds;
    char message[PROCESS_MESSAGE_SIZE]; /* its last line of ours without "ampscale: ", else its last
                                         * line; "" if it said nothing, or has no log */
};

/* One that was started. Begins as {0}. */
struct process {
    pid_t pid; /* 0: none runs */
    struct process_end end;
    int log; /* -1: it has none */
    int64_t grace_s;
    int asked;                 /* to end: 0, then with SIGTERM once or twice, then killed */
    uint64_t begun_ns, due_ns; /* when the next step to its end comes; 0: not at all */
};

/* The file of this program, to be run as a child. */
MUST_CHECK enum status process_own_file(char *out, size_t size);

/* Runs it to its end. A failure is that it could not be started or waited for. */
MUST_CHECK enum status process_run(const struct process_config *c, struct process_end *end);

/* Starts one, which has to be waited for or killed. */
MUST_CHECK enum status process_start(const struct process_config *c, struct process *child);

/* Waits until one of those that run among n has ended, *which: there is one, and all were started
 * with these signals. */
MUST_CHECK enum status process_wait(const struct process_signals *signals, struct process *child,
                                    int n, int *which);

/* Whether one of n runs. */
bool process_any(const struct process *child, int n);

/* Kills, with their groups, those that run among n. */
void process_kill(struct process *child, int n);
#endif
