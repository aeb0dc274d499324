/* Redraws a terminal with the escape sequences of ECMA-48, and with xterm's for the alternate
 * screen. */
#include "watch/screen.h"

#include "base/bar.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define ENTER "\033[?1049h\033[?25l" /* alternate screen, no cursor */
#define LEAVE "\033[?25h\033[?1049l"
#define HOME  "\033[H"
#define REST  "\033[K" /* clear the rest of the line */
#define BELOW "\033[J" /* clear all lines below */

static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGWINCH};

static void say(const struct screen *s, const char *sequence)
{
    if (!s->terminal)
        return;
    fputs(sequence, s->out);
    fflush(s->out);
}

enum status screen_open(FILE *out, struct screen *s)
{
    sigset_t set;
    *s = (struct screen){.out = out, .signals = -1};
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaddset(&set, signals[i]);
    if (sigprocmask(SIG_BLOCK, &set, NULL) == 0)
        s->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (s->signals < 0)
        return status_fail(STATUS_IO, "cannot wait for signals: %s", strerror(errno));
    s->terminal = bar_redraws(out);
    say(s, ENTER);
    return STATUS_OK;
}

void screen_close(struct screen *s)
{
    if (s->signals < 0)
        return;
    say(s, LEAVE);
    close(s->signals);
    s->signals = -1;
}

void screen_size(const struct screen *s, int *width, int *height)
{
    struct winsize size;
    *width = 80;
    *height = 0;
    if (!s->terminal || ioctl(fileno(s->out), TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return;
    *width = size.ws_col;
    *height = size.ws_row;
}

/* Writes no line break after the last row, because it would scroll the screen. */
void screen_show(struct screen *s, const char *text)
{
    if (!s->terminal) {
        fprintf(s->out, "%s\n", text);
        fflush(s->out);
        return;
    }
    fputs(HOME, s->out);
    while (*text) {
        size_t size = strcspn(text, "\n");
        fwrite(text, 1, size, s->out);
        fputs(REST, s->out);
        text += size + (text[size] == '\n');
        if (*text)
            fputs("\r\n", s->out);
    }
    fputs(BELOW, s->out);
    fflush(s->out);
}

/* Stops the process, as an unblocked SIGTSTP would. After SIGCONT, the process continues here. */
static void suspend(struct screen *s)
{
    say(s, LEAVE);
    kill(getpid(), SIGSTOP);
    say(s, ENTER);
}

enum status screen_wait(struct screen *s, double seconds, bool *ended)
{
    struct signalfd_siginfo info;
    struct pollfd ready = {.fd = s->signals, .events = POLLIN};
    *ended = false;
    int n = poll(&ready, 1, (int)(seconds * 1000));
    if (n < 0 && errno != EINTR)
        return status_fail(STATUS_IO, "cannot wait: %s", strerror(errno));
    while (read(s->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGTSTP)
            suspend(s);
        else if (info.ssi_signo != SIGWINCH)
            *ended = true;
    }
    return STATUS_OK;
}
