/* Runs mpirun once, until the job ends. Shows rank 0's output and the reason of a failure.
 *
 * mpirun's stdout is the output of rank 0. On mpirun's stderr, lines that begin with "ampscale: "
 * come from the ranks. The other lines are mpirun's own: they are written to a log, and shown only
 * if no rank has reported a reason. */
#include "launch/job.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "launch/child.h"
#include "launch/report.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

enum {
    OWN_LINES_MAX = 4, /* maximum number of mpirun's own lines that are shown */
    OWN_LINE_SIZE = 256,
    END_SECONDS = 5, /* time from SIGTERM to SIGKILL for mpirun; also the time limit of
                      * wait_for_orphans */
    CHECK_MS = 500,
};

/* The phases of a job, in their order. A job can skip phases, but does not return to an earlier
 * one. */
enum job_phase {
    PHASE_RUNNING,
    PHASE_STOPPING, /* the ranks have been asked to stop, and have the grace period for that */
    PHASE_FAILING,  /* a rank has failed; the other ranks may still report */
    PHASE_ENDING,   /* mpirun has been sent SIGTERM */
    PHASE_KILLING,  /* mpirun has been sent SIGKILL */
};

struct job {
    const struct job_config *config;
    struct child mpirun;
    enum job_phase phase;
    uint64_t next_at; /* clock_ns when the next phase begins; unused in PHASE_RUNNING */
    int received;     /* the first stop signal to this process, or 0 */
    bool banner;      /* Hydra's own lines on stdout have begun (Hydra: MPICH's mpirun) */
    int failures;     /* number of reports of failed ranks */
    int code;         /* exit code of the first report */
    /* The rank that the first report names in its reason. -1: the report names no rank, or the
     * named rank has sent a report too. */
    int blamed;
    int started; /* number of ranks that have started, as far as is known */
    bool late;   /* not all ranks have started in time */
    time_t begun;
    bool stopped;                  /* a rank stopped before its work was done */
    char shown[REPORT_REASON_MAX]; /* the last line shown, without "ampscale: " */
    bool explained;                /* a line other than a report says why the job failed */
    int own_lines;                 /* number of lines in own_line */
    char own_line[OWN_LINES_MAX][OWN_LINE_SIZE];
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

/* The first call sends mpirun SIGTERM, and mpirun then ends the ranks. Later calls kill mpirun. The
 * ranks' supervisors detect that mpirun has ended, and end too. Sets `stopped`, because Hydra may
 * exit with 0 although the ranks have not done their work. */
static void end_job(struct job *j)
{
    j->stopped = true;
    if (j->phase >= PHASE_ENDING)
        enter(j, PHASE_KILLING, END_SECONDS);
    else
        enter(j, PHASE_ENDING, END_SECONDS);
    if (j->mpirun.pid)
        kill(j->mpirun.pid, j->phase == PHASE_KILLING ? SIGKILL : SIGTERM);
}

/* Shows the line `text`, unless the last line shown had the same reason `core`: several ranks may
 * fail for the same reason. */
static void show(struct job *j, const char *text, const char *core)
{
    size_t n = strnlen(core, sizeof j->shown - 1);
    if (strlen(j->shown) == n && memcmp(j->shown, core, n) == 0)
        return;
    memcpy(j->shown, core, n);
    j->shown[n] = '\0';
    char clean[OUTPUT_LINE_MAX + 1];
    text_clean(clean, sizeof clean, text);
    fprintf(stderr, "ampscale: %s\n", clean);
}

/* Whether the failure of a rank may be the cause of the first failure, although it was reported
 * later. There are three such cases: the rank was killed; the rank had failed by itself before this
 * process stopped it; the reason of the first failure names the rank. */
static bool is_cause(const struct job *j, const struct rank_report *r)
{
    return r->end == REPORT_KILLED || r->end == REPORT_ENDED ||
           (r->rank == j->blamed && *r->reason);
}

/* Handles the report of a rank. The first failure ends the job. Open MPI would end the job by
 * itself, but Hydra (MPICH's mpirun) would wait for all ranks. */
static void take_report(struct job *j, const struct rank_report *r, const char *text)
{
    if (r->end == REPORT_STOPPED) {
        j->stopped = true;
        return;
    }
    if (j->failures++ == 0) {
        j->code = report_code(r);
        /* If a reason begins with "rank N", rank N has failed, even if another rank reports it. */
        bool named = sscanf(r->reason, "rank %9d", &j->blamed) == 1;
        show(j, named ? r->reason : text, *r->reason ? r->reason : text);
    } else if (is_cause(j, r)) {
        show(j, text, *r->reason ? r->reason : text);
    }
    if (r->rank == j->blamed)
        j->blamed = -1;
    enter(j, PHASE_FAILING, j->config->fail_seconds);
}

static bool is_of_rank(const char *line, size_t n, const char **text)
{
    static const char mark[] = "ampscale: ";
    *text = line + sizeof mark - 1;
    return n >= sizeof mark - 1 && memcmp(line, mark, sizeof mark - 1) == 0;
}

/* Logs one of mpirun's own lines, and stores the first OWN_LINES_MAX of them. Does not store a
 * blank line, or a line that has only the characters '-' and '='. */
static void take_own(struct job *j, const char *line, size_t n)
{
    fwrite(line, 1, n, j->config->mpirun_log);
    while (n > 0 && strchr("\n\r ", line[n - 1]))
        n--;
    bool rule = strspn(line, "-=") >= n;
    if (rule || j->own_lines == OWN_LINES_MAX)
        return;
    char raw[OWN_LINE_SIZE];
    snprintf(raw, sizeof raw, "%.*s", (int)n, line);
    text_clean(j->own_line[j->own_lines++], OWN_LINE_SIZE, raw);
}

/* Skips bytes that Open MPI 5 may put before a rank's line: the NUL at the end of Open MPI's own
 * output, and a part of the progress bar that rank 0 draws on stdout. */
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
    char copy[OUTPUT_LINE_MAX + 1];
    const char *text;
    skip_foreign(&line, &n);
    memcpy(copy, line, n);
    copy[n] = '\0';
    if (!is_of_rank(copy, n, &text)) {
        take_own(j, copy, n);
        return;
    }
    bool reported = report_read(copy, n, &report);
    copy[strcspn(copy, "\r\n")] = '\0';
    if (reported) {
        take_report(j, &report, text);
    } else {
        j->explained = j->explained || report_reason(copy) != NULL;
        show(j, text, text);
    }
}

/* Copies rank 0's output to stdout. Logs Hydra's own lines about the end of the job, which Hydra
 * writes to the same stream. */
static void take_output(void *self, const char *line, size_t n)
{
    static const char banner[] = "====================";
    struct job *j = self;
    j->started = j->config->ranks; /* rank 0 prints nothing before all ranks have joined */
    if (n >= sizeof banner - 1 && memcmp(line, banner, sizeof banner - 1) == 0)
        j->banner = true;
    if (j->banner)
        take_own(j, line, n);
    else
        fwrite(line, 1, n, stdout);
}

/* Handles a stop signal to this process. The first signal asks the ranks to stop, by SIGUSR1, which
 * mpirun forwards; a second signal ends the job. */
static void take_stop(struct job *j, int signo)
{
    char name[32];
    if (j->received) {
        end_job(j);
        return;
    }
    report_signal_name(signo, name);
    j->received = signo;
    fprintf(
        stderr,
        "ampscale: %s: asking the ranks to stop within %d s; a second signal kills them at once\n",
        name, j->config->grace);
    kill(j->mpirun.pid, SIGUSR1);
    enter(j, PHASE_STOPPING, j->config->grace);
}

/* Ends the job if not all ranks have started in time, because mpirun waits indefinitely if it has
 * no file descriptor left to start a rank. A rank has started if it has written a heading to its
 * log. */
static void check_started(struct job *j, uint64_t end)
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
    while (j->mpirun.pid) {
        child_read(&j->mpirun, j->config->signals, CHECK_MS);
        fflush(stdout);
        fflush(j->config->mpirun_log);
        int signo = child_signal(&j->mpirun, j->config->signals);
        if (signo)
            take_stop(j, signo);
        if (j->config->start_seconds > 0)
            check_started(j, end);
        if (j->phase != PHASE_RUNNING && clock_ns() >= j->next_at)
            end_job(j);
    }
}

/* Waits for supervisors after mpirun was killed. They become children of this process, and end by
 * themselves. After this call no process of the job runs, except a process that hangs. */
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

/* Finds the reason of a failure in a rank's log, after the last heading. False: the log has no
 * reason, or is not on this host. */
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

/* Shows the reason from the log of a rank whose report has not arrived. A killed supervisor sends
 * no report, and Open MPI 5 does not forward the report of a supervisor that it is about to kill.
 * False: the log has no reason. */
static bool show_unreported(struct job *j, int rank)
{
    char reason[REPORT_REASON_MAX], text[REPORT_MAX];
    if (!read_reason(j->config->log_dir, rank, reason))
        return false;
    snprintf(text, sizeof text, "rank %d: %s", rank, reason);
    show(j, text, reason);
    return true;
}

/* Called if mpirun failed and no rank has sent a report. Shows the reason: the error message in a
 * rank's log, or else mpirun's own lines. Shows nothing if mpirun or a supervisor could not be
 * started, because the process that tried has already printed the reason. */
static enum status fail_mpirun(struct job *j, int *exit_code)
{
    char name[32];
    bool explained = j->explained;
    for (int rank = 0; rank < j->config->ranks && !explained; rank++)
        explained = show_unreported(j, rank);
    int status = j->mpirun.status;
    if (WIFSIGNALED(status)) {
        report_signal_name(WTERMSIG(status), name);
        return status_fail(STATUS_LIBRARY,
                           "%s was killed by signal %d (%s), together with the ranks",
                           j->config->starter, WTERMSIG(status), name);
    }
    *exit_code = status_exit_code(STATUS_LIBRARY);
    if (explained && status != 0)
        return STATUS_OK;
    for (int i = 0; i < j->own_lines; i++)
        fprintf(stderr, "%s: %s\n", j->config->starter, j->own_line[i]);
    return status_fail(STATUS_LIBRARY, "%s failed with exit code %d; its output is in '%s'",
                       j->config->starter, WEXITSTATUS(status), j->config->mpirun_log_path);
}

static enum status job_result(struct job *j, int *exit_code)
{
    if (j->late)
        return status_fail(
            STATUS_LIBRARY,
            "rank %d of %d did not start within %d s: mpirun is still waiting; check the limits of "
            "this shell ('ulimit -a') and mpirun's output in '%s'",
            j->started, j->config->ranks, j->config->start_seconds, j->config->mpirun_log_path);
    bool failed = j->mpirun.status != 0 || j->failures > 0 || j->stopped;
    *exit_code = !failed ? 0 : j->received ? 128 + j->received : j->code;
    if (failed && !j->received && j->failures == 0)
        return fail_mpirun(j, exit_code);
    if (j->blamed >= 0)
        (void)show_unreported(j, j->blamed);
    return STATUS_OK;
}

enum status job_run(const struct job_config *c, char **command, int *received, int *exit_code)
{
    const struct child_config mpirun = {
        .program = command[0], .argv = command, .session = true, .death_signal = SIGTERM};
    struct job j = {.config = c, .begun = time(NULL), .blamed = -1};
    j.mpirun.out = (struct output){.take = take_output, .self = &j, .live = true};
    j.mpirun.err = (struct output){.take = take_error, .self = &j};
    TRY(child_start(&mpirun, &j.mpirun));
    watch(&j);
    wait_for_orphans();
    child_close(&j.mpirun);
    fflush(stdout);
    fflush(c->mpirun_log);
    *received = j.received;
    return job_result(&j, exit_code);
}
