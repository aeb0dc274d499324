/* The launcher: finds its place, makes the logs, starts the job, and starts it again. */
#include "launch/launch.h"

#include "base/file.h"
#include "base/host.h"
#include "launch/command.h"
#include "launch/job.h"
#include "results/schema.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

extern char **environ;

/* Everything that the starts of a launch share. */
struct launch {
    const struct launch_config *config;
    struct launch_site site;
    char log_dir[PATH_MAX];
    char chatter_path[PATH_MAX];
    FILE *chatter;
    int signals;
};

/* Open MPI ends the other ranks by itself, which takes it a second or two and must not be
 * disturbed; MPICH lets them go on. */
static int fail_seconds(enum mpi_kind kind)
{
    return kind == MPI_KIND_OPENMPI ? 10 : 1;
}

static enum status run_job(const struct launch *l, int *received, int *exit_code)
{
    struct words command = {0};
    struct job_config job = {.signals = l->signals,
                             .grace = l->config->grace,
                             .fail_seconds = fail_seconds(l->site.kind),
                             .ranks = l->config->nproc,
                             .start_seconds = l->config->hosts.n ? 0 : l->config->start_timeout,
                             .log_dir = l->log_dir,
                             .chatter = l->chatter,
                             .chatter_path = l->chatter_path};
    enum status st;
    CHECK(launch_command_mpirun(l->config, &l->site, &command));
    CHECK(job_run(&job, command.v, received, exit_code));
done:
    words_free(&command);
    return st;
}

/* Beside the run's folder, where the command has one: "runs/first-logs"; else the first free of
 * "runs/COMMAND-001-logs" and on. Absolute: other hosts may start elsewhere. */
static enum status choose_log_dir(const struct launch_config *c, char out[PATH_MAX])
{
    char cwd[PATH_MAX], name[PATH_MAX];
    const char *run = launch_command_value(c->argc, c->argv, "--out");
    size_t n = run ? strlen(run) : 0;
    while (n > 1 && run[n - 1] == '/')
        n--;
    if (c->log_dir)
        TRY(path_format(name, sizeof name, "%s", c->log_dir));
    else if (n > 0)
        TRY(path_format(name, sizeof name, "%.*s-logs", (int)n, run));
    for (int i = 1; !c->log_dir && n == 0; i++) {
        TRY(path_format(name, sizeof name, "runs/%s-%03d-logs", c->argv[0], i));
        if (!path_exists(name))
            break;
    }
    if (name[0] == '/')
        return path_format(out, PATH_MAX, "%s", name);
    if (!getcwd(cwd, sizeof cwd))
        return status_fail(STATUS_IO, "cannot tell the current folder: %s", strerror(errno));
    return path_format(out, PATH_MAX, "%s/%s", cwd, name);
}

static enum status find_site(struct launch *l)
{
    const struct launch_config *c = l->config;
    TRY(choose_log_dir(c, l->log_dir));
    l->site = (struct launch_site){.mpirun = c->mpirun ? c->mpirun : "mpirun",
                                   .log_dir = l->log_dir,
                                   .root = geteuid() == 0,
                                   .cores = host_cores(),
                                   .environment = environ};
    return launch_mpi_probe(l->site.mpirun, &l->site.kind);
}

/* nohup's wish is respected. */
static enum status open_signals(struct launch *l)
{
    struct sigaction hangup;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGUSR1);
    if (sigaction(SIGHUP, NULL, &hangup) != 0 || hangup.sa_handler != SIG_IGN)
        sigaddset(&set, SIGHUP);
    signal(SIGPIPE, SIG_IGN);
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) == 0 && sigprocmask(SIG_BLOCK, &set, NULL) == 0)
        l->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return l->signals >= 0 ? STATUS_OK
                           : status_fail(STATUS_IO, "cannot wait for signals: %s", strerror(errno));
}

static enum status open_logs(struct launch *l)
{
    TRY(dir_make(l->log_dir));
    TRY(path_format(l->chatter_path, sizeof l->chatter_path, "%s/mpirun.log", l->log_dir));
    l->chatter = fopen(l->chatter_path, "ae");
    if (!l->chatter)
        return status_fail(STATUS_IO, "cannot write '%s': %s", l->chatter_path, strerror(errno));
    fprintf(stderr, "ampscale: %d rank%s; the output of each is in '%s/rank-N.log'\n",
            l->config->nproc, l->config->nproc > 1 ? "s" : "", l->log_dir);
    return STATUS_OK;
}

static bool has_checkpoint(const struct launch_config *c)
{
    static const char *const names[] = {CHECKPOINT_NAME, CHECKPOINT_PREV_NAME};
    const char *run = launch_command_value(c->argc, c->argv, "--out");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[PATH_MAX];
        if (snprintf(path, sizeof path, "%s/%s", run, names[i]) < (int)sizeof path &&
            path_exists(path))
            return true;
    }
    return false;
}

/* A command line that is wrong stays wrong; a signal means what it says. */
static bool worth_restarting(const struct launch_config *c, int restarts, int received, int code)
{
    return restarts < c->restarts && !received && code != 0 &&
           code != status_exit_code(STATUS_USAGE) && has_checkpoint(c);
}

static enum status run_jobs(struct launch *l, int *exit_code)
{
    for (int restarts = 0;;) {
        int received = 0;
        enum status st = run_job(l, &received, exit_code);
        int code = st == STATUS_OK ? *exit_code : status_exit_code(st);
        if (!worth_restarting(l->config, restarts, received, code))
            return st;
        if (st != STATUS_OK)
            fprintf(stderr, "ampscale: %s\n", status_message());
        restarts++;
        l->site.resume = true;
        fprintf(stderr, "ampscale: restart %d of %d, from the last checkpoint\n", restarts,
                l->config->restarts);
    }
}

/* Ranks that do not meet can only say whom they miss if they know who was to come. */
static enum status tell_hosts(const struct launch_config *c)
{
    struct words list = {0};
    enum status st;
    if (c->hosts.n == 0)
        return STATUS_OK;
    CHECK(launch_hosts_word(&c->hosts, false, &list));
    if (setenv(LAUNCH_HOSTS_VARIABLE, list.v[0], 1) != 0)
        st = status_fail(STATUS_OOM, "no memory for the environment");
done:
    words_free(&list);
    return st;
}

enum status launch_run(const struct launch_config *c, int *exit_code)
{
    struct launch l = {.config = c, .signals = -1};
    enum status st;
    CHECK(tell_hosts(c));
    CHECK(find_site(&l));
    l.site.terminal = isatty(STDOUT_FILENO) == 1;
    CHECK(open_logs(&l));
    CHECK(open_signals(&l));
    CHECK(run_jobs(&l, exit_code));
done:
    if (l.chatter)
        fclose(l.chatter);
    if (l.signals >= 0)
        close(l.signals);
    return st;
}

static enum status print_line(const char *comment, const struct words *w, FILE *out)
{
    char *line;
    TRY(words_shell(w, &line));
    fprintf(out, "# %s\n%s\n", comment, line);
    free(line);
    return STATUS_OK;
}

enum status launch_print(const struct launch_config *c, FILE *out)
{
    struct launch l = {.config = c};
    struct words mpirun = {0}, srun = {0};
    enum status st;
    CHECK(find_site(&l));
    CHECK(launch_command_mpirun(c, &l.site, &mpirun));
    CHECK(launch_command_srun(c, &l.site, &srun));
    CHECK(print_line("what launch runs", &mpirun, out));
    CHECK(print_line("the same by Slurm", &srun, out));
done:
    words_free(&mpirun);
    words_free(&srun);
    return st;
}
