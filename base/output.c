/* Replaces stdout and stderr by streams of glibc (fopencookie) that write to a buffer. */
#include "base/output.h"

#include "base/stop.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUFFER_BYTES = 256 << 10, NOTICE_BYTES = 128, WAIT_MS = 20, WAITS_AFTER_STOP = 50 };

static struct output {
    FILE *before, *stream; /* NULL: not replaced */
    int fd, error;         /* error: errno of the last write, on a full disk for example; 0: none */
    enum output_rule rule;
    size_t kept, dropped; /* numbers of bytes, the latter since the last notice */
    char bytes[BUFFER_BYTES + NOTICE_BYTES];
} outputs[2];

/* Whether a stop signal has arrived; one that is blocked waits for the command to read it. */
static bool stopped(void)
{
    sigset_t set;
    return stop_signal() || (sigpending(&set) == 0 &&
                             (sigismember(&set, SIGINT) == 1 || sigismember(&set, SIGTERM) == 1 ||
                              sigismember(&set, SIGHUP) == 1));
}

/* Writes kept bytes until the reader takes no more for `ms` milliseconds. A pipe that is ready has
 * space for PIPE_BUF. A result that could not be written is not tried again. */
static void drain(struct output *o, int ms)
{
    struct pollfd p = {.fd = o->fd, .events = POLLOUT};
    size_t done = 0;
    ssize_t n = 0;
    if (o->error && o->rule != OUTPUT_DROPS)
        return;
    while (done < o->kept && n >= 0 && poll(&p, 1, ms) == 1) {
        n = write(o->fd, o->bytes + done, o->kept - done < PIPE_BUF ? o->kept - done : PIPE_BUF);
        done += n > 0 ? (size_t)n : 0;
    }
    o->error = n < 0 && errno != EAGAIN && errno != EINTR ? errno : 0;
    if (o->error == EPIPE && o->rule == OUTPUT_ENDS && o == &outputs[0]) {
        signal(SIGPIPE, SIG_DFL);
        raise(SIGPIPE);
    }
    bool never = o->rule == OUTPUT_DROPS && (o->error == EBADF || o->fd > STDERR_FILENO);
    if (o->error && (o->error == EPIPE || never)) {
        o->error = 0; /* the reader has gone, or there was none */
        done = o->kept;
    }
    o->kept -= done;
    memmove(o->bytes, o->bytes + done, o->kept);
    if (o->kept == 0 && o->dropped > 0) {
        o->kept = (size_t)sprintf(
            o->bytes, "ampscale: warning: nobody read %zu bytes of output here\n", o->dropped);
        o->dropped = 0;
    }
}

static ssize_t put(void *cookie, const char *bytes, size_t n)
{
    struct output *o = cookie;
    drain(o, 0);
    for (size_t left = n; left > 0;) {
        size_t space = o->dropped ? 0 : BUFFER_BYTES - o->kept, part = left < space ? left : space;
        if (part < left && (o->rule == OUTPUT_DROPS || o->error || stopped())) {
            o->dropped += left;
            break;
        }
        memcpy(o->bytes + o->kept, bytes + n - left, part);
        o->kept += part;
        left -= part;
        drain(o, left > 0 ? WAIT_MS : 0);
    }
    errno = o->error;
    return o->error ? 0 : (ssize_t)n;
}

/* Opens a pipe or terminal again, with an O_NONBLOCK of its own; `fd` itself if it cannot. */
static int open_again(int fd)
{
    char path[32];
    struct stat s;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    bool can = fstat(fd, &s) == 0 && (S_ISFIFO(s.st_mode) || isatty(fd));
    int again = can ? open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC) : -1;
    return again >= 0 ? again : fd;
}

static void begin(struct output *o, FILE **stream, int mode, enum output_rule rule)
{
    if (!o->stream && (o->stream = fopencookie(o, "w", (cookie_io_functions_t){.write = put}))) {
        o->before = *stream;
        fflush(o->before);
        *stream = o->stream;
    }
    if (o->stream)
        setvbuf(o->stream, NULL, mode, BUFSIZ);
    o->fd = o->stream ? open_again(fileno(o->before)) : -1;
    o->rule = rule;
}

void output_begin(enum output_rule rule)
{
    bool lines = rule == OUTPUT_DROPS || isatty(STDOUT_FILENO);
    signal(SIGPIPE, SIG_IGN); /* a file that the user named must be completed or removed */
    begin(&outputs[0], &stdout, lines ? _IOLBF : _IOFBF, rule);
    begin(&outputs[1], &stderr, _IONBF, rule);
}

bool output_drain(void)
{
    bool waits = false;
    for (struct output *o = outputs; o < outputs + 2; o++)
        if (o->stream) {
            flockfile(o->stream);
            drain(o, 0);
            waits = waits || (o->kept > 0 && !o->error);
            funlockfile(o->stream);
        }
    return waits;
}

int output_end(void)
{
    struct output *o = outputs;
    fflush(stdout);
    for (int left = WAITS_AFTER_STOP; left > 0 && output_drain(); left -= stopped())
        poll(NULL, 0, WAIT_MS);
    stop_take_blocked(); /* the command has ended, and reads no more signals */
    if (o->stream && o->rule != OUTPUT_DROPS && !o->error && o->kept + o->dropped > 0)
        o->error = EINTR;
    stdout = o->stream ? o->before : stdout;
    stderr = o[1].stream ? o[1].before : stderr;
    return o->stream && (o->rule != OUTPUT_DROPS || ferror(o->stream)) ? o->error : 0;
}
