/* Runs child processes. */
#include "base/process.h"

#include "base/clock.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KILL_SECONDS = 10, TAIL_BYTES = 16384 };

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
    if (sigprocmask(SIG_BLOCK, &set, &s->before) == 0)
        s->fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return s->fd >= 0 ? STATUS_OK
                      : status_fail(STATUS_IO, "cannot wait for signals: %s", strerror(errno));
}

void process_signals_close(struct process_signals *s)
{
    if (s->fd < 0)
        return;
    process_signals_received(s); /* discards the pending signals, which have been handled */
    close(s->fd);
    s->fd = -1;
    sigprocmask(SIG_SETMASK, &s->before, NULL);
}

int process_signals_received(const struct process_signals *s)
{
    struct signalfd_siginfo info;
    int received = 0;
    while (read(s->fd, &info, sizeof info) == sizeof info)
        if (info.ssi_signo != SIGCHLD)
            received = (int)info.ssi_signo;
    if (received)
        status_signal(received);
    return received;
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
    int out = c->talk > 0 ? c->talk
              : c->out    ? open(c->out, O_WRONLY | O_CREAT | O_TRUNC, 0666)
                          : log;
    if (log < 0)
        log = STDERR_FILENO;
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    sigprocmask(SIG_SETMASK, &c->signals->before, NULL);
    if (getppid() == parent && in >= 0 && out >= 0 && dup2(in, STDIN_FILENO) >= 0 &&
        dup2(out, STDOUT_FILENO) >= 0 && dup2(log, STDERR_FILENO) >= 0)
        execvp(c->argv[0], c->argv);
    dprintf(log, "ampscale: cannot run '%s': %s\n", c->argv[0], strerror(errno));
    _exit(PROCESS_NOT_STARTED);
}

static void close_log(int log)
{
    if (log >= 0)
        close(log);
}

enum status process_start(const struct process_config *c, struct process *child)
{
    pid_t parent = getpid();
    *child = (struct process){.grace_s = c->grace_s, .begun_ns = clock_ns()};
    if (c->limit_s)
        child->due_ns = child->begun_ns + (uint64_t)c->limit_s * 1000000000u;
    int log = c->log ? open(c->log, O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666) : -1;
    if (c->log && log < 0)
        return status_fail(STATUS_IO, "cannot write '%s': %s", c->log, strerror(errno));
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        become(c, log, parent);
    if (pid < 0) {
        enum status st = status_fail(STATUS_IO, "cannot start a process: %s", strerror(errno));
        close_log(log);
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

/* Milliseconds until the next stop request to a running child is due; -1: no request is
 * scheduled. */
static int poll_ms(const struct process *child, int n)
{
    uint64_t now = clock_ns(), first = UINT64_MAX;
    for (int i = 0; i < n; i++)
        if (child[i].pid != 0 && child[i].due_ns != 0 && child[i].due_ns < first)
            first = child[i].due_ns;
    if (first == UINT64_MAX)
        return -1;
    uint64_t ms = first > now ? (first - now) / 1000000 + 1 : 0;
    return ms < 1000000 ? (int)ms : 1000000;
}

/* If `received` is the number of a signal to this process, sends a stop request to every running
 * child. If `received` is 0, sends a stop request to each child whose next request is due. */
static void press(struct process *child, int n, int received)
{
    for (int i = 0; i < n; i++) {
        struct process *c = &child[i];
        bool due = c->due_ns != 0 && clock_ns() >= c->due_ns;
        if (c->pid == 0 || (!received && !due))
            continue;
        if (received && !c->end.received)
            c->end.received = received;
        else if (due && c->asked == 0)
            c->end.late = true;
        /* Sends the child its next stop request. */
        c->asked++;
        if (c->asked <= 2)
            kill(c->pid, SIGTERM);
        else
            kill(-c->pid, SIGKILL);
        int64_t seconds = c->grace_s;
        if (c->asked > 1 && seconds > KILL_SECONDS)
            seconds = KILL_SECONDS;
        c->due_ns = clock_ns() + (uint64_t)seconds * 1000000000u;
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
    close_log(child->log);
    child->pid = 0;
}

enum status process_wait(const struct process_signals *signals, struct process *child, int n,
                         int *which)
{
    struct pollfd p = {.fd = signals->fd, .events = POLLIN};
    for (;;) {
        /* Looks for a child that has ended since the last call. *which is its index, or -1 if no
         * child has ended. */
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
        if (*which >= 0)
            return STATUS_OK;
        poll(&p, 1, poll_ms(child, n));
        press(child, n, process_signals_received(signals));
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
        close_log(child[i].log);
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

enum status process_call(char *const *argv, const char *dir, int out, int *status)
{
    pid_t pid, ended;
    posix_spawn_file_actions_t actions;
    int error = posix_spawn_file_actions_init(&actions);
    if (error != 0)
        return status_fail(STATUS_OOM, "no memory to run '%s'", argv[0]);
    error = posix_spawn_file_actions_addchdir_np(&actions, dir);
    error =
        error ? error
              : posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    error = error ? error : posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    error = error ? error : posix_spawn_file_actions_adddup2(&actions, out, STDERR_FILENO);
    error = error ? error : posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0)
        return status_fail(error == ENOENT ? STATUS_UNSUPPORTED : STATUS_IO, "cannot run '%s': %s",
                           argv[0], strerror(error));
    do
        ended = waitpid(pid, status, 0);
    while (ended < 0 && errno == EINTR);
    return ended == pid
               ? STATUS_OK
               : status_fail(STATUS_IO, "cannot wait for '%s': %s", argv[0], strerror(errno));
}
