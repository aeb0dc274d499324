/* Stop requests by signals. The rules, for every command that handles them:
 *
 * - The first SIGINT, SIGTERM or SIGHUP asks for an orderly stop, the second one ends at once:
 *   `train` by the signal's default action, a parent of other processes by ending those.
 * - Two of them within 0.5 s are one request: `timeout` sends its signal to its child and to the
 *   process group, and batch systems do alike.
 * - SIGUSR1 asks for an orderly stop too, but never counts as first or second: batch systems send
 *   it to warn of a time limit, and `launch` repeats it.
 *
 * SIGHUP arrives when the terminal closes, and stays ignored under nohup. */
#pragma once

#include "base/status.h"

#include <stdbool.h>

enum stop_action { STOP_NOTHING, STOP_ORDERLY, STOP_AT_ONCE };

/* Notes a stop signal, and returns what it asks for. A signal handler may call it. */
enum stop_action stop_take(int signo);

/* Calls stop_take for a blocked stop signal that has arrived. */
void stop_take_blocked(void);

/* Installs handlers that call stop_take, and forgets earlier signals. Blocks SIGCONT in
 * this thread and in threads that it starts later, for stop_was_paused. */
void stop_install(void);

/* Whether this process was stopped and continued (SIGSTOP, SIGCONT) since stop_install. */
bool stop_was_paused(void);

/* The signal that asked this process to stop, or 0; and its name, such as "SIGINT", or NULL. */
int stop_signal(void);
const char *stop_requested(void);

/* Returns STATUS_INTERRUPTED if a signal has arrived; the message names the signal. */
MUST_CHECK enum status stop_check(void);
