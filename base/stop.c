/* Signal handlers that set a flag. */
#include "base/stop.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>

/* The last signal, or 0. It is global, because a signal handler has no argument for state, and
 * atomic, because threads of comm/ read it. */
static atomic_int arrived;
_Static_assert(ATOMIC_INT_LOCK_FREE == 2, "a signal handler needs a lock-free flag");

static void on_signal(int signo)
{
    if (arrived == SIGINT && signo == SIGINT) {
        signal(SIGINT, SIG_DFL);
        raise(SIGINT);
    }
    arrived = signo;
    status_signal(signo);
}

void stop_install(void)
{
    struct sigaction a, hangup;
    memset(&a, 0, sizeof a);
    arrived = 0;
    sigemptyset(&a.sa_mask);
    a.sa_handler = on_signal;
    a.sa_flags = SA_RESTART;
    sigaction(SIGINT, &a, NULL);
    sigaction(SIGTERM, &a, NULL);
    sigaction(SIGUSR1, &a, NULL);
    if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN)
        sigaction(SIGHUP, &a, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    sigaddset(&a.sa_mask, SIGCONT); /* continues the process all the same, and stays pending */
    pthread_sigmask(SIG_BLOCK, &a.sa_mask, NULL);
}

bool stop_was_paused(void)
{
    sigset_t set;
    return sigpending(&set) == 0 && sigismember(&set, SIGCONT) == 1;
}

const char *stop_signal_str(int signo)
{
    return signo == SIGINT    ? "SIGINT"
           : signo == SIGTERM ? "SIGTERM"
           : signo == SIGHUP  ? "SIGHUP"
           : signo == SIGUSR1 ? "SIGUSR1"
                              : strsignal(signo);
}

enum status stop_status(int signo)
{
    return signo ? status_fail(STATUS_INTERRUPTED, "interrupted by %s", stop_signal_str(signo))
                 : STATUS_OK;
}

const char *stop_requested(void)
{
    return arrived ? stop_signal_str(arrived) : NULL;
}

enum status stop_check(void)
{
    return stop_status(arrived);
}
