/* Handles the signals of crashes. */
#include "base/crash.h"

#include <execinfo.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { CALLS_MAX = 64, STACK_BYTES = 1 << 16 };

static const struct {
    int signo;
    const char *name;
} crashes[] = {{SIGSEGV, "SIGSEGV"},
               {SIGBUS, "SIGBUS"},
               {SIGFPE, "SIGFPE"},
               {SIGILL, "SIGILL"},
               {SIGABRT, "SIGABRT"}};

static _Thread_local const struct crash_note *volatile noted;

void crash_note(const struct crash_note *note)
{
    noted = note;
}

static void put(int fd, const char *text)
{
    ssize_t written = write(fd, text, strlen(text));
    (void)written; /* nothing can be done about a failure */
}

static void say(const char *text)
{
    put(STDERR_FILENO, text);
}

static void report_note(const struct crash_note *note)
{
    const int flags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    if (!note)
        return;
    int journal = *note->journal ? open(note->journal, flags, 0600) : -1;
    if (journal >= 0)
        put(journal, note->line);
    say(" in ");
    say(note->about);
}

/* Calls only functions that a signal handler may call. SA_RESETHAND has restored the default: the
 * signal that is raised here ends the process when the handler returns. */
static void on_crash(int signo)
{
    void *call[CALLS_MAX];
    const char *name = "a signal";
    for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++)
        if (crashes[i].signo == signo)
            name = crashes[i].name;
    say("ampscale: crashed by ");
    say(name);
    report_note(noted);
    say("; the calls, innermost first:\n");
    backtrace_symbols_fd(call, backtrace(call, CALLS_MAX), STDERR_FILENO);
    raise(signo);
}

void crash_report(void)
{
    static char stack[STACK_BYTES]; /* where the main thread's own stack has overflowed */
    const stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction a, before;
    void *call[1];
    memset(&a, 0, sizeof a);
    sigemptyset(&a.sa_mask);
    a.sa_handler = on_crash;
    a.sa_flags = (int)(SA_RESETHAND | SA_ONSTACK);
    backtrace(call, 1); /* the first call loads a library, which a signal handler must not do */
    sigaltstack(&other, NULL);
    for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++)
        if (sigaction(crashes[i].signo, NULL, &before) == 0 && before.sa_handler == SIG_DFL)
            sigaction(crashes[i].signo, &a, NULL);
}
