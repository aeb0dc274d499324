/* One start of mpirun: shows what rank 0 says and why a rank failed, and sees to the end.
 *
 * mpirun's stdout is rank 0's. On its stderr, lines that begin with "ampscale: " come from the
 * ranks; the rest is mpirun's own, which goes to a log of its own and is shown only when no rank
 * has said what is wrong. */
#include "launch/job.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "launch/lines.h"
#include "launch/report.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    TELLING_LINES = 4, /* of mpirun's own that are shown */
    TELLING_SIZE = 256,
    END_SECONDS = 5, /* between mpirun's SIGTERM and its SIGKILL, and for what outlives it */
    LOOK_MS = 500,
};

/* How far the job is on its way out; it never goes back. */
enum job_phase {
    PHASE_RUNNING,
    PHASE_STOPPING, /* the ranks have been asked, and have their grace */
    PHASE_FAILING,  /* one has failed, and the others may still say why */
    PHASE_ENDING,   /* mpirun has been told to end them */
    PHASE_KILLING,
};

struct job {
    const struct job_config *config;
    pid_t mpirun; /* 0: it has ended, as `status` says */
    int status;
    int out, err; /* -1 after their end */
    struct lines out_lines, err_lines;
    enum job_phase phase;
    uint64_t next_at; /* clock_ns at which the next phase comes, unless running */
    int received;     /* the first signal that asked for an end */
    bool banner;      /* Hydra has begun to speak on stdout */
    int failures;     /* reports of ranks that failed, and what the first comes to */
    int code;
    int blamed;  /* the rank that the first report's reason names, until it reports; or -1 */
    int started; /* ranks that have begun, as far as is looked at */
    bool late;   /* not all began in time */
    time_t begun;
    bool stopped; /* a rank ended before its work was done, because it was asked to or made to */
    char said[REPORT_REASON_MAX]; /* the last thing shown, without "ampscale: " */
    int telling;                  /* lines kept of mpirun's own */
    char tell[TELLING_LINES][TELLING_SIZE];
};

static uint64_t seconds_from_now(int seconds)
{
    return clock_ns() + (uint64_t)seconds * 1000000000u;
}

static void enter(struct job *j, enum job_phase phase, int seconds)
{
    if (phase <= j->phase)
        return;
    j->phase = phase;
    j->next_at = seconds_from_now(seconds);
}

/* mpirun ends the ranks; one that does not in time is killed, and its ranks notice. Ranks that had
 * to be ended have not done their work, though Hydra may exit with 0 then. */
static void end_job(struct job *j)
{
    j->stopped = true;
    if (j->phase >= PHASE_ENDING)
        enter(j, PHASE_KILLING, END_SECONDS);
    else
        enter(j, PHASE_ENDING, END_SECONDS);
    if (j->mpirun)
        kill(j->mpirun, j->phase == PHASE_KILLING ? SIGKILL : SIGTERM);
}

/* Shows a line unless it has just been said: ranks that fail alike say the same. */
static void show(struct job *j, const char *text, const char *core)
{
    size_t n = strnlen(core, sizeof j->said - 1);
    if (strlen(j->said) == n && memcmp(j->said, core, n) == 0)
        return;
    memcpy(j->said, core, n);
    j->said[n] = '\0';
    char clean[LINES_MAX + 1];
    text_clean(clean, sizeof clean, text);
    fprintf(stderr, "ampscale: %s\n", clean);
}

/* Whether a failure after the first is worth telling: what failed first may have been the
 * consequence of a kill, of what the rank did that it blames, or of one that had failed before but
 * did not come to its exit. */
static bool is_cause(const struct job *j, const struct rank_report *r)
{
    return r->end == REPORT_KILLED || r->end == REPORT_ENDED ||
           (r->rank == j->blamed && *r->reason);
}

/* The first failure ends the job, as mpirun would have it; Hydra waits for the other ranks unless
 * one is killed. */
static void take_report(struct job *j, const struct rank_report *r, const char *text)
{
    if (r->end == REPORT_STOPPED) {
        j->stopped = true;
        return;
    }
    if (j->failures++ == 0) {
        j->code = report_code(r);
        /* A reason that names a rank is that rank's, whoever noticed. */
        bool named = sscanf(r->reason, "rank %9d", &j->blamed) == 1;
        show(j, named ? r->reason : text, *r->reason ? r->reason : text);
    } else if (is_cause(j, r)) {
        show(j, text, *r->reason ? r->reason : text);
    }
    if (r->rank == j->blamed)
        j->blamed = -1;
    enter(j, PHASE_FAILING, j->config->fail_seconds);
}

static bool is_ours(const char *line, size_t n, const char **text)
{
    static const char mark[] = "ampscale: ";
    *text = line + sizeof mark - 1;
    return n >= sizeof mark - 1 && memcmp(line, mark, sizeof mark - 1) == 0;
}

/* Keeps the first lines that mpirun says something in. */
static void take_chatter(struct job *j, const char *line, size_t n)
{
    fwrite(line, 1, n, j->config->chatter);
    while (n > 0 && strchr("\n\r ", line[n - 1]))
        n--;
    bool rule = strspn(line, "-=") >= n;
    if (rule || j->telling == TELLING_LINES)
        return;
    char raw[TELLING_SIZE];
    snprintf(raw, sizeof raw, "%.*s", (int)n, line);
    text_clean(j->tell[j->telling++], TELLING_SIZE, raw);
}

/* Skips what Open MPI 5 may put before a line: the NUL that ended what it said itself, and what
 * rank 0 had drawn on stdout of a line that has not ended. */
static void skip_foreign(const char **line, size_t *n)
{
    static const char drawn_end[] = "\033[K";
    const char *end = *line + *n;
    while (*line < end && **line == '\0')
        ++*line;
    const char *drawn = memmem(*line, (size_t)(end - *line), drawn_end, sizeof drawn_end - 1);
    if (drawn)
        *line = drawn + sizeof drawn_end - 1;
    *n = (size_t)(end - *line);
}

static void take_error(void *self, const char *line, size_t n)
{
    struct job *j = self;
    struct rank_report report;
    char copy[LINES_MAX + 1];
    const char *text;
    skip_foreign(&line, &n);
    memcpy(copy, line, n);
    copy[n] = '\0';
    if (!is_ours(copy, n, &text)) {
        take_chatter(j, copy, n);
        return;
    }
    bool reported = report_read(copy, n, &report);
    copy[strcspn(copy, "\r\n")] = '\0';
    if (reported)
        take_report(j, &report, text);
    else
        show(j, text, text);
}

/* Rank 0's output as it is; Hydra puts what it has to say about a job's end there too. */
static void take_output(void *self, const char *line, size_t n)
{
    static const char banner[] = "====================";
    struct job *j = self;
    j->started = j->config->ranks; /* rank 0 speaks, and so all have met */
    if (n >= sizeof banner - 1 && memcmp(line, banner, sizeof banner - 1) == 0)
        j->banner = true;
    if (j->banner)
        take_chatter(j, line, n);
    else
        fwrite(line, 1, n, stdout);
}

static void read_stream(struct job *j, int *fd, struct lines *lines, lines_take *take)
{
    char bytes[8192];
    ssize_t n = read(*fd, bytes, sizeof bytes);
    if (n < 0 && errno == EINTR)
        return;
    if (n > 0) {
        lines_feed(lines, bytes, (size_t)n, take, j);
    } else {
        lines_end(lines, take, j);
        close(*fd);
        *fd = -1;
    }
    fflush(stdout);
    fflush(j->config->chatter);
}

/* False: nothing had come within `timeout` milliseconds. */
static bool read_streams(struct job *j, int timeout)
{
    struct pollfd p[] = {{.fd = j->out, .events = POLLIN},
                         {.fd = j->err, .events = POLLIN},
                         {.fd = j->mpirun ? j->config->signals : -1, .events = POLLIN}};
    if (poll(p, 3, timeout) <= 0)
        return false;
    if (p[0].revents)
        read_stream(j, &j->out, &j->out_lines, take_output);
    if (p[1].revents)
        read_stream(j, &j->err, &j->err_lines, take_error);
    return true;
}

/* The first signal asks the ranks to stop; mpirun forwards SIGUSR1. */
static void take_stop(struct job *j, int signo)
{
    char name[32];
    if (j->received) {
        end_job(j);
        return;
    }
    report_signal_name(signo, name);
    j->received = signo;
    fprintf(stderr,
            "ampscale: %s: the ranks are asked to stop, within %d s; a second signal ends them at "
            "once\n",
            name, j->config->grace);
    kill(j->mpirun, SIGUSR1);
    enter(j, PHASE_STOPPING, j->config->grace);
}

static void take_signals(struct job *j)
{
    struct signalfd_siginfo info;
    while (j->mpirun && read(j->config->signals, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo != SIGCHLD)
            take_stop(j, (int)info.ssi_signo);
        else if (waitpid(j->mpirun, &j->status, WNOHANG) == j->mpirun)
            j->mpirun = 0;
    }
}

/* mpirun may wait indefinitely for what never starts, where it lacks file descriptors for one: a
 * rank that began has written a heading to its log. */
static void look_for_ranks(struct job *j, uint64_t end)
{
    char path[4096];
    struct stat s;
    while (j->started < j->config->ranks &&
           path_format(path, sizeof path, "%s/rank-%d.log", j->config->log_dir, j->started) ==
               STATUS_OK &&
           stat(path, &s) == 0 && s.st_mtime >= j->begun - 1)
        j->started++;
    if (j->started == j->config->ranks || clock_ns() < end || j->phase != PHASE_RUNNING)
        return;
    j->late = true;
    end_job(j);
}

static void watch(struct job *j)
{
    uint64_t end = seconds_from_now(j->config->start_seconds);
    while (j->mpirun) {
        read_streams(j, LOOK_MS);
        take_signals(j);
        if (j->config->start_seconds > 0)
            look_for_ranks(j, end);
        if (j->phase != PHASE_RUNNING && clock_ns() >= j->next_at)
            end_job(j);
    }
    while ((j->out >= 0 || j->err >= 0) && read_streams(j, 0))
        ;
}

/* Ranks whose mpirun was killed have become children of this process, and are on their way out:
 * nothing of the job runs when this returns, unless it hangs. */
static void wait_for_orphans(void)
{
    uint64_t end = seconds_from_now(END_SECONDS);
    for (;;) {
        pid_t pid = waitpid(-1, NULL, WNOHANG);
        if (pid < 0 && errno != EINTR)
            return;
        if (pid == 0 && clock_ns() >= end)
            return;
        if (pid == 0)
            poll(NULL, 0, 20);
    }
}

/* In the child: never returns. A session of its own keeps the terminal's signals to the launcher.
 */
static void become_mpirun(char **argv, int out, int err, pid_t launcher)
{
    sigset_t none;
    sigemptyset(&none);
    signal(SIGPIPE, SIG_DFL);
    setsid();
    int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (in >= 0 && dup2(in, 0) == 0 && dup2(out, 1) == 1 && dup2(err, 2) == 2 &&
        prctl(PR_SET_PDEATHSIG, SIGTERM) == 0 && getppid() == launcher &&
        sigprocmask(SIG_SETMASK, &none, NULL) == 0)
        execvp(argv[0], argv);
    dprintf(2, "cannot run '%s': %s\n", argv[0], strerror(errno));
    _exit(status_exit_code(STATUS_IO));
}

static enum status start_mpirun(struct job *j, char **argv)
{
    int out[2], err[2];
    if (pipe2(out, O_CLOEXEC) != 0)
        return status_fail(STATUS_IO, "cannot make a pipe: %s", strerror(errno));
    if (pipe2(err, O_CLOEXEC) != 0) {
        close(out[0]);
        close(out[1]);
        return status_fail(STATUS_IO, "cannot make a pipe: %s", strerror(errno));
    }
    j->out = out[0];
    j->err = err[0];
    pid_t self = getpid();
    j->mpirun = fork();
    if (j->mpirun == 0)
        become_mpirun(argv, out[1], err[1], self);
    close(out[1]);
    close(err[1]);
    if (j->mpirun > 0)
        return STATUS_OK;
    j->mpirun = 0;
    return status_fail(STATUS_IO, "cannot start a process: %s", strerror(errno));
}

/* What a rank's log, if it is on this host, says is wrong, of the latest start. */
static bool read_reason(const char *dir, int rank, char out[REPORT_REASON_MAX])
{
    enum { LOG_BYTES_MAX = 64 << 20 };
    static const char heading[] = "# rank ";
    char path[4096], *bytes, *rest, *line;
    size_t size;
    *out = '\0';
    if (path_format(path, sizeof path, "%s/rank-%d.log", dir, rank) != STATUS_OK ||
        file_read(path, LOG_BYTES_MAX, &bytes, &size) != STATUS_OK)
        return false;
    rest = bytes;
    while ((line = strsep(&rest, "\n"))) {
        const char *reason = report_reason(line);
        if (strncmp(line, heading, sizeof heading - 1) == 0)
            *out = '\0';
        else if (reason && !*out)
            snprintf(out, REPORT_REASON_MAX, "%s", reason);
    }
    free(bytes);
    return *out != '\0';
}

/* A keeper that is killed reports nothing, and Open MPI 5 passes on no report of one that it is
 * about to kill: what its rank had said lies in its log. */
static void tell_unreported(struct job *j, int rank)
{
    char reason[REPORT_REASON_MAX], text[REPORT_MAX];
    if (!read_reason(j->config->log_dir, rank, reason))
        return;
    snprintf(text, sizeof text, "rank %d: %s", rank, reason);
    show(j, text, reason);
}

/* mpirun failed, and no rank has reported why. */
static enum status fail_mpirun(struct job *j)
{
    char name[32];
    for (int rank = 0; rank < j->config->ranks; rank++)
        tell_unreported(j, rank);
    if (WIFSIGNALED(j->status)) {
        report_signal_name(WTERMSIG(j->status), name);
        return status_fail(STATUS_LIBRARY,
                           "mpirun was killed by signal %d (%s), and the ranks with it",
                           WTERMSIG(j->status), name);
    }
    for (int i = 0; i < j->telling; i++)
        fprintf(stderr, "mpirun: %s\n", j->tell[i]);
    return status_fail(STATUS_LIBRARY, "mpirun failed with exit code %d; all it said is in '%s'",
                       WEXITSTATUS(j->status), j->config->chatter_path);
}

static enum status judge(struct job *j, int *exit_code)
{
    if (j->late)
        return status_fail(
            STATUS_LIBRARY,
            "rank %d of %d did not start within %d s: mpirun waits; look at the limits "
            "of this shell ('ulimit -a') and at what it said in '%s'",
            j->started, j->config->ranks, j->config->start_seconds, j->config->chatter_path);
    bool failed = j->status != 0 || j->failures > 0 || j->stopped;
    *exit_code = !failed ? 0 : j->received ? 128 + j->received : j->code;
    if (failed && !j->received && j->failures == 0)
        return fail_mpirun(j);
    if (j->blamed >= 0)
        tell_unreported(j, j->blamed);
    return STATUS_OK;
}

enum status job_run(const struct job_config *c, char **command, int *received, int *exit_code)
{
    struct job j = {.config = c,
                    .begun = time(NULL),
                    .out = -1,
                    .err = -1,
                    .out_lines.live = true,
                    .blamed = -1};
    TRY(start_mpirun(&j, command));
    watch(&j);
    wait_for_orphans();
    if (j.out >= 0)
        close(j.out);
    if (j.err >= 0)
        close(j.err);
    *received = j.received;
    return judge(&j, exit_code);
}
