/* Starts the ranks of a node without MPI: starts a supervisor for each rank. The supervisor finds
 * its rank in the environment, as ranks of torchrun do.
 *
 * If launch_hosts_start runs this process over ssh, the launcher and this process exchange lines
 * (over_ssh.h). This process reads lines from standard input: first environment variables, as lines
 * "NAME=value", and then an empty line, which it answers by OVER_SSH_READY. The next line is the
 * node's place; a later line asks for an orderly stop. At the end of the input, this process ends
 * the ranks, because the connection or the launcher was lost. */
#include "base/array.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/host.h"
#include "base/launcher.h"
#include "base/process.h"
#include "launch/command.h"
#include "launch/join.h"
#include "launch/over_ssh.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    END_SECONDS = 4, /* from SIGTERM to SIGKILL; longer than the 2 s that a supervisor gives its
                      * command to end */
    CHECK_MS = 50
};

struct node {
    pid_t *pid; /* (n) process IDs of the supervisors; 0: the supervisor has ended */
    int n, running;
    int code;        /* exit code of the first supervisor that failed */
    bool ending;     /* all supervisors have been sent SIGTERM */
    uint64_t end_at; /* clock_ns of SIGKILL */
    /* Descriptor from which this process reads the lines of launch_hosts_start, over ssh; -1: no
     * descriptor. */
    int input;
    struct process_signals signals;
};

/* Runs in the child and does not return. Stop signals stay blocked until the supervisor reads
 * them. */
static void become(const struct node_config *c, int i, const struct node_place *at, char **argv,
                   pid_t parent)
{
    const struct launcher_place place = {
        .rank = at->first + i, .size = at->size, .local_rank = i, .local_size = c->ranks};
    if (prctl(PR_SET_PDEATHSIG, SIGTERM) == 0 && getppid() == parent &&
        launcher_export(&place, at->address) == STATUS_OK)
        execv(c->rank.program, argv);
    dprintf(STDERR_FILENO, "ampscale: cannot run '%s': %s\n", c->rank.program, strerror(errno));
    _exit(status_exit_code(STATUS_IO));
}

static enum status start_all(struct node *node, const struct node_config *c,
                             const struct node_place *place)
{
    struct words argv = {0};
    enum status st;
    pid_t self = getpid();
    CHECK(launch_command_supervisor(&c->rank, place->resume, &argv));
    while (node->n < c->ranks) {
        pid_t pid = fork();
        if (pid == 0)
            become(c, node->n, place, argv.v, self);
        if (pid < 0) {
            st = status_fail(STATUS_IO, "cannot start rank %d: %s", node->n, strerror(errno));
            goto done;
        }
        node->pid[node->n++] = pid;
        node->running++;
    }
done:
    words_free(&argv);
    return st;
}

static void send_all(const struct node *node, int signo)
{
    for (int i = 0; i < node->n; i++)
        if (node->pid[i] > 0)
            kill(node->pid[i], signo);
}

static void end_all(struct node *node)
{
    node->ending = true;
    node->end_at = clock_ns() + END_SECONDS * UINT64_C(1000000000);
    send_all(node, SIGTERM);
}

static void take_end(struct node *node, pid_t pid, int status)
{
    int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    for (int i = 0; i < node->n; i++)
        if (node->pid[i] == pid) {
            node->pid[i] = 0;
            node->running--;
            node->code = node->code ? node->code : code;
        }
}

/* Reads a line from launch_hosts_start. If the line is a request to stop, forwards the request to
 * the ranks. At the end of the input, ends the ranks. */
static void take_input(struct node *node)
{
    char line[OVER_SSH_LINE_MAX];
    if (over_ssh_line(node->input, line)) {
        if (strcmp(line, OVER_SSH_STOP) == 0)
            send_all(node, SIGUSR1);
        return;
    }
    close(node->input);
    node->input = -1;
    end_all(node);
}

/* Waits for all supervisors. If a rank fails, does not end the other ranks: they detect the failure
 * themselves, and `launch` ends the job if they do not. */
static void watch(struct node *node)
{
    while (node->running > 0) {
        int status;
        struct pollfd p[] = {{.fd = node->signals.fd, .events = POLLIN},
                             {.fd = node->input, .events = POLLIN}};
        poll(p, 2, CHECK_MS);
        int signo = process_signals_received(&node->signals);
        if (signo == SIGUSR1)
            send_all(node, SIGUSR1);
        else if (signo)
            end_all(node);
        if (p[1].revents)
            take_input(node);
        if (node->ending && clock_ns() >= node->end_at)
            send_all(node, SIGKILL);
        for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
            take_end(node, pid, status);
    }
}

/* Reads the environment variables and the node's place from standard input, and replaces standard
 * input by /dev/null for the ranks. */
static enum status place_over_ssh(struct node *node, struct node_place *place)
{
    char line[OVER_SSH_LINE_MAX];
    int empty = open("/dev/null", O_RDONLY | O_CLOEXEC);
    node->input = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    if (empty < 0 || node->input < 0 || dup2(empty, STDIN_FILENO) < 0)
        return status_fail(STATUS_IO, "cannot open /dev/null: %s", strerror(errno));
    close(empty);
    while (over_ssh_line(node->input, line) && *line) {
        char *value = strchr(line, '=');
        if (!value)
            break;
        *value++ = '\0';
        if (setenv(line, value, 1) != 0)
            return status_fail(STATUS_OOM, "no memory for the environment");
    }
    dprintf(STDOUT_FILENO, "%s\n", OVER_SSH_READY);
    if (over_ssh_line(node->input, line) &&
        sscanf(line, OVER_SSH_PLACE, &place->first, &place->size, place->address) == 3)
        return STATUS_OK;
    return status_fail(STATUS_INTERRUPTED, "the launcher has ended");
}

static enum status join(const struct node *node, const struct node_config *c,
                        struct node_place *place)
{
    char job[LAUNCHER_JOB_MAX];
    const struct supervisor_config *r = &c->rank;
    const char *out = launch_command_value(r->argc, r->argv, "--out");
    if (!launcher_job(job))
        snprintf(job, sizeof job, "%s", out ? out : "");
    struct join_config join = {.address = c->address,
                               .job = job,
                               .secret_file =
                                   launch_command_value(r->argc, r->argv, "--secret-file"),
                               .node = c->node,
                               .ranks = c->ranks,
                               .min_nodes = c->min_nodes,
                               .nodes = c->nodes,
                               .timeout = c->join_timeout,
                               .restart = c->restart,
                               .signals = &node->signals};
    for (int i = 0; i < r->argc; i++)
        join.insecure = join.insecure || strcmp(r->argv[i], "--insecure") == 0;
    TRY(join_nodes(&join, place));
    if (place->nodes < c->nodes && c->node == 0)
        fprintf(stderr,
                "ampscale: warning: %d of %d nodes have joined within %d s: world size %d\n",
                place->nodes, c->nodes, c->join_timeout, place->size);
    return STATUS_OK;
}

static enum status find_place(struct node *node, const struct node_config *c,
                              struct node_place *place)
{
    int port;
    if (c->over_ssh)
        return place_over_ssh(node, place);
    if (c->min_nodes > 0)
        return join(node, c, place);
    place->first = c->node * c->ranks;
    place->size = c->nodes * c->ranks;
    if (c->address)
        return path_format(place->address, sizeof place->address, "%s", c->address);
    TRY(host_free_port(true, &port));
    return path_format(place->address, sizeof place->address, "127.0.0.1:%d", port);
}

enum status launch_node(const struct node_config *c, int *exit_code)
{
    struct node node = {.signals.fd = -1, .input = -1};
    struct node_place place = {0};
    enum status st;
    CHECK(array_new(&node.pid, c->ranks));
    CHECK(process_signals_open(&node.signals));
    CHECK(find_place(&node, c, &place));
    st = start_all(&node, c, &place);
    if (st != STATUS_OK)
        end_all(&node);
    watch(&node);
    *exit_code = node.code;
done:
    process_signals_close(&node.signals);
    if (node.input >= 0)
        close(node.input);
    free(node.pid);
    return st;
}
