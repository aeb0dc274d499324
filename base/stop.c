/* Decides what each stop signal does. */
#include "base/stop.h"

#include "base/clock.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>

/* Two signals within this time are one request. */
#define SAME_NS UINT64_C(500000000)

/* The signal that asked for the stop, or 0, and when one that counts did. They are global, because
 * a signal handler has no argument for state, and atomic, because threads of comm/ read them. */
static atomic_int arrived;
static _Atomic uint64_t counted_ns;
_Static_assert(ATOMIC_INT_LOCK_FREE == 2 && ATOMIC_LONG_LOCK_FREE == 2,
               "a signal handler needs lock-free values");

enum stop_action stop_take(int signo)
{
    uint64_t now = clock_ns(), counted = 0;
    int none = 0;
    if (signo == SIGUSR1 && !atomic_compare_exchange_strong(&arrived, &none, signo))
        return STOP_NOTHING;
    if (signo != SIGUSR1 && !atomic_compare_exchange_strong(&counted_ns, &counted, now))
        return now < counted + SAME_NS ? STOP_NOTHING : STOP_AT_ONCE;
    arrived = signo;
    status_signal(signo);
    return STOP_ORDERLY;
}

static void on_signal(int signo)
{
    if (stop_take(signo) == STOP_AT_ONCE) {
        signal(signo, SIG_DFL);
        raise(signo);
    }
}

void stop_take_blocked(void)
{
    const struct timespec now = {0};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    int signo = sigtimedwait(&set, NULL, &now);
    if (signo > 0)
        (void)stop_take(signo);
}

void stop_install(void)
{
    struct sigaction a, hangup;
    memset(&a, 0, sizeof a);
    arrived = 0;
    counted_ns = 0;
    sigemptyset(&a.sa_mask);
    a.sa_handler = on_signal;
    a.sa_flags = SA_RESTART;
    sigaction(SIGINT, &a, NULL);
    sigaction(SIGTERM, &a, NULL);
    sigaction(SIGUSR1, &a, NULL);
    if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN)
        sigaction(SIGHUP, &a, NULL);
    sigaddset(&a.sa_mask, SIGCONT); /* continues the process all the same, and stays pending */
    pthread_sigmask(SIG_BLOCK, &a.sa_mask, NULL);
}

bool stop_was_paused(void)
{
    sigset_t set;
    return sigpending(&set) == 0 && sigismember(&set, SIGCONT) == 1;
}

int stop_signal(void)
{
    return arrived;
}

const char *stop_requested(void)
{
    static const char *const names[NSIG] = {
        [SIGINT] = "SIGINT", [SIGTERM] = "SIGTERM", [SIGHUP] = "SIGHUP", [SIGUSR1] = "SIGUSR1"};
    return names[arrived];
}

enum status stop_check(void)
{
    const char *name = stop_requested();
    return name ? status_fail(STATUS_INTERRUPTED, "interrupted by %s", name) : STATUS_OK;
}
