/* Replaces stdout and stderr by streams of glibc (fopencookie) that write to a buffer. */
#include "base/output.h"

#include "base/stop.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUFFER_BYTES = 256 << 10, NOTICE_BYTES = 128, WAIT_MS = 20, WAITS_AFTER_STOP = 50 };

static struct output {
    FILE *before, *stream; /* NULL: not replaced */
    int fd;
    size_t kept, dropped; /* numbers of bytes, the latter since the last notice */
    bool failed;          /* the last write, on a full disk for example */
    char bytes[BUFFER_BYTES + NOTICE_BYTES];
} outputs[2];

/* Writes kept bytes until the reader takes no more. A pipe that is ready has space for PIPE_BUF. */
static void drain(struct output *o)
{
    struct pollfd p = {.fd = o->fd, .events = POLLOUT};
    size_t done = 0;
    ssize_t n = 0;
    while (done < o->kept && n >= 0 && poll(&p, 1, 0) == 1) {
        n = write(o->fd, o->bytes + done, o->kept - done < PIPE_BUF ? o->kept - done : PIPE_BUF);
        done += n > 0 ? (size_t)n : 0;
    }
    o->failed = n < 0 && errno != EAGAIN && errno != EINTR;
    if (o->failed &&
        (errno == EPIPE || errno == ECONNRESET || errno == EBADF || o->fd > STDERR_FILENO)) {
        o->failed = false; /* the reader has gone, or there was none */
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

/* Streams pass whole lines, or what was flushed. */
static ssize_t put(void *cookie, const char *bytes, size_t n)
{
    struct output *o = cookie;
    drain(o);
    bool fits = o->dropped == 0 && n <= BUFFER_BYTES - o->kept;
    if (fits)
        memcpy(o->bytes + o->kept, bytes, n);
    *(fits ? &o->kept : &o->dropped) += n;
    drain(o);
    return o->failed ? 0 : (ssize_t)n;
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

static FILE *replace(struct output *o, FILE *before, int mode)
{
    *o = (struct output){.before = before, .fd = open_again(fileno(before))};
    o->stream = fopencookie(o, "w", (cookie_io_functions_t){.write = put});
    if (!o->stream)
        return before; /* its output may block */
    fflush(before);
    setvbuf(o->stream, NULL, mode, BUFSIZ);
    return o->stream;
}

void output_begin(void)
{
    stdout = replace(&outputs[0], stdout, _IOLBF);
    stderr = replace(&outputs[1], stderr, _IONBF);
}

bool output_drain(void)
{
    bool waits = false;
    for (struct output *o = outputs; o < outputs + 2; o++)
        if (o->stream) {
            flockfile(o->stream);
            drain(o);
            waits = waits || (o->kept > 0 && !o->failed);
            funlockfile(o->stream);
        }
    return waits;
}

void output_end(void)
{
    fflush(stdout);
    for (int left = WAITS_AFTER_STOP; left > 0 && output_drain(); left -= stop_signal() != 0)
        poll(NULL, 0, WAIT_MS);
    for (struct output *o = outputs; o < outputs + 2; o++)
        if (o->stream) {
            *(o == outputs ? &stdout : &stderr) = o->before;
            if (ferror(o->stream))
                fwrite(o->bytes, 1, o->kept, o->before);
        }
}
