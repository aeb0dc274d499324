/* Redraws a view until the run ends or a signal asks to stop.
 *
 * Uses the escape sequences of ECMA-48, and xterm's for the alternate screen: at the end of the
 * view, the terminal shows its previous content again. SIGINT, SIGTERM and SIGHUP request the end.
 * SIGTSTP restores the terminal before the process stops. A change of the window's size ends a wait
 * early. */
#include "watch/watch.h"

#include "base/bar.h"
#include "base/file.h"
#include "base/stop.h"
#include "base/text_new.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* Number of failed polls after which the view gives up. A file that is being moved can be read
 * again soon, a damaged file cannot. */
enum { FAILURES_MAX = 3 };

#define ENTER "\033[?1049h\033[?25l" /* alternate screen, no cursor */
#define LEAVE "\033[?25h\033[?1049l"
#define HOME  "\033[H"
#define REST  "\033[K" /* clear the rest of the line */
#define BELOW "\033[J" /* clear all lines below */

struct screen {
    FILE *out;
    bool terminal; /* `out` is a terminal that can be redrawn; if not, only the signals are handled
                    */
    int signals;   /* descriptor from which signals are read */
};

static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGWINCH};

static void say(const struct screen *s, const char *sequence)
{
    if (!s->terminal)
        return;
    fputs(sequence, s->out);
    fflush(s->out);
}

/* Blocks SIGINT, SIGTERM, SIGHUP, SIGTSTP and SIGWINCH, which stay blocked after screen_close. No
 * other code may wait for them. */
static enum status screen_open(FILE *out, struct screen *s)
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

/* Also after screen_open failed. */
static void screen_close(struct screen *s)
{
    if (s->signals < 0)
        return;
    say(s, LEAVE);
    fd_close(&s->signals);
}

/* Sets the columns and rows of the terminal; 80 and 0 if there is no terminal. */
static void screen_size(const struct screen *s, int *width, int *height)
{
    struct winsize size;
    *width = 80;
    *height = 0;
    if (!s->terminal || ioctl(bar_descriptor(s->out), TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return;
    *width = size.ws_col;
    *height = size.ws_row;
}

/* Replaces the lines that are shown. Writes no line break after the last row, because it would
 * scroll the screen. */
static void screen_show(struct screen *s, const char *text)
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

/* Stops the process, if somebody can continue it. After SIGCONT, the process continues here. */
static void suspend(struct screen *s)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTSTP);
    say(s, LEAVE);
    raise(SIGTSTP);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    sigprocmask(SIG_BLOCK, &set, NULL);
    say(s, ENTER);
}

/* Waits for `seconds` seconds, or until the window's size changes or a stop signal arrives. */
static enum status screen_wait(struct screen *s, double seconds)
{
    struct signalfd_siginfo info;
    struct pollfd ready = {.fd = s->signals, .events = POLLIN};
    int n = poll(&ready, 1, (int)(seconds * 1000));
    if (n < 0 && errno != EINTR)
        return status_fail(STATUS_IO, "cannot wait: %s", strerror(errno));
    while (read(s->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGTSTP)
            suspend(s);
        else if (info.ssi_signo != SIGWINCH)
            stop_take((int)info.ssi_signo);
    }
    return STATUS_OK;
}

static enum status show(struct screen *s, const struct watch *w, bool ascii, char **before)
{
    struct watch_options o = {.ascii = ascii};
    struct text_stream text;
    screen_size(s, &o.width, &o.height);
    TRY(text_stream_open(&text));
    enum status st = watch_view(w, &o, text.out);
    enum status closed = text_stream_close(&text);
    /* Without a terminal, a view is written only if it differs from the last view. */
    if (st == STATUS_OK && closed == STATUS_OK &&
        (s->terminal || !*before || strcmp(text.text, *before) != 0))
        screen_show(s, text.text);
    free(*before);
    *before = text.text;
    return st == STATUS_OK ? closed : st;
}

static enum status follow(const struct watch_follow *c, struct watch *w, struct screen *s,
                          char **before)
{
    bool over = false;
    int failures = 0;
    for (;;) {
        enum status st = watch_poll(w, &over);
        failures = st == STATUS_OK ? 0 : failures + 1;
        if (failures == FAILURES_MAX)
            return st;
        if (st == STATUS_OK)
            TRY(show(s, w, c->ascii, before));
        if (st == STATUS_OK && over)
            return STATUS_OK;
        TRY(screen_wait(s, c->interval));
        if (stop_signal())
            return stop_signal() == SIGINT ? STATUS_OK : stop_check();
    }
}

enum status watch_follow(const struct watch_follow *c, FILE *out)
{
    enum status st;
    struct watch *w = NULL;
    struct screen screen = {.signals = -1};
    char *last = NULL;
    CHECK(watch_open(c->dir, &w));
    if (c->once) {
        struct watch_options o = {.width = 80, .ascii = c->ascii};
        CHECK(watch_view(w, &o, out));
        goto done;
    }
    CHECK(screen_open(out, &screen));
    CHECK(follow(c, w, &screen, &last));
done:
    screen_close(&screen);
    /* The last view stays on the terminal. */
    if (screen.terminal && st == STATUS_OK && last)
        fputs(last, out);
    free(last);
    watch_close(w);
    return st;
}
