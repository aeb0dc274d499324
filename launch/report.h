/* Inside launch/: the one line that a rank's keeper writes about an end that was not in order. It
 * goes to stderr, through mpirun, to whoever started the job: people, and `ampscale launch`. */
#ifndef LAUNCH_REPORT_H
#define LAUNCH_REPORT_H

#include <stdbool.h>
#include <stddef.h>

enum { REPORT_MAX = 2048, REPORT_REASON_MAX = 1024 };

enum report_end {
    REPORT_EXITED,
    REPORT_KILLED,
    REPORT_STOPPED,
    REPORT_ENDED, /* it had said what is wrong, and was made to end before it exited */
};

struct rank_report {
    enum report_end end;
    int rank;
    long pid;
    int code; /* the rank's exit code; REPORT_KILLED: the signal; REPORT_ENDED: 1, a tool error */
    char host[256];
    char reason[REPORT_REASON_MAX]; /* what the rank said, without "ampscale: "; "" if nothing */
};

/* One of
 *   ampscale: rank 1 (host h, pid p) exited with code 5: cannot open 'x': no such file
 *   ampscale: rank 1 (host h, pid p) was killed by signal 9 (SIGKILL)
 *   ampscale: rank 1 (host h, pid p) was asked to stop, and exited with code 1
 *   ampscale: rank 1 (host h, pid p) was ended, having failed: cannot open 'x': no such file
 * with a newline. */
void report_write(const struct rank_report *r, char out[REPORT_MAX]);

/* Reads such a line of `n` bytes; false when it is something else. */
bool report_read(const char *line, size_t n, struct rank_report *r);

/* What a line that a command writes to stderr says is wrong: what comes behind "ampscale: ". NULL
 * for a warning, and for what is not ours. */
const char *report_reason(const char *line);

/* The exit code that stands for the report: the rank's, or 128 + the signal's number. */
int report_code(const struct rank_report *r);

/* "SIGKILL"; "signal" for a number without a name. */
void report_signal_name(int signo, char out[32]);
#endif
