/* The supervisor of a rank. mpirun or launch_node starts this process, and it runs the command as
 * its child.
 *
 * One loop waits for output and for signals (through a file descriptor, without handlers), and
 * checks twice a second that the supervisor's parent is alive. The kernel kills the command if its
 * supervisor dies. */
#include "base/clock.h"
#include "base/file.h"
#include "base/host.h"
#include "base/text.h"
#include "launch/child.h"
#include "launch/command.h"
#include "launch/cores.h"
#include "launch/one_machine.h"
#include "launch/report.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    CHECK_MS = 500,    /* time between checks that the parent is alive */
    END_CHECK_MS = 20, /* time between checks of the clock when the job ends */
    END_SECONDS = 2,   /* time from SIGTERM to SIGKILL when the job ends */
    /* Time from SIGTERM to the report. It is short, because Open MPI 4 kills the supervisor one
     * second after SIGTERM, and Open MPI 5 after a quarter of a second. */
    REPORT_MS = 100,
};

struct supervisor {
    const struct supervisor_config *config;
    struct launcher_place place;
    struct rank_report report; /* has the rank, host and pid; has the reason when it is known */
    char log_path[4096];
    FILE *log;
    bool log_failed; /* a warning has been printed */
    struct process_signals signals;
    struct child child;           /* the command */
    char last[REPORT_REASON_MAX]; /* the last line that the command printed on stderr */
    pid_t parent;
    bool stopping;               /* the command has been asked for an orderly stop */
    bool ending;                 /* the job is ending, and the command must end too */
    uint64_t kill_at, report_at; /* clock_ns; used while `ending` */
    bool reported;
};

/* Copies a line without its newline, cut to REPORT_REASON_MAX bytes. */
static void copy_line(char out[REPORT_REASON_MAX], const char *line, size_t n)
{
    while (n > 0 && (line[n - 1] == '\n' || line[n - 1] == '\r'))
        n--;
    snprintf(out, REPORT_REASON_MAX, "%.*s", (int)n, line);
}

static void log_line(void *self, const char *line, size_t n)
{
    static const char clear[] = "\033[K"; /* terminal code with which a progress bar clears its
                                           * line */
    struct supervisor *s = self;
    if (n >= sizeof clear - 1 && memcmp(line, clear, sizeof clear - 1) == 0) {
        line += sizeof clear - 1;
        n -= sizeof clear - 1;
    }
    fwrite(line, 1, n, s->log);
}

/* Reads a line of the command's stderr. The reason of a failure is the command's first error
 * message. If there is no error message, it is the last line; a library or the C runtime may have
 * printed that line. */
static void take_error(void *self, const char *line, size_t n)
{
    struct supervisor *s = self;
    log_line(s, line, n);
    if (n > 1)
        copy_line(s->last, line, n);
    const char *reason = report_reason(s->last);
    if (!*s->report.reason && !s->ending && reason)
        snprintf(s->report.reason, sizeof s->report.reason, "%s", reason);
    if (s->place.rank == 0 && !s->ending) {
        fwrite(line, 1, n, stderr);
        if (line[n - 1] != '\n')
            fputc('\n', stderr);
    }
}

static void check_log(struct supervisor *s)
{
    if (fflush(s->log) == 0 || s->log_failed)
        return;
    text_print(stderr, "ampscale: warning: rank %d (host %s) cannot write '%s': %s", s->place.rank,
               s->report.host, s->log_path, strerror(errno));
    s->log_failed = true;
}

/* Copies rank 0's output to stdout as it arrives, without waiting for whole lines. */
static void copy_output(void *self, const char *bytes, size_t n)
{
    (void)self;
    fwrite(bytes, 1, n, stdout);
    fflush(stdout);
}

static void read_output(struct supervisor *s, int timeout_ms)
{
    child_read(&s->child, &s->signals, timeout_ms);
    check_log(s);
}

static void write_report(struct supervisor *s)
{
    char line[REPORT_MAX];
    report_write(&s->report, line);
    fputs(line, s->log);
    fputs(line, stderr);
    check_log(s);
    s->reported = true;
}

/* Ends the command, because the job ends. Sends SIGTERM, and the command then has END_SECONDS to
 * end. If the command has already been sent SIGTERM, sends SIGKILL. Reads the output first: output
 * before this call may contain the reason why the job ends. Later output does not contain it. */
static void end_command(struct supervisor *s)
{
    if (!s->ending) {
        uint64_t now = clock_ns();
        s->kill_at = now + END_SECONDS * UINT64_C(1000000000);
        s->report_at = now + REPORT_MS * UINT64_C(1000000);
        read_output(s, 0);
    }
    kill(s->child.pid, s->stopping || s->ending ? SIGKILL : SIGTERM);
    s->ending = true;
}

/* Whether the command printed an error before the job ended. False if the command was asked to
 * stop. */
static bool failed_before_end(const struct supervisor *s)
{
    return s->ending && !s->stopping && *s->report.reason;
}

static void take_signals(struct supervisor *s)
{
    int signo = child_signal(&s->child, &s->signals);
    if (signo == SIGUSR1) {
        kill(s->child.pid, SIGTERM);
        s->stopping = true;
    } else if (signo) {
        end_command(s);
    }
}

/* Handles output, signals and time limits until the command has ended and its output has been
 * read. */
static void watch(struct supervisor *s)
{
    while (s->child.pid) {
        read_output(s, s->ending ? END_CHECK_MS : CHECK_MS);
        take_signals(s);
        if (!s->child.pid)
            break;
        if (!s->ending && getppid() != s->parent)
            end_command(s);
        if (failed_before_end(s) && !s->reported && clock_ns() >= s->report_at) {
            s->report.end = REPORT_ENDED;
            write_report(s);
        }
        if (s->ending && clock_ns() >= s->kill_at)
            kill(s->child.pid, SIGKILL);
    }
    child_close(&s->child);
    check_log(s);
}

static enum status open_log(struct supervisor *s)
{
    TRY(dir_make(s->config->log_dir));
    TRY(path_format(s->log_path, sizeof s->log_path, "%s/rank-%d.log", s->config->log_dir,
                    s->place.rank));
    s->log = fopen(s->log_path, "ae");
    return s->log ? STATUS_OK
                  : status_fail(STATUS_IO, "cannot write '%s': %s", s->log_path, strerror(errno));
}

/* Binds this process, and so the command, to the rank's share of the cores. Returns the number of
 * cores in the share. */
static int take_share(const struct supervisor *s)
{
    cpu_set_t set;
    int share = cores_share(&s->place, host_cores());
    if (s->config->bind == LAUNCH_BIND_CORES && sched_getaffinity(0, sizeof set, &set) == 0) {
        cores_bind(&s->place, &set);
        if (sched_setaffinity(0, sizeof set, &set) != 0)
            fprintf(s->log, "# cannot bind to cores: %s\n", strerror(errno));
    }
    return share;
}

/* Writes a heading to the log. The log has one heading for each start of the command. */
static enum status log_heading(struct supervisor *s, const struct words *command)
{
    char *line;
    TRY(words_shell(command, &line));
    fprintf(s->log, "# rank %d on %s: %s\n", s->place.rank, s->report.host, line);
    free(line);
    check_log(s);
    return STATUS_OK;
}

/* Whether the exit code says that the command has printed a verdict. Such a command has not failed:
 * its last line on stderr shows progress and is not a reason. */
static bool is_verdict(const struct rank_report *r)
{
    return r->end == REPORT_EXITED && r->code > status_exit_code(STATUS_USAGE) &&
           r->code <= status_exit_code(STATUS_DATA);
}

/* If the command failed, completes and writes the report. Returns the supervisor's exit code. */
static int report_end(struct supervisor *s)
{
    struct rank_report *r = &s->report;
    int status = s->child.status;
    bool killed = WIFSIGNALED(status);
    int code = killed ? WTERMSIG(status) : WEXITSTATUS(status);
    int exit_code = killed ? 128 + code : code;
    if (exit_code == 0 || s->reported || (s->ending && !failed_before_end(s)))
        return exit_code;
    r->end = !killed ? REPORT_EXITED : s->ending ? REPORT_ENDED : REPORT_KILLED;
    r->code = code;
    if (s->stopping && (!killed || code == SIGTERM)) {
        r->end = REPORT_STOPPED;
        r->code = exit_code;
    }
    if (!*r->reason && !is_verdict(r))
        memcpy(r->reason, s->last, sizeof r->reason);
    write_report(s);
    return r->end == REPORT_STOPPED ? 0 : exit_code;
}

static enum status supervise(struct supervisor *s, int *exit_code)
{
    const struct supervisor_config *c = s->config;
    bool first = s->place.rank == 0;
    struct child_config child = {
        .program = c->program, .terminal = c->terminal && first, .death_signal = SIGKILL};
    struct words command = {0};
    enum status st;
    s->child.out = (struct output){.take = log_line, .copy = first ? copy_output : NULL, .self = s};
    s->child.err = (struct output){.take = take_error, .self = s};
    signal(SIGPIPE, SIG_IGN); /* the log must continue when the reader of stdout has ended */
    CHECK(open_log(s));
    CHECK(process_signals_open(&s->signals));
    CHECK(one_machine_rank());
    int cores = take_share(s);
    CHECK(launch_command_rank(c->argc, c->argv, c->threads, cores, &command));
    CHECK(log_heading(s, &command));
    child.argv = command.v;
    CHECK(child_start(&child, &s->child));
    s->report.pid = s->child.pid;
    watch(s);
    *exit_code = report_end(s);
done:
    words_free(&command);
    return st;
}

int launch_supervise(const struct supervisor_config *c)
{
    struct supervisor s = {.config = c, .signals.fd = -1, .parent = getppid()};
    int exit_code = 0;
    char line[REPORT_MAX];
    s.report.pid = getpid();
    if (gethostname(s.report.host, sizeof s.report.host - 1) != 0)
        snprintf(s.report.host, sizeof s.report.host, "unknown");
    enum status st = launcher_place_find(&s.place);
    if (st != STATUS_OK) {
        fprintf(stderr, "ampscale: %s\n", status_message());
        return status_exit_code(st);
    }
    s.report.rank = s.place.rank;
    st = supervise(&s, &exit_code);
    if (st != STATUS_OK) {
        exit_code = s.report.code = status_exit_code(st);
        snprintf(s.report.reason, sizeof s.report.reason, "%s", status_message());
        report_write(&s.report, line);
        fputs(line, stderr);
    }
    if (s.log)
        fclose(s.log);
    process_signals_close(&s.signals);
    return exit_code;
}
