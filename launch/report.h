/* Inside launch/: the line that a rank's supervisor writes to stderr about a rank that failed.
 * mpirun forwards it to the user or to `ampscale launch`. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { REPORT_MAX = 2048, REPORT_REASON_MAX = 1024 };

enum report_end {
    REPORT_EXITED,
    REPORT_KILLED,
    REPORT_STOPPED,
    REPORT_ENDED, /* the rank had printed an error before the end of the job stopped it */
};

struct rank_report {
    enum report_end end;
    int rank;
    long pid;
    int code; /* the rank's exit code; for REPORT_KILLED: the number of the signal; for
               * REPORT_ENDED: 1 (tool error) */
    char host[256];
    char reason[REPORT_REASON_MAX]; /* the rank's error message without "ampscale: ", or "" */
};

/* Writes one of these lines, with a newline:
 *   ampscale: rank 1 (host h, pid p) exited with code 5: cannot open 'x': no such file
 *   ampscale: rank 1 (host h, pid p) was killed by signal 9 (SIGKILL)
 *   ampscale: rank 1 (host h, pid p) was asked to stop, and exited with code 143
 *   ampscale: rank 1 (host h, pid p) had failed before the launcher ended it: cannot open 'x'
 */
void report_write(const struct rank_report *r, char out[REPORT_MAX]);

/* Reads a line of `n` bytes that report_write has written; returns false for any other line. */
bool report_read(const char *line, size_t n, struct rank_report *r);

/* Returns the error message in a line that a command has printed on stderr, without "ampscale: ".
 * NULL: the line is a warning, or comes from another program. */
const char *report_reason(const char *line);

/* The exit code that corresponds to the report: the rank's exit code, or 128 + the number of the
 * signal. */
int report_code(const struct rank_report *r);

/* Writes the name of a signal, such as "SIGKILL"; "signal" if the number has no name. */
void report_signal_name(int signo, char out[32]);
