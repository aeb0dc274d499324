/* SIGINT, SIGTERM, SIGHUP and SIGUSR1 as a question the training loop asks between steps. Batch
 * systems send SIGUSR1 where they are told to warn of a time limit, and mpirun passes it on; SIGHUP
 * comes when the terminal is gone, and is ignored where nohup has it so.
 *
 * The first signal asks for an orderly end; a second one of SIGINT ends the process at once, for
 * whoever does not want to wait. */
#ifndef BASE_STOP_H
#define BASE_STOP_H

#include "base/status.h"

/* Installs the handlers, and ignores SIGPIPE and SIGXFSZ so that a closed terminal and a limit on
 * file sizes are errors to report. */
void stop_install(void);

/* The name of the signal that arrived, or NULL. */
const char *stop_requested(void);

/* STATUS_INTERRUPTED, with that name, once one has arrived. */
MUST_CHECK enum status stop_check(void);
#endif
