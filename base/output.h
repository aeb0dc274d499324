/* Output that never blocks, for commands that must answer signals while nobody reads their stdout
 * or stderr: a stopped terminal, a stalled log collector, `| tee` onto storage that hangs. What the
 * reader does not take yet is kept, up to 256 KiB. Lines beyond that are dropped, and a line says
 * how many bytes were. Output to a reader that has gone is discarded, which is no error. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

/* Replaces stdout and stderr by such streams, of which fileno knows nothing. The descriptors and
 * their flags stay as they are, because other processes share them. */
void output_begin(void);

/* Writes the kept output that readers take now. Returns whether some is left. */
bool output_drain(void);

/* Waits until readers have taken the output, but only about a second after a stop signal, and
 * restores the earlier streams. What a full disk did not take goes to them, for their error. */
void output_end(void);
