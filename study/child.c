/* Running a child process. */
#include "study/child.h"

#include "base/clock.h"
#include "results/text.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KILL_SECONDS = 10, TAIL_BYTES = 16384 };

enum status child_signals_open(struct child_signals *s)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    s->fd = -1;
    if (sigprocmask(SIG_BLOCK, &set, &s->before) == 0)
        s->fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return s->fd >= 0 ? STATUS_OK
                      : status_fail(STATUS_IO, "cannot wait for signals: %s", strerror(errno));
}

void child_signals_close(struct child_signals *s)
{
    if (s->fd < 0)
        return;
    child_signals_received(s); /* they have been answered */
    close(s->fd);
    s->fd = -1;
    sigprocmask(SIG_SETMASK, &s->before, NULL);
}

int child_signals_received(const struct child_signals *s)
{
    struct signalfd_siginfo info;
    int received = 0;
    while (read(s->fd, &info, sizeof info) == sizeof info)
        if (info.ssi_signo != SIGCHLD)
            received = (int)info.ssi_signo;
    return received;
}

/* In the child, between fork and exec. Does not return. */
static void become(const struct child_config *c, int log, pid_t parent)
{
    int null = open("/dev/null", O_RDONLY);
    int out = c->out ? open(c->out, O_WRONLY | O_CREAT | O_TRUNC, 0666) : log;
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    sigprocmask(SIG_SETMASK, &c->signals->before, NULL);
    if (getppid() == parent && dup2(null, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0 &&
        dup2(log, STDERR_FILENO) >= 0)
        execvp(c->argv[0], c->argv);
    dprintf(log, "ampscale: cannot run '%s': %s\n", c->argv[0], strerror(errno));
    _exit(127);
}

static enum status start(const struct child_config *c, int log, pid_t *pid)
{
    pid_t parent = getpid();
    fflush(NULL);
    *pid = fork();
    if (*pid < 0)
        return status_fail(STATUS_IO, "cannot start a process: %s", strerror(errno));
    if (*pid == 0)
        become(c, log, parent);
    setpgid(*pid, *pid); /* whoever comes first; the other one fails */
    return STATUS_OK;
}

/* How far a child is on its way out. */
struct stop {
    int asked;       /* 0, then with SIGTERM once or twice, then killed */
    uint64_t due_ns; /* when the next step comes; 0: not at all */
};

static void stop_on(struct stop *s, pid_t pid, int64_t grace_s)
{
    s->asked++;
    if (s->asked <= 2)
        kill(pid, SIGTERM);
    else
        kill(-pid, SIGKILL);
    int64_t seconds = s->asked == 1 ? grace_s : KILL_SECONDS;
    s->due_ns = clock_ns() + (uint64_t)seconds * 1000000000u;
}

static int poll_ms(uint64_t due_ns)
{
    uint64_t now = clock_ns();
    if (due_ns == 0)
        return -1;
    uint64_t ms = due_ns > now ? (due_ns - now) / 1000000 + 1 : 0;
    return ms < 1000000 ? (int)ms : 1000000;
}

static enum status wait_for(const struct child_config *c, pid_t pid, struct child_end *end)
{
    uint64_t begun = clock_ns();
    struct stop stop = {.due_ns = c->limit_s ? begun + (uint64_t)c->limit_s * 1000000000u : 0};
    struct pollfd p = {.fd = c->signals->fd, .events = POLLIN};
    int status;
    for (;;) {
        pid_t ended = waitpid(pid, &status, WNOHANG);
        if (ended == pid)
            break;
        if (ended < 0)
            return status_fail(STATUS_IO, "cannot wait for a process: %s", strerror(errno));
        poll(&p, 1, poll_ms(stop.due_ns));
        int received = child_signals_received(c->signals);
        bool due = stop.due_ns && clock_ns() >= stop.due_ns;
        if (received && !end->received)
            end->received = received;
        else if (due && stop.asked == 0)
            end->late = true;
        if (received || due)
            stop_on(&stop, pid, c->grace_s);
    }
    kill(-pid, SIGKILL); /* whatever of the group is left */
    end->seconds = (double)(clock_ns() - begun) * 1e-9;
    end->code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return STATUS_OK;
}

/* Keeps the last line that is ours, or the last of all. */
static void last_message(int log, char out[CHILD_MESSAGE_SIZE])
{
    static const char mark[] = "ampscale: ";
    char tail[TAIL_BYTES + 1], *rest = tail, *line;
    off_t size = lseek(log, 0, SEEK_END);
    ssize_t n = pread(log, tail, TAIL_BYTES, size > TAIL_BYTES ? size - TAIL_BYTES : 0);
    bool ours = false;
    *out = '\0';
    tail[n > 0 ? n : 0] = '\0';
    while ((line = strsep(&rest, "\r\n"))) {
        bool marked = strncmp(line, mark, strlen(mark)) == 0;
        if (!*line || (ours && !marked))
            continue;
        ours = marked;
        text_clean(out, CHILD_MESSAGE_SIZE, marked ? line + strlen(mark) : line);
    }
}

enum status child_run(const struct child_config *c, struct child_end *end)
{
    enum status st;
    pid_t pid;
    *end = (struct child_end){0};
    int log = open(c->log, O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
    if (log < 0)
        return status_fail(STATUS_IO, "cannot write '%s': %s", c->log, strerror(errno));
    CHECK(start(c, log, &pid));
    CHECK(wait_for(c, pid, end));
    last_message(log, end->message);
done:
    close(log);
    return st;
}
