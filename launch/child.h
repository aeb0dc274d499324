/* Inside launch/: a child process whose output is read as lines. */
#pragma once

#include "base/process.h"

enum { OUTPUT_LINE_MAX = 16384 };

/* Receives a line with its newline. A text without a newline is one of these: the end of a stream,
 * a part of a line longer than OUTPUT_LINE_MAX, or a line that the process will redraw. */
typedef void output_take(void *self, const char *line, size_t n);

/* Cuts a stream of bytes into lines. A progress bar redraws its line: it prints a carriage return,
 * and then the line again. */
struct output {
    output_take *take;
    output_take *copy; /* if not NULL: called with all bytes as they arrive */
    void *self;
    /* Whether `take` receives each version of a redrawn line as it arrives. If not, it receives
     * only the final version. */
    bool live;
    bool redrawn; /* the current line has been redrawn */
    int fd;       /* -1 after the stream's end */
    size_t n;
    char line[OUTPUT_LINE_MAX];
};

/* Appends `bytes`. Calls `take` for each line that is now complete, and stores the rest for the
 * next call. */
void output_feed(struct output *o, const char *bytes, size_t n);

/* Calls `take` for the last line, which has no newline. */
void output_end(struct output *o);

struct child_config {
    const char *program; /* looked up as a shell does */
    char *const *argv;   /* ends with NULL */
    bool terminal;       /* the child's standard output is a terminal; false: a pipe */
    bool session;        /* the child runs in a new session, with /dev/null as standard input;
                          * false: in a new process group */
    int death_signal;    /* signal that the child receives when this process dies */
};

/* The caller sets all members of `out` and `err` except `fd`. */
struct child {
    pid_t pid;  /* 0: the child has ended */
    int status; /* status of waitpid, after the child has ended */
    struct output out, err;
};

MUST_CHECK enum status child_start(const struct child_config *c, struct child *child);

/* Waits up to `timeout_ms` for output and, while the child runs, for signals; reads the output that
 * has arrived. False: nothing arrived in time. */
bool child_read(struct child *child, const struct process_signals *signals, int timeout_ms);

/* Returns the signal received since the last call, or 0. Also detects that the child has ended. */
int child_signal(struct child *child, const struct process_signals *signals);

/* Called when a child has ended. Reads the output that is left. Does not wait for output of
 * processes that the child has started. */
void child_close(struct child *child);
