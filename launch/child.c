/* Starts child processes, and reads their output. */
#include "launch/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

/* --- lines --- */

void output_end(struct output *o)
{
    if (o->n > 0)
        o->take(o->self, o->line, o->n);
    o->n = 0;
}

/* Handles a carriage return, after which the next bytes overwrite the line. */
static void redraw(struct output *o)
{
    if (o->live)
        output_end(o);
    o->n = 0;
    o->redrawn = true;
}

void output_feed(struct output *o, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        /* A carriage return means that the line is redrawn, unless a newline follows it. */
        if (o->n > 0 && o->line[o->n - 1] == '\r' && bytes[i] != '\n')
            redraw(o);
        o->line[o->n++] = bytes[i];
        if (bytes[i] == '\n')
            o->redrawn = false;
        if (bytes[i] == '\n' || o->n == sizeof o->line)
            output_end(o);
    }
    if (o->live && o->redrawn)
        output_end(o);
}

static void output_read(struct output *o)
{
    char bytes[8192];
    ssize_t n = read(o->fd, bytes, sizeof bytes);
    if (n < 0 && errno == EINTR)
        return;
    if (n <= 0) { /* the stream has ended; a read from a terminal then fails with EIO */
        output_end(o);
        close(o->fd);
        o->fd = -1;
        return;
    }
    if (o->copy)
        o->copy(o->self, bytes, (size_t)n);
    output_feed(o, bytes, (size_t)n);
}

/* --- processes --- */

/* Opens both ends of a child's output stream: a pipe, or a pseudo-terminal that passes every byte
 * unchanged. */
static enum status open_pipe(bool terminal, int fd[2])
{
    char name[128];
    struct termios mode;
    if (!terminal)
        return pipe2(fd, O_CLOEXEC) == 0
                   ? STATUS_OK
                   : status_fail(STATUS_IO, "cannot create a pipe: %s", strerror(errno));
    fd[0] = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (fd[0] >= 0 && grantpt(fd[0]) == 0 && unlockpt(fd[0]) == 0 &&
        ptsname_r(fd[0], name, sizeof name) == 0) {
        fd[1] = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
        if (fd[1] >= 0 && tcgetattr(fd[1], &mode) == 0) {
            cfmakeraw(&mode);
            if (tcsetattr(fd[1], TCSANOW, &mode) == 0)
                return STATUS_OK;
        }
    }
    return status_fail(STATUS_IO, "cannot create a terminal: %s", strerror(errno));
}

/* Runs in the child and does not return. Prints an error to the command's stderr. */
static void become(const struct child_config *c, int out, int err, pid_t parent)
{
    sigset_t none;
    sigemptyset(&none);
    signal(SIGPIPE, SIG_DFL);
    int in = c->session ? open("/dev/null", O_RDONLY | O_CLOEXEC) : -1;
    bool apart =
        c->session ? in >= 0 && setsid() > 0 && dup2(in, STDIN_FILENO) >= 0 : setpgid(0, 0) == 0;
    if (apart && prctl(PR_SET_PDEATHSIG, c->death_signal) == 0 && getppid() == parent &&
        dup2(out, STDOUT_FILENO) >= 0 && dup2(err, STDERR_FILENO) >= 0 &&
        sigprocmask(SIG_SETMASK, &none, NULL) == 0)
        execvp(c->program, c->argv);
    dprintf(err, "ampscale: cannot run '%s': %s\n", c->program, strerror(errno));
    _exit(status_exit_code(STATUS_IO));
}

enum status child_start(const struct child_config *c, struct child *child)
{
    int out[2] = {-1, -1}, err[2] = {-1, -1};
    enum status st;
    child->out.fd = child->err.fd = -1;
    CHECK(open_pipe(c->terminal, out));
    CHECK(open_pipe(false, err));
    pid_t self = getpid(), pid = fork();
    if (pid == 0)
        become(c, out[1], err[1], self);
    if (pid < 0) {
        st = status_fail(STATUS_IO, "cannot start a process: %s", strerror(errno));
        goto done;
    }
    child->pid = pid;
    child->out.fd = out[0];
    child->err.fd = err[0];
    out[0] = err[0] = -1;
done:
    for (int i = 0; i < 2; i++) {
        if (out[i] >= 0)
            close(out[i]);
        if (err[i] >= 0)
            close(err[i]);
    }
    return st;
}

bool child_read(struct child *child, const struct process_signals *signals, int timeout_ms)
{
    struct pollfd p[] = {{.fd = child->out.fd, .events = POLLIN},
                         {.fd = child->err.fd, .events = POLLIN},
                         {.fd = child->pid ? signals->fd : -1, .events = POLLIN}};
    if (poll(p, 3, timeout_ms) <= 0)
        return false;
    if (p[0].revents)
        output_read(&child->out);
    if (p[1].revents)
        output_read(&child->err);
    return true;
}

int child_signal(struct child *child, const struct process_signals *signals)
{
    int received = process_signals_received(signals);
    if (child->pid && waitpid(child->pid, &child->status, WNOHANG) == child->pid)
        child->pid = 0;
    return child->pid ? received : 0;
}

void child_close(struct child *child)
{
    const struct process_signals none = {.fd = -1};
    struct output *stream[] = {&child->out, &child->err};
    while ((child->out.fd >= 0 || child->err.fd >= 0) && child_read(child, &none, 0))
        ;
    for (int i = 0; i < 2; i++) {
        if (stream[i]->fd >= 0)
            close(stream[i]->fd);
        stream[i]->fd = -1;
    }
}
