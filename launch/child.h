/* Inside launch/: a child process whose output is read as lines. */
#pragma once

#include "base/process.h"

enum { OUTPUT_LINE_MAX = 16384 };

/* Takes a line with its newline. Text without a newline is the end of a stream, a part of a line
 * that is too long, or a line that is redrawn. */
typedef void output_take(void *self, const char *line, size_t n);

/* A stream of bytes cut into lines. A progress bar redraws its line after a carriage return. */
struct output {
    output_take *take;
    output_take *copy; /* takes all bytes as they arrive; NULL: not called */
    void *self;
    bool live;    /* true: `take` gets redrawn text as it arrives; false: only the final text of a
                   * line */
    bool redrawn; /* the current line has been redrawn */
    int fd;       /* -1 after the stream's end */
    size_t n;
    char line[OUTPUT_LINE_MAX];
};

/* Calls `take` for the lines that `bytes` complete, and keeps the rest for the next call. */
void output_feed(struct output *o, const char *bytes, size_t n);

/* Calls `take` for the last line, which has no newline. */
void output_end(struct output *o);

struct child_config {
    const char *program; /* looked up as a shell does */
    char *const *argv;   /* ends with NULL */
    bool terminal;       /* its standard output is a terminal; false: a pipe */
    bool session;        /* it runs in a session of its own, with /dev/null as standard input;
                          * false: in a process group of its own */
    int death_signal;    /* signal that it receives when this process dies */
};

/* The caller sets all members of `out` and `err` except `fd`. */
struct child {
    pid_t pid;  /* 0: the child has ended */
    int status; /* status of waitpid, once the child has ended */
    struct output out, err;
};

MUST_CHECK enum status child_start(const struct child_config *c, struct child *child);

/* Reads output that has arrived, or waits for output and, while the child runs, for signals. False:
 * nothing arrived within `timeout_ms`. */
bool child_read(struct child *child, const struct process_signals *signals, int timeout_ms);

/* Returns the signal received since the last call, or 0; detects the child's end. */
int child_signal(struct child *child, const struct process_signals *signals);

/* Reads the output that an ended child has left, without waiting for output of the child's own
 * children. */
void child_close(struct child *child);
