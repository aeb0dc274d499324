/* Output that does not keep a command from answering signals while nobody reads its stdout or
 * stderr: a stopped terminal, a stalled log collector, `| tee` onto storage that hangs. What the
 * reader does not take yet is kept, up to 256 KiB. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

/* Replaces stdout and stderr by such streams, of which fileno knows nothing. The descriptors and
 * their flags stay as they are, because other processes share them. With `drops`, output never
 * blocks: lines that do not fit are dropped, and a line says how many bytes were; output to a
 * reader that has gone is discarded, which is no error. Else output waits for its reader, until a
 * stop signal arrives. A second call changes `drops`, and finds a descriptor that was replaced. */
void output_begin(bool drops);

/* Writes the kept output that readers take now. Returns whether some is left. */
bool output_drain(void);

/* Waits until readers have taken the output, but only about a second after a stop signal, and
 * restores the earlier streams. Returns the errno with which stdout could not be written; EINTR:
 * a stop signal ended the waiting; 0. */
int output_end(void);
