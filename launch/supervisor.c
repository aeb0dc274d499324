/* The supervisor of a rank. The command of rank 0 writes to pipes, whose bytes go to the log and
 * on; the other commands write to their logs themselves. One loop waits for output and signals, and
 * checks twice a second that the parent is alive. The kernel kills an orphaned command. */
#include "base/clock.h"
#include "base/host.h"
#include "base/output.h"
#include "base/text.h"
#include "launch/parts.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Time between checks: that the parent is alive; of the clock, when the job ends. */
enum { CHECK_MS = 500, END_CHECK_MS = 20, LOG_BYTES_MAX = 64 << 20 };

/* Times from SIGTERM, when the job ends, to SIGKILL and to the report; Open MPI 4 kills the
 * supervisor one second after SIGTERM, and Open MPI 5 after a quarter of a second. */
static const double END_S = 2, REPORT_S = 0.1;

static const char *const phrases[] = {
    [REPORT_KILLED] = "was killed by signal",
    [REPORT_STOPPED] = "was asked to stop, and exited with code",
    [REPORT_EXITED] = "exited with code",
    [REPORT_ENDED] = "had failed before the launcher ended it",
    [REPORT_STARTED] = "has started",
    [REPORT_ASKED] = "is asked to stop",
};

const char *signal_name(int signo)
{
    const char *name = sigabbrev_np(signo);
    return name ? name : "?";
}

void report_write(const struct rank_report *r, char out[REPORT_MAX])
{
    char end[64] = "";
    bool reason = *r->reason && (r->end == REPORT_EXITED || r->end == REPORT_ENDED);
    if (r->end == REPORT_KILLED)
        snprintf(end, sizeof end, " %d (SIG%s%s)", r->code - 128, signal_name(r->code - 128),
                 r->code - 128 == SIGBUS ? "; is /dev/shm full?" : "");
    else if (r->end < REPORT_ENDED)
        snprintf(end, sizeof end, " %d", r->code);
    snprintf(out, REPORT_MAX, "ampscale: rank %d (host %s, pid %ld) %s%s%s%s\n", r->rank, r->host,
             r->pid, phrases[r->end], end, reason ? ": " : "", reason ? r->reason : "");
}

bool report_read(const char *line, struct rank_report *r)
{
    int at = 0;
    *r = (struct rank_report){0};
    if (sscanf(line, "ampscale: rank %9d (host %255[^,], pid %18ld) %n", &r->rank, r->host, &r->pid,
               &at) != 3)
        return false;
    for (line += at; strncmp(line, phrases[r->end], strlen(phrases[r->end])) != 0; r->end++)
        if (r->end == REPORT_ASKED)
            return false;
    line += strlen(phrases[r->end]);
    at = 0;
    if (r->end >= REPORT_ENDED)
        r->code = status_exit_code(STATUS_LIBRARY);
    else if (sscanf(line, " %9d%n", &r->code, &at) != 1)
        return false;
    r->code += r->end == REPORT_KILLED ? 128 : 0;
    sscanf(line + at, ": %1023[^\n]", r->reason);
    return true;
}

const char *error_of_line(const char *line)
{
    static const char ours[] = "ampscale: ", warning[] = "ampscale: warning: ";
    bool error =
        strncmp(line, ours, strlen(ours)) == 0 && strncmp(line, warning, strlen(warning)) != 0;
    return error ? line + strlen(ours) : NULL;
}

/* Lines that Open MPI prints after the reason why MPI_Init failed, and empty or ruled lines. */
static bool is_epilogue(const char *line)
{
    return !line[strspn(line, "-= ")] || strncmp(line, "***", 3) == 0 ||
           strstr(line, "Local abort before MPI_INIT");
}

bool log_reason(const char *log_dir, int rank, char out[REASON_MAX])
{
    static const char heading[] = "# rank ", detail[] = "--> "; /* of the line before */
    char path[PATH_MAX], *bytes = NULL, *rest, *line;
    size_t size;
    bool found = false;
    *out = '\0';
    if (path_format(path, sizeof path, "%s/rank-%d.log", log_dir, rank) != STATUS_OK ||
        file_read(path, LOG_BYTES_MAX, &bytes, &size) != STATUS_OK)
        return false;
    rest = bytes;
    while ((line = strsep(&rest, "\r\n"))) {
        const char *error = error_of_line(line);
        bool start = strncmp(line, heading, strlen(heading)) == 0;
        const char *text = start ? "" : error ? error : line + strspn(line, " ");
        if (!start && (found || is_epilogue(line)))
            continue;
        if (strncmp(text, detail, strlen(detail)) != 0)
            *out = '\0';
        text_join(out, REASON_MAX, " ", "%s", text);
        found = !start && error;
    }
    free(bytes);
    return found;
}

void lines_end(struct lines *l)
{
    l->text[l->n] = '\0';
    if (l->n > 0)
        l->take(l->self, l->text, l->n);
    l->n = 0;
}

void lines_feed(struct lines *l, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (l->n > 0 && l->text[l->n - 1] == '\r' && bytes[i] != '\n')
            l->n = 0;
        l->text[l->n++] = bytes[i];
        if (bytes[i] == '\n' || l->n == LINES_MAX)
            lines_end(l);
    }
}

enum status streams_open(bool terminal, int own[2], int child[2])
{
    const struct termios raw = {.c_cflag = CS8 | CREAD | B38400};
    for (int i = 0, fd[2]; i < 2; i++) {
        if ((terminal && i == 0 ? openpty(&fd[0], &fd[1], NULL, &raw, NULL) : pipe(fd)) != 0 ||
            fcntl(fd[0], F_SETFD, FD_CLOEXEC) != 0 || fcntl(fd[1], F_SETFD, FD_CLOEXEC) != 0)
            return status_fail(STATUS_IO, "cannot create a pipe or terminal: %s", strerror(errno));
        own[i] = fd[0];
        child[i] = fd[1];
    }
    return STATUS_OK;
}

bool streams_read(int stream[2], int signals, int timeout_ms,
                  void (*take)(void *self, int i, const char *bytes, size_t n), void *self)
{
    char bytes[8192];
    struct pollfd p[] = {{stream[0], POLLIN, 0}, {stream[1], POLLIN, 0}, {signals, POLLIN, 0}};
    output_drain();
    if (poll(p, 3, timeout_ms) <= 0)
        return false;
    for (int i = 0; i < 2; i++) {
        ssize_t n = p[i].revents ? read(stream[i], bytes, sizeof bytes) : -1;
        if (n > 0) {
            take(self, i, bytes, (size_t)n);
        } else if (p[i].revents && (n == 0 || errno != EINTR)) { /* EIO at a terminal's end */
            fd_close(&stream[i]);
        }
    }
    return true;
}

/* Runs in the child and does not return. Prints an error to the command's stderr. */
static void become(const struct spawn *c, pid_t parent)
{
    sigset_t none;
    sigemptyset(&none);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
    bool own = setsid() > 0;  /* mpirun signals the supervisor's group */
    signal(SIGUSR1, SIG_IGN); /* forgets one that was for the supervisor */
    signal(SIGUSR1, SIG_DFL);
    int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (own && in >= 0 && prctl(PR_SET_PDEATHSIG, c->death_signal) == 0 && getppid() == parent &&
        dup2(in, STDIN_FILENO) >= 0 && dup2(c->out, STDOUT_FILENO) >= 0 &&
        dup2(c->err, STDERR_FILENO) >= 0 &&
        (!c->place || launcher_export(c->place, c->address) == STATUS_OK) &&
        sigprocmask(SIG_SETMASK, &none, NULL) == 0)
        execvp(c->program, c->argv);
    dprintf(c->err, "ampscale: cannot run '%s': %s\n", c->program, strerror(errno));
    _exit(status_exit_code(STATUS_IO));
}

enum status spawn(const struct spawn *c, pid_t *pid)
{
    pid_t self = getpid();
    *pid = fork();
    if (*pid == 0)
        become(c, self);
    return *pid > 0 ? STATUS_OK
                    : status_fail(STATUS_IO, "cannot start a process: %s", strerror(errno));
}

int cores_share(int ranks, int cores)
{
    return ranks < 2 ? cores : cores > ranks ? cores / ranks : 1;
}

/* A number from a file in the CPU's folder in /sys; 0 if there is no such file. */
static int64_t topology(int cpu, const char *file)
{
    char path[128], text[16];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/%s", cpu, file);
    return file_first_line(path, text, sizeof text) ? atoi(text) & 0xfffff : 0;
}

static int by_value(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

void cores_bind(const struct launcher_place *place, cpu_set_t *set)
{
    int64_t cpu[CPU_SETSIZE];
    int n = 0, ranks = place->local_size > 0 ? place->local_size : 1, rank = place->local_rank;
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, set))
            cpu[n++] = topology(i, "physical_package_id") << 40 | topology(i, "core_id") << 20 | i;
    if (n == 0)
        return;
    qsort(cpu, (size_t)n, sizeof *cpu, by_value);
    int first = n >= ranks ? rank * n / ranks : rank % n;
    int end = n >= ranks ? (rank + 1) * n / ranks : first + 1;
    CPU_ZERO(set);
    for (int i = first; i < end; i++)
        CPU_SET((size_t)(cpu[i] & 0xfffff), set);
}

struct supervisor {
    const struct launch_config *config;
    struct launcher_place place;
    struct rank_report report; /* has the rank, host and pid; has the reason when it is known */
    int log;                   /* descriptor, -1: none */
    struct process_signals signals;
    pid_t pid;     /* of the command; 0: it has ended */
    int status;    /* of waitpid, after that */
    int stream[2]; /* this process's ends of rank 0's stdout and stderr; -1: none, or ended */
    struct lines lines[2];
    pid_t parent;
    bool stopping;   /* the command has been asked for an orderly stop */
    bool ending;     /* the job is ending, and the command must end too */
    bool failed;     /* the command printed an error before the job ended */
    double ended_at; /* clock_s; used while `ending` */
    bool reported;
};

/* Writes a line to the log, without the code with which a progress bar clears its line. */
static void log_line(void *self, char *line, size_t n)
{
    struct supervisor *s = self;
    size_t skip = strncmp(line, "\033[K", 3) == 0 ? 3 : 0;
    (void)!write(s->log, line + skip, n - skip); /* a full disk does not end the job */
}

/* Copies lines of stderr as wholes, because other ranks may write between them; but not those with
 * which the command ends because the job does. */
static void error_line(void *self, char *line, size_t n)
{
    struct supervisor *s = self;
    log_line(s, line, n);
    if (!s->ending)
        fprintf(stderr, "%s%s", line, line[n - 1] == '\n' ? "" : "\n");
}

static void take_output(void *self, int i, const char *bytes, size_t n)
{
    struct supervisor *s = self;
    lines_feed(&s->lines[i], bytes, n);
    if (i == 0)
        fwrite(bytes, 1, n, stdout);
    fflush(stdout);
}

static bool read_output(struct supervisor *s, int timeout_ms)
{
    return streams_read(s->stream, s->pid ? s->signals.fd : -1, timeout_ms, take_output, s);
}

static void write_report(struct supervisor *s)
{
    char line[REPORT_MAX];
    report_write(&s->report, line);
    fputs(line, stderr);
    s->reported = s->reported || s->report.end < REPORT_STARTED;
    if (s->reported)
        dprintf(s->log, "%s", line);
}

/* Finds the reason of a failure in the log. */
static void find_reason(struct supervisor *s)
{
    lines_end(&s->lines[0]);
    lines_end(&s->lines[1]);
    s->failed = log_reason(s->config->log_dir, s->place.rank, s->report.reason);
}

/* Ends the command, because the job ends. Sends SIGTERM, and the command then has END_S to end. If
 * the command has already been sent SIGTERM, sends SIGKILL. Only an error message before this call
 * may be the reason why the job ends. */
static void end_command(struct supervisor *s)
{
    if (!s->ending) {
        s->ended_at = clock_s();
        read_output(s, 0);
        find_reason(s);
        s->failed = s->failed && !s->stopping;
    }
    kill(s->pid, s->stopping || s->ending ? SIGKILL : SIGTERM);
    s->ending = true;
}

/* Asks the command to stop in an orderly way: once, because `train` ends at once if asked again.
 * Acknowledges each request, because the launcher repeats it until it gets an answer. */
static void ask_to_stop(struct supervisor *s)
{
    if (!s->stopping && !s->ending)
        kill(s->pid, SIGTERM);
    s->stopping = true;
    s->report.end = REPORT_ASKED;
    write_report(s);
}

/* Handles output, signals and time limits until the command has ended and its output has been
 * read. Does not wait for output of processes that the command has started. */
static void watch(struct supervisor *s)
{
    while (s->pid) {
        read_output(s, s->ending ? END_CHECK_MS : CHECK_MS);
        if (waitpid(s->pid, &s->status, WNOHANG) == s->pid) {
            s->pid = 0;
            break;
        }
        for (int signo; (signo = process_signals_next(&s->signals)) != 0;)
            signo == SIGUSR1 ? ask_to_stop(s) : end_command(s);
        if (!s->ending && getppid() != s->parent)
            end_command(s);
        if (s->ending && s->failed && !s->reported && clock_s() >= s->ended_at + REPORT_S) {
            s->report.end = REPORT_ENDED;
            write_report(s);
        }
        if (s->ending && clock_s() >= s->ended_at + END_S)
            kill(s->pid, SIGKILL);
    }
    while (read_output(s, 0))
        ;
}

/* If the command failed, completes and writes the report. Returns the supervisor's exit code. */
static int report_end(struct supervisor *s)
{
    struct rank_report *r = &s->report;
    bool killed = WIFSIGNALED(s->status);
    int code = killed ? 128 + WTERMSIG(s->status) : WEXITSTATUS(s->status);
    /* With a verdict's exit code the command has not failed: its last line is no reason. */
    bool verdict = code > status_exit_code(STATUS_USAGE) && code <= status_exit_code(STATUS_DATA);
    if (!s->ending)
        find_reason(s);
    if (code == 0 || s->reported || (s->ending && !s->failed))
        return code;
    r->code = code;
    r->end = !killed ? REPORT_EXITED : s->ending ? REPORT_ENDED : REPORT_KILLED;
    if (s->stopping && (!killed || code == 128 + SIGTERM))
        r->end = REPORT_STOPPED;
    if (verdict && !s->failed)
        *r->reason = '\0';
    write_report(s);
    /* A rank that the signal killed had not begun: the others may wait for it in MPI_Init, and so
     * mpirun must end them. */
    return r->end == REPORT_STOPPED && !killed ? 0 : code;
}

/* Opens the log, binds this process, and so the command, to its cores, writes a heading, and starts
 * the command. The output of rank 0 comes through pipes; other ranks write to their logs. */
static enum status start(struct supervisor *s)
{
    const struct launch_config *c = s->config;
    int end[2] = {-1, -1}, cores = host_cores(), ranks = s->place.local_size;
    bool first = s->place.rank == 0;
    char path[PATH_MAX], *line = NULL;
    struct words command = {0};
    cpu_set_t set;
    enum status st;
    CHECK(dir_make(c->log_dir));
    CHECK(path_format(path, sizeof path, "%s/rank-%d.log", c->log_dir, s->place.rank));
    CHECK(log_open(path, O_WRONLY, &s->log));
    CHECK(process_signals_open(&s->signals));
    CHECK(command_rank(c, cores_share(ranks, cores), &command));
    CHECK(words_shell(&command, &line));
    dprintf(s->log, "# rank %d on %s: %s\n", s->place.rank, s->report.host, line);
    bool bind =
        c->bind == LAUNCH_BIND_AUTO ? ranks > 0 && cores >= ranks : c->bind == LAUNCH_BIND_CORES;
    if (bind && sched_getaffinity(0, sizeof set, &set) == 0) {
        cores_bind(&s->place, &set);
        if (sched_setaffinity(0, sizeof set, &set) != 0)
            dprintf(s->log, "# cannot bind to cores: %s\n", strerror(errno));
    }
    if (first)
        CHECK(streams_open(c->terminal, s->stream, end));
    const struct spawn child = {.program = c->program,
                                .argv = command.v,
                                .out = first ? end[0] : s->log,
                                .err = first ? end[1] : s->log,
                                .death_signal = SIGKILL};
    CHECK(spawn(&child, &s->pid));
    s->report.pid = s->pid;
    s->report.end = REPORT_STARTED;
    write_report(s);
done:
    close(end[0]);
    close(end[1]);
    free(line);
    words_free(&command);
    return st;
}

int launch_supervise(const struct launch_config *c)
{
    struct supervisor s = {.config = c,
                           .log = -1,
                           .signals.fd = -1,
                           .stream = {-1, -1},
                           .lines = {{log_line, &s, 0, ""}, {error_line, &s, 0, ""}},
                           .report = {REPORT_EXITED, .pid = getpid(), .host = "unknown"},
                           .parent = getppid()};
    gethostname(s.report.host, sizeof s.report.host - 1);
    enum status st = launcher_place_find(&s.place);
    s.report.rank = s.place.rank;
    st = st == STATUS_OK ? start(&s) : st;
    int exit_code = status_exit_code(st);
    if (st == STATUS_OK) {
        watch(&s);
        exit_code = report_end(&s);
    } else {
        s.report.code = exit_code;
        snprintf(s.report.reason, sizeof s.report.reason, "%s", status_message());
        write_report(&s);
    }
    close(s.log);
    process_signals_close(&s.signals);
    return exit_code;
}
