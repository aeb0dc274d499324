/* Stop requests: SIGINT, SIGTERM, SIGHUP and SIGUSR1 set a flag that the training loop reads
 * between steps. Batch systems can send SIGUSR1 to warn of a time limit, and mpirun forwards it;
 * SIGHUP arrives when the terminal closes, and stays ignored under nohup.
 *
 * The first signal asks the training loop to stop in an orderly way. Two SIGINTs in a row end the
 * process at once. */
#pragma once

#include "base/status.h"

#include <stdbool.h>

/* Installs the handlers. Ignores SIGPIPE and SIGXFSZ, so that a write to a closed terminal or
 * beyond the file size limit fails with an error instead of ending the process. Blocks SIGCONT in
 * this thread and in threads that it starts later, for stop_was_paused. */
void stop_install(void);

/* Whether this process was stopped and continued (SIGSTOP, SIGCONT) since stop_install. */
bool stop_was_paused(void);

/* The name of a stop signal, such as "SIGINT". */
const char *stop_signal_str(int signo);

/* Returns STATUS_INTERRUPTED for a stop signal, which the message names; STATUS_OK for 0. */
MUST_CHECK enum status stop_status(int signo);

/* The name of the signal that arrived, or NULL. */
const char *stop_requested(void);

/* Returns STATUS_INTERRUPTED if a signal has arrived; the message names the signal. */
MUST_CHECK enum status stop_check(void);
