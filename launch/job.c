/* Runs a job once: mpirun or, without MPI, the supervisors of this node's ranks. Their stdout is
 * the output of rank 0. On their stderr, lines that begin with "ampscale: " come from the ranks;
 * the others are mpirun's own, and are shown only if no rank has reported a reason. */
#include "base/array.h"
#include "base/clock.h"
#include "base/text.h"
#include "launch/parts.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* END_SECONDS: from SIGTERM to SIGKILL, and for orphans; HELD_SECONDS: for them before a restart;
 * START_SECONDS: for ranks to start before they are asked to stop; OWN_*: of mpirun's lines. */
enum {
    CHECK_MS = 500,
    END_SECONDS = 5,
    HELD_SECONDS = 120,
    START_SECONDS = 2,
    OWN_LINES_MAX = 16,
    OWN_LINES_SHOWN = 4,
    OWN_LINE_SIZE = 256
};
enum { RANK_ABSENT, RANK_STARTED, RANK_ASKED, RANK_ENDED };

/* The phases of a job: it runs; the ranks have been asked to stop, and have the grace period; a
 * rank has failed, and others may still report; the job's processes have been sent SIGTERM; and
 * SIGKILL. A job can skip phases, but does not return to an earlier one. */
enum job_phase { PHASE_RUNNING, PHASE_STOPPING, PHASE_FAILING, PHASE_ENDING, PHASE_KILLING };

struct job {
    const struct launch *launch;
    pid_t *pid; /* (n) of mpirun, or of the supervisors; 0: it has ended */
    int n, running;
    int status;         /* of waitpid, of the first process that failed */
    int stream[2];      /* their stdout and stderr; -1: after its end */
    struct lines lines; /* of stderr */
    enum job_phase phase;
    double next_at; /* clock_s when the next phase begins; unused in PHASE_RUNNING */
    double ask_at;  /* clock_s when the ranks are next asked to stop; 0: now, or never asked */
    bool asked;     /* the ranks have been asked to stop */
    bool banner;    /* Hydra's own lines on stdout have begun (Hydra: MPICH's mpirun) */
    int failures;   /* number of reports of failed ranks, without `silent` */
    int code;       /* exit code of the first report */
    char silent[REASON_MAX]; /* the first report, if it has no reason: the rank may have ended
                              * because of another's failure, whose report is still to come */
    int blamed;   /* rank that the first report names in its reason, until it reports; -1: none */
    char *rank;   /* (nproc) RANK_* */
    int missing;  /* the first rank that has not started in time; -1: none */
    bool stopped; /* a rank stopped before its work was done */
    /* the last reason shown, and the last warning; without "ampscale: " */
    char shown[2][REASON_MAX];
    bool explained; /* a line other than a report says why the job failed */
    bool full;      /* Open MPI could not store its session files */
    bool closing;   /* Open MPI has begun to say that a rank has ended */
    int own_lines;  /* number of lines in own_line, none of them after that */
    int text;       /* of own_line, where a text of Open MPI begins; -1: none */
    char own_line[OWN_LINES_MAX][OWN_LINE_SIZE];
};

static void enter(struct job *j, enum job_phase phase, int seconds)
{
    if (phase > j->phase) {
        j->phase = phase;
        j->next_at = clock_s() + seconds;
    }
}

/* Begins to end the job because of a failure. Open MPI ends it by itself within a second or two;
 * Hydra would wait for all ranks. */
static void fail(struct job *j)
{
    enter(j, PHASE_FAILING, j->launch->kind == MPI_KIND_OPENMPI ? 10 : 1);
}

/* Whether mpirun still starts ranks. Without it, the ranks of other nodes never report here. */
static bool is_starting(const struct job *j)
{
    const struct launch *l = j->launch;
    return l->kind != MPI_KIND_NONE && memchr(j->rank, RANK_ABSENT, (size_t)l->config.nproc);
}

static bool all_ended(const struct job *j)
{
    for (int i = 0; i < j->launch->config.nproc; i++)
        if (j->rank[i] != RANK_ENDED)
            return false;
    return true;
}

static void send_all(const struct job *j, int signo)
{
    for (int i = 0; i < j->n; i++)
        if (j->pid[i] > 0)
            kill(j->pid[i], signo);
}

/* The first call sends SIGTERM; later calls kill mpirun, whose end the supervisors detect. Hydra
 * may then exit with 0 although the ranks have not done their work. */
static void end_job(struct job *j)
{
    j->stopped = true;
    enter(j, j->phase >= PHASE_ENDING ? PHASE_KILLING : PHASE_ENDING, END_SECONDS);
    send_all(j, j->phase == PHASE_KILLING ? SIGKILL : SIGTERM);
}

/* Shows the line `text`, unless the last one had the same reason `core`, of another rank. */
static void show(struct job *j, const char *text, const char *core)
{
    char *last = j->shown[strncmp(core, "warning: ", 9) == 0];
    if (strncmp(last, core, REASON_MAX - 1) == 0)
        return;
    snprintf(last, REASON_MAX, "%s", core);
    text_print(stderr, "ampscale: %s", text);
}

/* Handles the report of a rank. The first failure ends the job. A later report is shown if it may
 * be the cause of the first: the rank was killed; it had failed by itself before this process
 * stopped it; or the first reason names it. */
static void take_report(struct job *j, const struct rank_report *r, const char *text)
{
    const char *core = *r->reason ? r->reason : text;
    if (r->rank >= 0 && r->rank < j->launch->config.nproc)
        j->rank[r->rank] = r->end == REPORT_STARTED ? RANK_STARTED
                           : r->end == REPORT_ASKED ? RANK_ASKED
                                                    : RANK_ENDED;
    if (r->end == REPORT_STARTED && !is_starting(j))
        j->ask_at = 0;
    if (j->phase == PHASE_STOPPING && all_ended(j)) /* mpirun may hang in its own end */
        enter(j, PHASE_ENDING, END_SECONDS);
    j->stopped = j->stopped || r->end == REPORT_STOPPED;
    if (r->end >= REPORT_STARTED || r->end == REPORT_STOPPED)
        return;
    if (j->failures == 0 && r->end == REPORT_EXITED && !*r->reason) {
        if (!*j->silent) {
            snprintf(j->silent, sizeof j->silent, "%.1000s", text);
            j->code = r->code;
        }
        fail(j);
        return;
    }
    if (j->failures++ == 0) {
        if (!*j->silent || r->end != REPORT_ENDED) /* whose code is not known */
            j->code = r->code;
        /* If a reason begins with "rank N", rank N has failed, even if another rank reports it; if
         * it has lost a connection, the rank at the other end. */
        const char *lost = strstr(r->reason, "the connection to rank ");
        bool named = sscanf(r->reason, "rank %9d", &j->blamed) == 1;
        if (lost)
            (void)!sscanf(lost, "the connection to rank %9d", &j->blamed);
        show(j, named ? r->reason : text, core);
    } else if (r->end == REPORT_KILLED || r->end == REPORT_ENDED ||
               (r->rank == j->blamed && *r->reason)) {
        show(j, text, core);
    }
    if (r->rank == j->blamed) {
        j->code = r->end == REPORT_KILLED ? r->code : j->code;
        j->blamed = -1;
    }
    fail(j);
}

/* Takes a line of stderr. Logs those of mpirun itself, and stores the first OWN_LINES_MAX of them
 * that have other characters than '-' and '=', and name no place in Open MPI's source. Open MPI 5
 * may put bytes before a rank's line: the NUL at the end of its own output, and a part of the
 * progress bar that rank 0 draws on stdout. */
static void take_error(void *self, char *line, size_t n)
{
    static const char mark[] = "ampscale: ", drawn[] = "\033[K";
    struct job *j = self;
    struct rank_report report;
    for (; n > 0 && *line == '\0'; n--)
        line++;
    char *bar = strstr(line, drawn), *text = bar ? bar + strlen(drawn) : line;
    if (strncmp(text, mark, strlen(mark)) != 0) {
        fputs(line, j->launch->own_log);
        line[strcspn(line, "\r\n")] = '\0';
        j->full = j->full || strstr(line, "OUT-OF-RESOURCE in file") || strstr(line, ": errno 28");
        j->closing = j->closing || strncmp(line, "Primary job ", 12) == 0 ||
                     strstr(line, "run detected that one or more processes exited with");
        if (j->text < 0 &&
            (strncmp(line, "-----", 5) == 0 || strstr(line, "*** An error occurred in MPI_Init")))
            j->text = j->own_lines;
        if (line[strspn(line, "-= ")] && !strstr(line, "ORTE_ERROR_LOG: ") && !j->closing &&
            j->own_lines < OWN_LINES_MAX)
            text_clean(j->own_line[j->own_lines++], OWN_LINE_SIZE, line);
        return;
    }
    text[strcspn(text, "\r\n")] = '\0';
    if (report_read(text, &report)) {
        take_report(j, &report, text + strlen(mark));
        return;
    }
    j->explained = j->explained || error_of_line(text);
    show(j, text + strlen(mark), text + strlen(mark));
}

/* Copies rank 0's output to stdout, and Hydra's own lines about the end of the job, which are on
 * the same stream, to the log. */
static void take_output(void *self, int i, const char *bytes, size_t n)
{
    static const char banner[] = "====================";
    struct job *j = self;
    const char *at = j->banner ? bytes : NULL;
    if (i == 1) {
        lines_feed(&j->lines, bytes, n);
        return;
    }
    if (!at && j->launch->kind == MPI_KIND_MPICH)
        at = memmem(bytes, n, banner, strlen(banner));
    j->banner = at && (at == bytes || at[-1] == '\n');
    size_t shown = j->banner ? (size_t)(at - bytes) : n;
    fwrite(bytes, 1, shown, stdout);
    fflush(stdout);
    fwrite(bytes + shown, 1, n - shown, j->launch->own_log);
}

static bool read_output(struct job *j, int timeout_ms)
{
    int signals = j->running ? j->launch->signals.fd : -1;
    fflush(j->launch->own_log);
    return streams_read(j->stream, signals, timeout_ms, take_output, j);
}

/* Asks the ranks to stop, by SIGUSR1, which mpirun forwards. But mpirun may lose it while it starts
 * the ranks, or kill with it a rank that has no handler yet: gives them START_SECONDS to start, and
 * repeats it until each rank that has started has acknowledged. */
static void ask_to_stop(struct job *j)
{
    if (j->phase != PHASE_STOPPING || clock_s() < j->ask_at ||
        (j->asked && !memchr(j->rank, RANK_STARTED, (size_t)j->launch->config.nproc)))
        return;
    send_all(j, SIGUSR1);
    j->asked = true;
    j->ask_at = clock_s() + 1;
}

/* Handles the stop signals to this process. */
static void take_stop(struct job *j, enum stop_action action)
{
    if (action == STOP_AT_ONCE)
        end_job(j);
    if (action != STOP_ORDERLY)
        return;
    if (j->phase < PHASE_STOPPING)
        text_print(stderr,
                   "ampscale: %s: asking the ranks to stop within %d s; a second signal kills them "
                   "at once",
                   stop_requested(), j->launch->config.grace);
    int grace = j->launch->config.grace, wait = grace < START_SECONDS ? grace : START_SECONDS;
    j->ask_at = !j->asked && is_starting(j) ? clock_s() + wait : 0;
    enter(j, PHASE_STOPPING, grace);
}

static void show_own_lines(const struct job *j, int from, int to)
{
    for (int i = from; i < to && i < from + OWN_LINES_SHOWN; i++)
        fprintf(stderr, "%s: %s\n", j->launch->kind != MPI_KIND_NONE ? "mpirun" : "rank 0",
                j->own_line[i]);
}

/* Ends the job if not all ranks have started in time, because mpirun waits indefinitely if it has
 * no file descriptor left to start a rank, and MPICH's also if it cannot reach a host. */
static void check_started(struct job *j)
{
    const char *absent = memchr(j->rank, RANK_ABSENT, (size_t)j->launch->config.nproc);
    j->missing = absent ? (int)(absent - j->rank) : -1;
    if (absent) {
        show_own_lines(j, 0, j->own_lines); /* before those about its end */
        end_job(j);
    }
}

/* Without MPI, the ranks that still run detect a failure themselves, or are ended soon. */
static void reap(struct job *j)
{
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        for (int i = 0; i < j->n; i++)
            if (j->pid[i] == pid) {
                j->pid[i] = 0;
                j->running--;
                j->status = j->status ? j->status : status;
                if (status)
                    fail(j);
            }
}

static void watch(struct job *j)
{
    const struct launch_config *c = &j->launch->config;
    bool limited = j->launch->kind != MPI_KIND_NONE && c->start_timeout > 0;
    double end = clock_s() + c->start_timeout;
    while (j->running) {
        read_output(j, CHECK_MS);
        reap(j);
        enum stop_action action = process_signals_take(&j->launch->signals);
        if (j->running)
            take_stop(j, action);
        ask_to_stop(j);
        if (limited && j->phase == PHASE_RUNNING && clock_s() >= end) {
            limited = false;
            check_started(j);
        }
        if (j->phase != PHASE_RUNNING && clock_s() >= j->next_at)
            end_job(j);
    }
}

/* Waits for supervisors after mpirun was killed. They become children of this process, and end by
 * themselves. After this call no process of the job runs, except a process that hangs. Before a
 * restart, waits longer: a rank that storage holds up has its folder's lock. */
static void wait_for_orphans(const struct job *j)
{
    bool restarts = j->launch->config.restarts > 0 && j->phase > PHASE_STOPPING;
    double begun = clock_s();
    for (pid_t pid; (pid = waitpid(-1, NULL, WNOHANG)) >= 0;) {
        bool longer = restarts && !stop_requested();
        if (clock_s() >= begun + (longer ? HELD_SECONDS : END_SECONDS))
            return;
        if (pid == 0 && process_signals_take(&j->launch->signals) == STOP_NOTHING)
            poll(NULL, 0, 20);
    }
}

/* Shows the reason from the log of a rank whose report has not arrived: a killed supervisor sends
 * none, and Open MPI 5 does not forward that of a supervisor that it is about to kill. False: the
 * log has no reason, or is not on this host. */
static bool show_unreported(struct job *j, int rank)
{
    char reason[REASON_MAX], text[REPORT_MAX];
    if (!log_reason(j->launch->log_dir, rank, reason) ||
        strncmp(reason, "interrupted by ", 15) == 0)
        return false; /* this process has ended that rank */
    snprintf(text, sizeof text, "rank %d: %s", rank, reason);
    show(j, text, reason);
    return true;
}

/* The job failed, and no rank has sent a report. Shows the reason, unless a process that could not
 * be started has: the error message in a rank's log, or else mpirun's own lines. */
static enum status fail_unreported(struct job *j, int *exit_code)
{
    bool mpirun = j->launch->kind != MPI_KIND_NONE, explained = j->explained;
    const char *starter = mpirun ? "mpirun" : "the supervisor of a rank";
    int signo = WIFSIGNALED(j->status) ? WTERMSIG(j->status) : 0;
    for (int rank = 0; rank < j->launch->config.nproc && !explained; rank++)
        explained = show_unreported(j, rank);
    if (signo)
        return status_fail(STATUS_LIBRARY, "%s was killed by signal %d (SIG%s)%s", starter, signo,
                           signal_name(signo), mpirun ? ", together with the ranks" : "");
    *exit_code = status_exit_code(STATUS_LIBRARY);
    if (explained && j->status != 0)
        return STATUS_OK;
    show_own_lines(j, 0, j->own_lines);
    return status_fail(STATUS_LIBRARY, "%s failed with exit code %d; its output is in '%s'",
                       starter, WEXITSTATUS(j->status), j->launch->own_log_path);
}

/* No line has the reason. With exit code 1, MPI may have ended the rank: the reason is then in
 * mpirun's output, where a text of Open MPI begins with a rule. */
static void show_silent(struct job *j)
{
    bool mpirun = j->launch->kind != MPI_KIND_NONE && j->code == status_exit_code(STATUS_LIBRARY);
    char text[REASON_MAX];
    snprintf(text, sizeof text, "%.400s", j->silent);
    if (mpirun && j->text >= 0 && !j->full)
        show_own_lines(j, j->text, j->own_lines);
    if (mpirun)
        text_append(text, sizeof text, "; mpirun's output is in '%s'", j->launch->own_log_path);
    show(j, text, text);
}

static enum status job_result(struct job *j, int *exit_code)
{
    const struct launch *l = j->launch;
    if (j->missing >= 0)
        return status_fail(
            STATUS_LIBRARY,
            "rank %d of %d did not start within %d s: mpirun is still waiting; check %s and "
            "mpirun's output in '%s', or raise --start-timeout",
            j->missing, l->config.nproc, l->config.start_timeout,
            l->config.hosts.n > 0 ? "that ssh reaches each host" : "the shell's limits (ulimit -a)",
            l->own_log_path);
    bool reported = j->failures > 0 || *j->silent, failed = j->status || reported || j->stopped;
    if (j->failures == 0 && *j->silent && !j->explained)
        show_silent(j);
    *exit_code = !failed ? 0 : stop_signal() ? 128 + stop_signal() : j->code;
    if (failed && j->full)
        text_print(
            stderr,
            "ampscale: mpirun has no space for its session files in TMPDIR or '/tmp', or too "
            "few file descriptors: free some space, or raise 'ulimit -n'");
    if (failed && !stop_signal() && !reported)
        return fail_unreported(j, exit_code);
    if (j->blamed >= 0 && j->blamed < l->config.nproc && j->rank[j->blamed] != RANK_ENDED)
        (void)show_unreported(j, j->blamed);
    return STATUS_OK;
}

/* Starts mpirun, or the supervisors of this node's ranks. They find their ranks in the environment,
 * as ranks of torchrun do. */
static enum status start(struct job *j, struct spawn child)
{
    const struct launch *l = j->launch;
    struct node_place node = {.resume = l->resume};
    struct launcher_place place;
    struct words command = {0};
    int n = 1;
    enum status st;
    if (l->kind == MPI_KIND_NONE) {
        CHECK(node_place_find(l, &node));
        n = l->config.node_ranks;
        child.place = &place;
        child.address = node.address;
    }
    CHECK(array_new(&j->pid, n));
    CHECK(array_new(&j->rank, l->config.nproc));
    CHECK(command_start(l, node.resume, &command));
    child.program = command.v[0];
    child.argv = command.v;
    for (; j->n < n; j->n++) {
        place = (struct launcher_place){node.first + j->n, node.size, j->n, n};
        CHECK(spawn(&child, &j->pid[j->n]));
        j->running++;
    }
done:
    words_free(&command);
    return st;
}

enum status job_run(const struct launch *l, int *exit_code)
{
    struct job j = {.launch = l,
                    .blamed = -1,
                    .text = -1,
                    .missing = -1,
                    .stream = {-1, -1},
                    .lines = {take_error, &j, 0, ""}};
    int child[2] = {-1, -1};
    enum status st = streams_open(false, j.stream, child);
    if (st == STATUS_OK)
        st = start(&j, (struct spawn){.out = child[0], .err = child[1], .death_signal = SIGTERM});
    close(child[0]);
    close(child[1]);
    if (st != STATUS_OK)
        end_job(&j);
    watch(&j);
    wait_for_orphans(&j);
    while (read_output(&j, 0))
        ;
    lines_end(&j.lines);
    close(j.stream[0]);
    close(j.stream[1]);
    st = st == STATUS_OK ? job_result(&j, exit_code) : st;
    free(j.pid);
    free(j.rank);
    return st;
}
