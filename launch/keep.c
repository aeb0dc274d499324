/* The keeper of a rank: between mpirun and the command.
 *
 * One loop waits for output, for signals (as a file descriptor: no handlers) and, by looking twice
 * a second, for the death of whoever started it. The command dies with its keeper, whatever kills
 * that: the kernel sees to it. */
#include "launch/launch.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/host.h"
#include "launch/command.h"
#include "launch/lines.h"
#include "launch/place.h"
#include "launch/report.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

extern char **environ;

enum {
    LOOK_MS = 500,     /* between looks for the parent */
    END_LOOK_MS = 20,  /* between looks at the clock when the job is being ended */
    END_SECONDS = 2,   /* from SIGTERM to SIGKILL when the job is being ended */
    SPEAK_MS = 100,    /* from then to a report: Open MPI 4 kills the keeper after a second, Open
                          MPI 5 after a quarter */
    CHUNK_SIZE = 8192, /* of a read */
};

struct keeper {
    const struct keeper_config *config;
    struct launch_place place;
    struct rank_report report; /* rank, host, pid and, as soon as there is one, the reason */
    char log_path[4096];
    FILE *log;
    bool log_failed; /* and that has been said */
    int signals;
    int out, err; /* the command's, to read; -1 after their end */
    struct lines out_lines, err_lines;
    char last[REPORT_REASON_MAX]; /* line on stderr */
    pid_t parent, child;
    int child_status; /* valid once `child` is 0 */
    bool stopping;    /* the command has been asked for an orderly end */
    bool ending;      /* it is being ended, because the job is */
    uint64_t kill_at; /* clock_ns, while ending */
    uint64_t speak_at;
    bool spoken; /* the report has been written */
};

/* Text from a command goes into a line of ours: without its end, cut to fit. */
static void copy_line(char out[REPORT_REASON_MAX], const char *line, size_t n)
{
    while (n > 0 && (line[n - 1] == '\n' || line[n - 1] == '\r'))
        n--;
    snprintf(out, REPORT_REASON_MAX, "%.*s", (int)n, line);
}

static void log_line(void *self, const char *line, size_t n)
{
    static const char clear[] = "\033[K"; /* what a bar is cleared by before its last line */
    struct keeper *k = self;
    if (n >= sizeof clear - 1 && memcmp(line, clear, sizeof clear - 1) == 0) {
        line += sizeof clear - 1;
        n -= sizeof clear - 1;
    }
    fwrite(line, 1, n, k->log);
}

/* The first line that says what is wrong is the reason, as the command words it; else the last
 * line of all, from a library or the C runtime. */
static void take_error(void *self, const char *line, size_t n)
{
    struct keeper *k = self;
    log_line(k, line, n);
    if (n > 1)
        copy_line(k->last, line, n);
    const char *reason = report_reason(k->last);
    if (!*k->report.reason && !k->ending && reason)
        snprintf(k->report.reason, sizeof k->report.reason, "%s", reason);
    if (k->place.rank == 0 && !k->ending) {
        fwrite(line, 1, n, stderr);
        if (line[n - 1] != '\n')
            fputc('\n', stderr);
    }
}

static void check_log(struct keeper *k)
{
    if (fflush(k->log) == 0 || k->log_failed)
        return;
    fprintf(stderr, "ampscale: warning: rank %d (host %s) cannot write '%s': %s\n", k->place.rank,
            k->report.host, k->log_path, strerror(errno));
    k->log_failed = true;
}

/* False at the end of the stream: a terminal's is an error. */
static bool read_stream(struct keeper *k, int fd, struct lines *lines, lines_take *take)
{
    char bytes[CHUNK_SIZE];
    ssize_t n = read(fd, bytes, sizeof bytes);
    if (n < 0 && errno == EINTR)
        return true;
    if (n <= 0) {
        lines_end(lines, take, k);
        return false;
    }
    if (lines == &k->out_lines && k->place.rank == 0) {
        fwrite(bytes, 1, (size_t)n, stdout);
        fflush(stdout);
    }
    lines_feed(lines, bytes, (size_t)n, take, k);
    return true;
}

/* Reads what has come. False: nothing had, within `timeout` milliseconds. */
static bool read_streams(struct keeper *k, int timeout)
{
    struct pollfd p[] = {{.fd = k->out, .events = POLLIN},
                         {.fd = k->err, .events = POLLIN},
                         {.fd = k->child ? k->signals : -1, .events = POLLIN}};
    if (poll(p, 3, timeout) <= 0)
        return false;
    if (p[0].revents && !read_stream(k, k->out, &k->out_lines, log_line)) {
        close(k->out);
        k->out = -1;
    }
    if (p[1].revents && !read_stream(k, k->err, &k->err_lines, take_error)) {
        close(k->err);
        k->err = -1;
    }
    check_log(k);
    return true;
}

static void write_report(struct keeper *k)
{
    char line[REPORT_MAX];
    report_write(&k->report, line);
    fputs(line, k->log);
    fputs(line, stderr);
    check_log(k);
    k->spoken = true;
}

/* The job is over: the command may end by itself, for a moment. One that has been asked before has
 * had its time. What it has said up to now may be why the job is over; what it says from now on is
 * not. */
static void end_command(struct keeper *k)
{
    if (!k->ending) {
        uint64_t now = clock_ns();
        k->kill_at = now + END_SECONDS * UINT64_C(1000000000);
        k->speak_at = now + SPEAK_MS * UINT64_C(1000000);
        read_streams(k, 0);
    }
    kill(k->child, k->stopping || k->ending ? SIGKILL : SIGTERM);
    k->ending = true;
}

/* The command failed before the job's end came: it has said why, and nobody had asked it to stop.
 */
static bool failed_before_end(const struct keeper *k)
{
    return k->ending && !k->stopping && *k->report.reason;
}

static void take_signals(struct keeper *k)
{
    struct signalfd_siginfo info;
    while (k->child && read(k->signals, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo == SIGCHLD) {
            if (waitpid(k->child, &k->child_status, WNOHANG) == k->child)
                k->child = 0;
        } else if (info.ssi_signo == SIGUSR1) {
            kill(k->child, SIGTERM);
            k->stopping = true;
        } else {
            end_command(k);
        }
    }
}

/* Until the command has ended and its output has been read. */
static void watch(struct keeper *k)
{
    while (k->child) {
        read_streams(k, k->ending ? END_LOOK_MS : LOOK_MS);
        take_signals(k);
        if (!k->child)
            break;
        if (!k->ending && getppid() != k->parent)
            end_command(k);
        if (failed_before_end(k) && !k->spoken && clock_ns() >= k->speak_at) {
            k->report.end = REPORT_ENDED;
            write_report(k);
        }
        if (k->ending && clock_ns() >= k->kill_at)
            kill(k->child, SIGKILL);
    }
    while ((k->out >= 0 || k->err >= 0) && read_streams(k, 0))
        ;
}

/* The two ends of what the command writes to stdout: a pipe, or a terminal that passes every byte
 * as it is. */
static enum status open_output(bool terminal, int fd[2])
{
    char name[128];
    struct termios mode;
    if (!terminal)
        return pipe2(fd, O_CLOEXEC) == 0
                   ? STATUS_OK
                   : status_fail(STATUS_IO, "cannot make a pipe: %s", strerror(errno));
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
    return status_fail(STATUS_IO, "cannot make a terminal: %s", strerror(errno));
}

/* In the child: never returns. What goes wrong here is the command's first error. A process group
 * of its own keeps from it the signals that mpirun sends to the keeper's. */
static void become_command(const char *program, char **argv, int out, int err, pid_t keeper)
{
    sigset_t none;
    sigemptyset(&none);
    signal(SIGPIPE, SIG_DFL);
    if (setpgid(0, 0) == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == keeper &&
        dup2(out, 1) == 1 && dup2(err, 2) == 2 && sigprocmask(SIG_SETMASK, &none, NULL) == 0)
        execv(program, argv);
    dprintf(2, "ampscale: cannot run '%s': %s\n", program, strerror(errno));
    _exit(status_exit_code(STATUS_IO));
}

static enum status start_command(struct keeper *k, char **argv)
{
    int out[2] = {-1, -1}, err[2] = {-1, -1};
    enum status st;
    CHECK(open_output(k->config->terminal && k->place.rank == 0, out));
    CHECK(open_output(false, err));
    pid_t self = getpid();
    k->child = fork();
    if (k->child == 0)
        become_command(k->config->program, argv, out[1], err[1], self);
    if (k->child < 0) {
        k->child = 0;
        st = status_fail(STATUS_IO, "cannot start a process: %s", strerror(errno));
        goto done;
    }
    k->report.pid = k->child;
    k->out = out[0];
    k->err = err[0];
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

static enum status open_log(struct keeper *k)
{
    TRY(dir_make(k->config->log_dir));
    TRY(path_format(k->log_path, sizeof k->log_path, "%s/rank-%d.log", k->config->log_dir,
                    k->place.rank));
    k->log = fopen(k->log_path, "ae");
    return k->log ? STATUS_OK
                  : status_fail(STATUS_IO, "cannot write '%s': %s", k->log_path, strerror(errno));
}

static enum status open_signals(struct keeper *k)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    signal(SIGPIPE, SIG_IGN); /* the log goes on when nobody reads the rest */
    k->signals = -1;
    if (sigprocmask(SIG_BLOCK, &set, NULL) == 0)
        k->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return k->signals >= 0 ? STATUS_OK
                           : status_fail(STATUS_IO, "cannot wait for signals: %s", strerror(errno));
}

/* Binds this process, and so the command, to its share; says how many cores that is. */
static int take_share(const struct keeper *k)
{
    cpu_set_t set;
    int share = launch_place_share(&k->place, host_cores());
    if (k->config->bind == LAUNCH_BIND_CORES && sched_getaffinity(0, sizeof set, &set) == 0) {
        launch_place_bind(&k->place, &set);
        if (sched_setaffinity(0, sizeof set, &set) != 0)
            fprintf(k->log, "# cannot bind to cores: %s\n", strerror(errno));
    }
    return share;
}

/* A log that is added to tells one run from the next. */
static enum status log_heading(struct keeper *k, const struct words *command)
{
    char *line;
    TRY(words_shell(command, &line));
    fprintf(k->log, "# rank %d on %s: %s\n", k->place.rank, k->report.host, line);
    free(line);
    check_log(k);
    return STATUS_OK;
}

/* A command that ends with a verdict, which it has printed, has not broken down: what it last said
 * on stderr is of its progress, and no reason. */
static bool is_verdict(const struct rank_report *r)
{
    return r->end == REPORT_EXITED && r->code > status_exit_code(STATUS_USAGE) &&
           r->code <= status_exit_code(STATUS_DATA);
}

/* What the command's end comes to: fills the report, returns the keeper's exit code. */
static int judge(struct keeper *k)
{
    struct rank_report *r = &k->report;
    bool killed = WIFSIGNALED(k->child_status);
    int code = killed ? WTERMSIG(k->child_status) : WEXITSTATUS(k->child_status);
    int exit_code = killed ? 128 + code : code;
    if (exit_code == 0 || k->spoken || (k->ending && !failed_before_end(k)))
        return exit_code;
    r->end = !killed ? REPORT_EXITED : k->ending ? REPORT_ENDED : REPORT_KILLED;
    r->code = code;
    if (k->stopping && (!killed || code == SIGTERM)) {
        r->end = REPORT_STOPPED;
        r->code = exit_code;
    }
    if (!*r->reason && !is_verdict(r))
        memcpy(r->reason, k->last, sizeof r->reason);
    write_report(k);
    return r->end == REPORT_STOPPED ? 0 : exit_code;
}

static enum status keep(struct keeper *k, int *exit_code)
{
    const struct keeper_config *c = k->config;
    struct words command = {0};
    enum status st;
    CHECK(open_log(k));
    CHECK(open_signals(k));
    int cores = take_share(k);
    CHECK(launch_command_rank(c->argc, c->argv, c->threads, cores, &command));
    CHECK(log_heading(k, &command));
    CHECK(start_command(k, command.v));
    watch(k);
    *exit_code = judge(k);
done:
    words_free(&command);
    return st;
}

int launch_keep(const struct keeper_config *c)
{
    struct keeper k = {.config = c, .out = -1, .err = -1, .signals = -1, .parent = getppid()};
    int exit_code = 0;
    char line[REPORT_MAX];
    k.report.pid = getpid();
    if (gethostname(k.report.host, sizeof k.report.host - 1) != 0)
        snprintf(k.report.host, sizeof k.report.host, "unknown");
    enum status st = launch_place_read(environ, &k.place);
    if (st != STATUS_OK) {
        fprintf(stderr, "ampscale: %s\n", status_message());
        return status_exit_code(st);
    }
    k.report.rank = k.place.rank;
    st = keep(&k, &exit_code);
    if (st != STATUS_OK) {
        exit_code = k.report.code = status_exit_code(st);
        snprintf(k.report.reason, sizeof k.report.reason, "%s", status_message());
        report_write(&k.report, line);
        fputs(line, stderr);
    }
    if (k.log)
        fclose(k.log);
    int fds[] = {k.out, k.err, k.signals};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    return exit_code;
}
