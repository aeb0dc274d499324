/* Runs child processes. */
#include "base/process.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KILL_SECONDS = 10, TAIL_BYTES = 16384, POLL_MS = 100, STILL_NS = 2000000000 };

enum status process_signals_open(struct process_signals *s)
{
    struct sigaction hangup;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGUSR1);
    if (sigaction(SIGHUP, NULL, &hangup) != 0 || hangup.sa_handler != SIG_IGN) /* as by nohup */
        sigaddset(&set, SIGHUP);
    s->fd = -1;
    sigaddset(&set, SIGCONT); /* for stop_was_paused */
    bool blocked = sigprocmask(SIG_BLOCK, &set, &s->before) == 0;
    sigdelset(&set, SIGCONT);
    if (blocked)
        s->fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return s->fd >= 0 ? STATUS_OK
                      : status_fail(STATUS_IO, "cannot wait for signals: %s", strerror(errno));
}

void process_signals_close(struct process_signals *s)
{
    if (s->fd < 0)
        return;
    process_signals_take(s); /* else they would end the process below */
    fd_close(&s->fd);
    sigprocmask(SIG_SETMASK, &s->before, NULL);
}

int process_signals_next(const struct process_signals *s)
{
    struct signalfd_siginfo info;
    while (read(s->fd, &info, sizeof info) == sizeof info)
        if (info.ssi_signo != SIGCHLD)
            return (int)info.ssi_signo;
    return 0;
}

enum stop_action process_signals_take(const struct process_signals *s)
{
    enum stop_action most = STOP_NOTHING, action;
    for (int signo; (signo = process_signals_next(s)) != 0; most = action > most ? action : most)
        action = stop_take(signo);
    return most;
}

enum status process_signals_check(const struct process_signals *s)
{
    process_signals_take(s);
    return stop_check();
}

enum status process_own_file(char *out, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", out, size - 1);
    if (n < 0)
        return status_fail(STATUS_IO, "cannot find this program's file: %s", strerror(errno));
    out[n] = '\0';
    return STATUS_OK;
}

/* Runs in the child, between fork and exec. Does not return. */
static void become(const struct process_config *c, int log, pid_t parent)
{
    int in = c->talk > 0 ? c->talk : open("/dev/null", O_RDONLY);
    if (c->output > 0)
        log = c->output;
    int out = c->talk > 0 ? c->talk : log;
    if (log < 0)
        log = STDERR_FILENO;
    if (c->talk <= 0 && c->out && log_open(c->out, O_WRONLY | O_TRUNC, &out) != STATUS_OK) {
        dprintf(log, "ampscale: %s\n", status_message());
        _exit(PROCESS_NOT_STARTED);
    }
    setpgid(0, 0);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (c->signals)
        sigprocmask(SIG_SETMASK, &c->signals->before, NULL);
    if (getppid() == parent && (!c->dir || chdir(c->dir) == 0) && in >= 0 && out >= 0 &&
        dup2(in, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0 &&
        dup2(log, STDERR_FILENO) >= 0)
        execvp(c->argv[0], c->argv);
    dprintf(log, "ampscale: cannot run '%s': %s\n", c->argv[0], strerror(errno));
    _exit(PROCESS_NOT_STARTED);
}

enum status process_start(const struct process_config *c, struct process *child)
{
    pid_t parent = getpid();
    *child = (struct process){.grace_s = c->grace_s, .begun_ns = clock_ns()};
    if (c->limit_s)
        child->due_ns = child->begun_ns + (uint64_t)c->limit_s * 1000000000u;
    int log = -1;
    if (c->log)
        TRY(log_open(c->log, O_RDWR | O_TRUNC, &log));
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        become(c, log, parent);
    if (pid < 0) {
        enum status st = status_fail(STATUS_IO, "cannot start a process: %s", strerror(errno));
        close(log);
        return st;
    }
    setpgid(pid, pid); /* parent and child both call it; the second call has no effect */
    child->pid = pid;
    child->log = log;
    return STATUS_OK;
}

bool process_any(const struct process *child, int n)
{
    for (int i = 0; i < n; i++)
        if (child[i].pid != 0)
            return true;
    return false;
}

/* Does to the running children what the signals to this process ask for, and sends a stop request
 * to each child whose next request is due. */
static void press(struct process *child, int n, enum stop_action action)
{
    for (int i = 0; i < n; i++) {
        struct process *c = &child[i];
        bool due = c->due_ns != 0 && clock_ns() >= c->due_ns;
        if (c->pid == 0)
            continue;
        c->end.late = c->end.late || (due && c->asked == 0 && action == STOP_NOTHING);
        if (action == STOP_AT_ONCE && c->asked == 0)
            c->asked++; /* the first request is for an orderly stop */
        else if (action != STOP_AT_ONCE && !due && (action == STOP_NOTHING || c->asked > 0))
            continue;
        /* Sends the child its next stop request. */
        c->asked++;
        if (c->asked <= 2)
            kill(c->pid, SIGTERM);
        else
            kill(-c->pid, SIGKILL);
        int64_t seconds = c->grace_s;
        if (c->asked > 1 && seconds > KILL_SECONDS)
            seconds = KILL_SECONDS;
        c->due_ns = c->asked > 2 ? 0 : clock_ns() + (uint64_t)seconds * 1000000000u;
    }
}

/* Copies the log's last line that begins with "ampscale: ". If there is no such line, copies the
 * log's last line, and returns false. */
static bool last_message(int log, char out[PROCESS_MESSAGE_SIZE])
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
        text_clean(out, PROCESS_MESSAGE_SIZE, marked ? line + strlen(mark) : line);
    }
    return ours;
}

/* A child failed without a message. If its log cannot be written, the message is that, and not the
 * child but the disk has failed. */
static void judge_log(int log, struct process_end *end)
{
    char link[32], path[PROCESS_MESSAGE_SIZE - 64];
    if (write(log, "\n", 1) == 1)
        return;
    int error = errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", log);
    ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    snprintf(end->message, sizeof end->message, "cannot write '%s': %s", path, strerror(error));
    end->code = status_exit_code(STATUS_DATA);
}

/* Records that a child has ended. */
static void take_end(struct process *child, int status)
{
    struct process_end *end = &child->end;
    kill(-child->pid, SIGKILL); /* also kills the rest of the group */
    end->seconds = (double)(clock_ns() - child->begun_ns) * 1e-9;
    end->code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (child->log >= 0 && !last_message(child->log, end->message) && end->code > 0 &&
        end->code < 128)
        judge_log(child->log, end);
    close(child->log);
    child->pid = 0;
}

/* Looks for a child that has ended. *which is its index, or -1 if no child has ended. */
static enum status reap(struct process *child, int n, int *which)
{
    *which = -1;
    for (int i = 0; i < n && *which < 0; i++) {
        int status = 0;
        pid_t ended = child[i].pid != 0 ? waitpid(child[i].pid, &status, WNOHANG) : 0;
        if (ended < 0)
            return status_fail(STATUS_IO, "cannot wait for a process: %s", strerror(errno));
        if (ended == 0)
            continue;
        take_end(&child[i], status);
        *which = i;
    }
    return STATUS_OK;
}

enum status process_wait(const struct process_signals *signals, struct process *child, int n,
                         int *which)
{
    struct pollfd p = {.fd = signals->fd, .events = POLLIN};
    for (;;) {
        TRY(reap(child, n, which));
        if (*which < 0) {
            uint64_t before = clock_ns();
            poll(&p, 1, POLL_MS); /* another thread of this process may have taken the signal */
            uint64_t ns = clock_ns() - before;
            /* after so long a poll, this process, and perhaps its children, stood still */
            for (int i = 0; i < n && ns > STILL_NS; i++)
                child[i].due_ns += child[i].due_ns ? ns : 0;
            TRY(reap(child, n, which)); /* after a pause, it may have ended before its limit */
        }
        enum stop_action action = process_signals_take(signals); /* may be why it has ended */
        if (*which < 0 || action != STOP_NOTHING)
            press(child, n, action);
        if (*which >= 0)
            return STATUS_OK;
    }
}

void process_kill(struct process *child, int n)
{
    for (int i = 0; i < n; i++) {
        int status;
        if (child[i].pid == 0)
            continue;
        kill(-child[i].pid, SIGKILL);
        waitpid(child[i].pid, &status, 0);
        close(child[i].log);
        child[i].pid = 0;
    }
}

enum status process_run(const struct process_config *c, struct process_end *end)
{
    struct process child;
    int which;
    *end = (struct process_end){0};
    TRY(process_start(c, &child));
    enum status st = process_wait(c->signals, &child, 1, &which);
    process_kill(&child, 1);
    *end = child.end;
    return st;
}
