/* Output that does not keep a command from answering signals while nobody reads its stdout or
 * stderr: a stopped terminal, a stalled log collector, `| tee` onto storage that hangs. What the
 * reader does not take yet is kept, up to 256 KiB. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

enum output_rule {
    OUTPUT_ENDS,  /* waits for its reader until a stop signal; without one, SIGPIPE ends the process
                   */
    OUTPUT_WAITS, /* the same, but output to a reader that has gone is discarded */
    OUTPUT_DROPS, /* never waits: what does not fit is dropped, and a line says how many bytes */
};

/* Replaces stdout and stderr by such streams, of which fileno knows nothing. The descriptors and
 * their flags stay as they are, because other processes share them. A second call changes the rule,
 * and finds a descriptor that was replaced. */
void output_begin(enum output_rule rule);

/* Writes the kept output that readers take now. Returns whether some is left. */
bool output_drain(void);

/* Waits until readers have taken the output, but only about a second after a stop signal, and
 * restores the earlier streams. Returns the errno with which stdout could not be written; EINTR:
 * a stop signal ended the waiting; 0. */
int output_end(void);
