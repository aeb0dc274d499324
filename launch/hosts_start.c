/* Starts a job's nodes by ssh, without MPI. On each host, launch_node starts the ranks. This
 * process controls launch_node over ssh's standard input and output (over_ssh.h). */
#include "base/array.h"
#include "base/clock.h"
#include "base/launcher.h"
#include "base/process.h"
#include "base/text.h"
#include "launch/command.h"
#include "launch/over_ssh.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum {
    CHECK_MS = 100,
    AGAIN_SECONDS = 2, /* time between attempts to reach a host */
    END_SECONDS = 4,   /* time from the end of ssh's input to SIGKILL; longer than the 2 s that a
                        * supervisor gives its command to end */
    SSH_FAILED = 255,  /* ssh's exit code when the connection failed or was lost */
};

struct host {
    const char *name;
    int slots;
    pid_t pid; /* process id of ssh; 0: no ssh runs */
    int in;    /* ssh's standard input, or -1 */
    int out;   /* ssh's standard output, or -1 */
    bool ready, started;
    uint64_t again_at; /* clock_ns of the next attempt to reach the host, if no ssh runs */
    size_t n;
    char line[OVER_SSH_LINE_MAX]; /* (n) the first bytes of output, before OVER_SSH_READY */
};

struct nodes {
    const struct launch_config *config;
    struct host *host; /* (n) */
    int n;
    struct process_signals signals;
    bool retry; /* the end of ssh before the host's ranks start is not a failure: this process
                 * tries to contact the host again, until the time limit */
    bool ending;
    uint64_t end_at; /* clock_ns of SIGKILL */
    int code;        /* exit code of the first host that failed */
};

static uint64_t seconds_from_now(int seconds)
{
    return clock_ns() + (uint64_t)seconds * UINT64_C(1000000000);
}

bool over_ssh_line(int fd, char line[OVER_SSH_LINE_MAX])
{
    for (size_t n = 0; n < OVER_SSH_LINE_MAX;) {
        ssize_t got = read(fd, line + n, 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        if (line[n] == '\n') {
            line[n] = '\0';
            return true;
        }
        n++;
    }
    return false;
}

/* --- a host --- */

static void close_end(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* Runs in the child and does not return. */
static void become_ssh(char **argv, int in, int out, pid_t parent)
{
    sigset_t none;
    sigemptyset(&none);
    signal(SIGPIPE, SIG_DFL);
    if (setpgid(0, 0) == 0 && prctl(PR_SET_PDEATHSIG, SIGTERM) == 0 && getppid() == parent &&
        dup2(in, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0 &&
        sigprocmask(SIG_SETMASK, &none, NULL) == 0)
        execvp(argv[0], argv);
    dprintf(STDERR_FILENO, "ampscale: cannot run '%s': %s\n", argv[0], strerror(errno));
    _exit(SSH_FAILED);
}

static enum status start_ssh(struct host *h, char **argv)
{
    int in[2] = {-1, -1}, out[2] = {-1, -1};
    pid_t self = getpid();
    enum status st = STATUS_OK;
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0 || (h->pid = fork()) < 0) {
        h->pid = 0;
        st = status_fail(STATUS_IO, "cannot start ssh: %s", strerror(errno));
    } else if (h->pid == 0) {
        become_ssh(argv, in[0], out[1], self);
    } else {
        h->in = in[1];
        h->out = out[0];
        in[1] = out[0] = -1;
    }
    for (int i = 0; i < 2; i++) {
        close_end(&in[i]);
        close_end(&out[i]);
    }
    return st;
}

/* Sends the environment variables that ranks need. One variable contains the secret. The variables
 * are not sent as arguments, because other users can see arguments. */
static void send_environment(struct host *h)
{
    FILE *f = fdopen(dup(h->in), "w");
    if (!f)
        return; /* the host detects the end of its input */
    for (char **v = environ; *v; v++)
        if (launch_is_exported(*v) && !strchr(*v, '\n'))
            fprintf(f, "%s\n", *v);
    fputs("\n", f);
    fclose(f);
}

static enum status start_host(const struct nodes *nodes, struct host *h)
{
    const struct launch_config *c = nodes->config;
    char dir[PATH_MAX];
    struct words command = {0}, ssh = {0};
    enum status st;
    if (!getcwd(dir, sizeof dir))
        return status_fail(STATUS_IO, "cannot read the name of the current folder: %s",
                           strerror(errno));
    CHECK(launch_command_host(c, h->slots, dir, &command));
    CHECK(launch_host_command(h->name, c->join_timeout, &command, &ssh));
    h->n = 0;
    h->ready = false;
    CHECK(start_ssh(h, ssh.v));
    send_environment(h);
done:
    words_free(&command);
    words_free(&ssh);
    return st;
}

static void write_all(int fd, const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t put = write(fd, bytes, n);
        if (put < 0 && errno != EINTR)
            return;
        if (put > 0) {
            bytes += put;
            n -= (size_t)put;
        }
    }
}

/* Finds the line OVER_SSH_READY. A login shell may print lines before it; copies those lines to
 * stderr. */
static void take_before_ready(struct host *h, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] != '\n') {
            if (h->n < sizeof h->line - 1)
                h->line[h->n++] = bytes[i];
            continue;
        }
        h->line[h->n] = '\0';
        h->n = 0;
        if (strcmp(h->line, OVER_SSH_READY) == 0)
            h->ready = true;
        else
            text_print(stderr, "%s: %s", h->name, h->line);
    }
}

/* Reads a host's output. When the host is ready, all of its output comes from rank 0 and is copied
 * to stdout. */
static void read_host(struct host *h)
{
    char bytes[8192];
    ssize_t n = read(h->out, bytes, sizeof bytes);
    if (n < 0 && errno == EINTR)
        return;
    if (n <= 0)
        close_end(&h->out);
    else if (h->ready)
        write_all(STDOUT_FILENO, bytes, (size_t)n);
    else
        take_before_ready(h, bytes, (size_t)n);
}

/* --- all hosts --- */

static void send_line(struct host *h, const char *line)
{
    if (h->in >= 0 && dprintf(h->in, "%s\n", line) < 0)
        close_end(&h->in);
}

/* Closes ssh's input for all hosts. The hosts then end their ranks. */
static void end_hosts(struct nodes *nodes)
{
    if (nodes->ending)
        return;
    nodes->ending = true;
    nodes->end_at = seconds_from_now(END_SECONDS);
    for (int i = 0; i < nodes->n; i++)
        close_end(&nodes->host[i].in);
}

static void take_signal(struct nodes *nodes, int signo)
{
    if (signo == SIGUSR1)
        for (int i = 0; i < nodes->n; i++)
            send_line(&nodes->host[i], OVER_SSH_STOP);
    else if (signo)
        end_hosts(nodes);
}

/* Whether output can be read, or the output has ended. The caller must not wait for the end of the
 * output, because a process that ssh started may outlive ssh and keep the output open. */
static bool has_output(const struct host *h)
{
    struct pollfd p = {.fd = h->out, .events = POLLIN};
    return poll(&p, 1, 0) > 0;
}

/* Handles the end of a host's ssh. If the host's ranks were not started, this process contacts the
 * host again if `retry` is set; otherwise the host has failed. If the ranks were started, either
 * all of them have completed or the host has failed. */
static void take_host_end(struct nodes *nodes, struct host *h, int status)
{
    int code = WIFSIGNALED(status) ? SSH_FAILED : WEXITSTATUS(status);
    while (h->out >= 0 && h->started && has_output(h))
        read_host(h);
    close_end(&h->in);
    close_end(&h->out);
    h->pid = 0;
    h->ready = false;
    h->again_at = seconds_from_now(AGAIN_SECONDS);
    if (nodes->ending || (!h->started && nodes->retry))
        return;
    bool lost = code == SSH_FAILED || !h->started;
    if (lost)
        text_print(stderr, "ampscale: host '%s' %s: ssh ended with exit code %d", h->name,
                   h->started ? "was lost" : "cannot start its ranks", code);
    nodes->code = nodes->code ? nodes->code : lost ? status_exit_code(STATUS_LOST_RANK) : code;
    if (lost)
        end_hosts(nodes);
}

/* Waits at most CHECK_MS, and handles output, signals and the end of ssh processes. */
static void serve(struct nodes *nodes, struct pollfd *p)
{
    int status;
    for (int i = 0; i < nodes->n; i++)
        p[i] = (struct pollfd){.fd = nodes->host[i].out, .events = POLLIN};
    p[nodes->n] = (struct pollfd){.fd = nodes->signals.fd, .events = POLLIN};
    poll(p, (nfds_t)nodes->n + 1, CHECK_MS);
    for (int i = 0; i < nodes->n; i++)
        if (p[i].fd >= 0 && p[i].revents)
            read_host(&nodes->host[i]);
    take_signal(nodes, process_signals_received(&nodes->signals));
    for (int i = 0; i < nodes->n; i++) {
        struct host *h = &nodes->host[i];
        if (h->pid > 0 && waitpid(h->pid, &status, WNOHANG) == h->pid)
            take_host_end(nodes, h, status);
        if (h->pid > 0 && nodes->ending && clock_ns() >= nodes->end_at)
            kill(-h->pid, SIGKILL);
    }
}

static int count_ready(const struct nodes *nodes)
{
    int ready = 0;
    for (int i = 0; i < nodes->n; i++)
        ready += nodes->host[i].ready;
    return ready;
}

/* Contacts all hosts by ssh, until each host is ready or the time limit is over. */
static enum status gather_hosts(struct nodes *nodes, struct pollfd *p)
{
    const struct launch_config *c = nodes->config;
    uint64_t end = seconds_from_now(c->join_timeout);
    while (!nodes->ending && count_ready(nodes) < nodes->n) {
        for (int i = 0; i < nodes->n; i++)
            if (nodes->host[i].pid == 0 && clock_ns() >= nodes->host[i].again_at)
                TRY(start_host(nodes, &nodes->host[i]));
        serve(nodes, p);
        if (clock_ns() >= end)
            break;
    }
    int ready = count_ready(nodes);
    if (nodes->ending || ready >= c->min_nodes)
        return STATUS_OK;
    for (int i = 0; i < nodes->n; i++)
        if (!nodes->host[i].ready)
            return status_fail(
                STATUS_LIBRARY,
                "only %d of %d hosts were ready within %d s, but the job needs %d: host "
                "'%s' was not ready",
                ready, nodes->n, c->join_timeout, c->min_nodes, nodes->host[i].name);
    return STATUS_OK;
}

/* Numbers the ranks of the hosts that are ready, and starts these ranks. Ends ssh for the other
 * hosts. */
static void start_ready(struct nodes *nodes)
{
    const struct launch_config *c = nodes->config;
    char address[LAUNCHER_ADDRESS_MAX] = "", line[LAUNCHER_ADDRESS_MAX + 64];
    int size = 0, first = 0;
    for (int i = 0; i < nodes->n; i++)
        size += nodes->host[i].ready ? nodes->host[i].slots : 0;
    for (int i = 0; i < nodes->n; i++) {
        struct host *h = &nodes->host[i];
        if (!h->ready) {
            fprintf(stderr,
                    "ampscale: warning: host '%s' is not ready within %d s: world size %d\n",
                    h->name, c->join_timeout, size);
            close_end(&h->in);
            if (h->pid > 0)
                kill(-h->pid, SIGTERM);
            continue;
        }
        if (!*address && c->rendezvous)
            snprintf(address, sizeof address, "%s", c->rendezvous);
        else if (!*address)
            snprintf(address, sizeof address, "%s:%d", h->name, c->port);
        snprintf(line, sizeof line, OVER_SSH_START, first, size, address);
        h->started = true;
        send_line(h, line);
        first += h->slots;
    }
}

static bool any_runs(const struct nodes *nodes)
{
    for (int i = 0; i < nodes->n; i++)
        if (nodes->host[i].pid > 0)
            return true;
    return false;
}

static enum status run_hosts(struct nodes *nodes, struct pollfd *p)
{
    enum status st = gather_hosts(nodes, p);
    if (st == STATUS_OK && !nodes->ending) {
        /* from now on the end of ssh on a host without ranks is not a failure */
        nodes->retry = true;
        start_ready(nodes);
    } else {
        end_hosts(nodes);
    }
    while (any_runs(nodes))
        serve(nodes, p);
    return st;
}

enum status launch_hosts_start(const struct launch_config *c, int *exit_code)
{
    struct nodes nodes = {.config = c,
                          .n = c->hosts.n,
                          .signals = {.fd = -1},
                          .retry = c->restarts > 0 || c->min_nodes < c->hosts.n};
    struct pollfd *p = NULL;
    enum status st;
    signal(SIGPIPE, SIG_IGN);
    CHECK(array_new(&nodes.host, nodes.n));
    CHECK(array_new(&p, nodes.n + 1));
    for (int i = 0; i < nodes.n; i++)
        nodes.host[i] = (struct host){
            .name = c->hosts.v[i].name, .slots = c->hosts.v[i].slots, .in = -1, .out = -1};
    CHECK(process_signals_open(&nodes.signals));
    CHECK(run_hosts(&nodes, p));
    *exit_code = nodes.code;
done:
    process_signals_close(&nodes.signals);
    free(nodes.host);
    free(p);
    return st;
}
