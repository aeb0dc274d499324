/* The launcher: checks its configuration, creates the logs, starts the job and restarts it. */
#include "base/file.h"
#include "base/host.h"
#include "base/launcher.h"
#include "base/text.h"
#include "comm/comm.h"
#include "launch/command.h"
#include "launch/job.h"
#include "launch/one_machine.h"
#include "results/schema.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <unistd.h>

extern char **environ;

struct launch {
    const struct launch_config *config;
    struct launch_site site;
    char log_dir[PATH_MAX];
    char mpirun_log_path[PATH_MAX];
    FILE *mpirun_log;
    struct process_signals signals;
    struct one_machine machine;
};

/* Whether ranks start without MPI: because --comm, --nnodes, --min-nodes or --rendezvous requires
 * that, because this program was built without MPI, or because mpirun cannot run. */
static bool is_direct(const struct launch_config *c)
{
    enum mpi_kind kind;
    bool mpi = c->comm && strcmp(c->comm, "mpi") == 0;
    bool mpi_free = c->comm && (strcmp(c->comm, "gloo") == 0 || strcmp(c->comm, "local") == 0);
    if (c->nodes > 0 || c->min_nodes > 0 || c->rendezvous || mpi_free)
        return true;
    if (mpi || c->mpirun || c->mpi_args.n > 0)
        return false;
    return strcmp(comm_mpi_version(), "none") == 0 ||
           launch_mpi_probe("mpirun", &kind) == STATUS_IO;
}

/* With --hosts, each host is a node. Distributes the ranks to the hosts in order, and removes from
 * the list the hosts that get no rank. */
static enum status check_hosts(struct launch_config *c)
{
    int left = c->nproc, hosts = 0;
    for (; hosts < c->hosts.n && left > 0; hosts++) {
        struct launch_host *h = &c->hosts.v[hosts];
        h->slots = c->node_ranks > 0 ? c->node_ranks : left < h->slots ? left : h->slots;
        left -= h->slots;
    }
    c->hosts.n = hosts;
    if (c->nodes > 0 && c->nodes != hosts)
        return status_fail(STATUS_USAGE, "--nnodes %d: --hosts names %d hosts that have ranks",
                           c->nodes, hosts);
    c->nodes = hosts;
    c->min_nodes = c->min_nodes > 0 ? c->min_nodes : hosts;
    return STATUS_OK;
}

/* Checks the settings of a job without MPI, and sets the number of nodes and the number of ranks
 * per node. */
static enum status check_direct(struct launch_config *c)
{
    if (c->hosts.n > 0)
        TRY(check_hosts(c));
    c->nodes = c->nodes > 0 ? c->nodes : 1;
    c->min_nodes = c->min_nodes > 0 ? c->min_nodes : c->nodes;
    if (c->min_nodes > c->nodes)
        return status_fail(STATUS_USAGE, "--min-nodes %d: the job has %d node%s", c->min_nodes,
                           c->nodes, c->nodes > 1 ? "s" : "");
    if (c->hosts.n > 0)
        return STATUS_OK;
    if (c->node >= c->nodes)
        return status_fail(STATUS_USAGE, "--node-rank %d: give 0 to %d, for --nnodes %d", c->node,
                           c->nodes - 1, c->nodes);
    if (c->nodes > 1 && !c->rendezvous)
        return status_fail(STATUS_USAGE,
                           "--nnodes %d: the address where ranks connect is missing; give "
                           "--rendezvous HOST:PORT, with node 0's address",
                           c->nodes);
    if (c->nproc % c->nodes != 0)
        return status_fail(STATUS_USAGE, "--nproc %d: not a multiple of --nnodes %d", c->nproc,
                           c->nodes);
    c->node_ranks = c->nproc / c->nodes;
    return STATUS_OK;
}

enum status launch_config_check(struct launch_config *c)
{
    int slots = launch_hosts_slots(&c->hosts), nodes = c->nodes > 0 ? c->nodes : 1;
    if (c->node_ranks > 0 && c->nproc > 0 && c->nproc != c->node_ranks * nodes)
        return status_fail(STATUS_USAGE,
                           "--nproc %d: --nproc-per-node %d on %d node%s gives %d ranks", c->nproc,
                           c->node_ranks, nodes, nodes > 1 ? "s" : "", c->node_ranks * nodes);
    if (c->nproc == 0)
        c->nproc = c->node_ranks > 0 ? c->node_ranks * (c->hosts.n > 0 ? c->hosts.n : nodes)
                   : c->hosts.n > 0  ? slots
                                     : launcher_slurm_tasks();
    if (c->nproc == 0)
        return status_fail(STATUS_USAGE,
                           "the number of ranks is missing: give --nproc, --nproc-per-node, "
                           "--hosts or --hostfile");
    if (slots > 0 && c->nproc > slots)
        return status_fail(STATUS_USAGE, "--nproc %d: the hosts have %d slot%s", c->nproc, slots,
                           slots > 1 ? "s" : "");
    if (c->restarts > 0 && !launch_command_value(c->argc, c->argv, "--out"))
        return status_fail(STATUS_USAGE, "--restarts needs the checkpoint in the run's folder; "
                                         "name the folder by 'train --out DIR'");
    c->direct = is_direct(c);
    return c->direct ? check_direct(c) : STATUS_OK;
}

/* Seconds from a rank's failure until the launcher ends the other ranks. Open MPI itself ends them
 * within a second or two; MPICH does not. */
static int fail_seconds(enum mpi_kind kind)
{
    return kind == MPI_KIND_OPENMPI ? 10 : 1;
}

static enum status launch_command(const struct launch *l, struct words *command)
{
    const struct launch_config *c = l->config;
    return !c->direct       ? launch_command_mpirun(c, &l->site, command)
           : c->hosts.n > 0 ? launch_command_hosts(c, &l->site, command)
                            : launch_command_node(c, &l->site, command);
}

static enum status run_job(const struct launch *l, int *received, int *exit_code)
{
    struct words command = {0};
    struct job_config job = {
        .signals = &l->signals,
        .grace = l->config->grace,
        .fail_seconds = fail_seconds(l->site.kind),
        .ranks = l->config->nproc,
        .start_seconds = l->config->hosts.n || l->config->direct ? 0 : l->config->start_timeout,
        .starter = l->config->direct ? "the program that starts the ranks" : "mpirun",
        .log_dir = l->log_dir,
        .mpirun_log = l->mpirun_log,
        .mpirun_log_path = l->mpirun_log_path};
    enum status st;
    CHECK(launch_command(l, &command));
    CHECK(job_run(&job, command.v, received, exit_code));
done:
    words_free(&command);
    return st;
}

/* Chooses the folder of the logs: --log-dir; else a folder next to the run's folder, such as
 * "runs/first-logs" for "runs/first"; else the first of "runs/COMMAND-001-logs",
 * "runs/COMMAND-002-logs" and so on that does not exist. Makes the path absolute, because
 * supervisors may start in another folder. */
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
        return status_fail(STATUS_IO, "cannot read the name of the current folder: %s",
                           strerror(errno));
    return path_format(out, PATH_MAX, "%s/%s", cwd, name);
}

static enum status find_site(struct launch *l)
{
    const struct launch_config *c = l->config;
    TRY(choose_log_dir(c, l->log_dir));
    l->site = (struct launch_site){.mpirun = c->mpirun ? c->mpirun : "mpirun",
                                   .log_dir = l->log_dir,
                                   .root = geteuid() == 0,
                                   .loopback = l->machine.is_one,
                                   .cores = host_cores(),
                                   .environment = environ};
    l->site.kind = MPI_KIND_NONE;
    return c->direct ? STATUS_OK : launch_mpi_probe(l->site.mpirun, &l->site.kind);
}

static enum status open_signals(struct launch *l)
{
    signal(SIGPIPE, SIG_IGN);
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
        return status_fail(STATUS_IO, "cannot become the parent of orphaned processes: %s",
                           strerror(errno));
    return process_signals_open(&l->signals);
}

static enum status open_logs(struct launch *l)
{
    TRY(dir_make(l->log_dir));
    TRY(path_format(l->mpirun_log_path, sizeof l->mpirun_log_path, "%s/mpirun.log", l->log_dir));
    l->mpirun_log = fopen(l->mpirun_log_path, "ae");
    if (!l->mpirun_log)
        return status_fail(STATUS_IO, "cannot write '%s': %s", l->mpirun_log_path, strerror(errno));
    text_print(stderr, "ampscale: %d rank%s; the output of each is in '%s/rank-N.log'",
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

/* Whether to restart the job after a failure. False if no restarts are left, if there is no
 * checkpoint, after a signal to this process, and after a usage error, which would occur again. If
 * nodes join, only node 0 checks that there is a checkpoint, because the other nodes may not have
 * the run's folder. */
static bool worth_restarting(const struct launch_config *c, int restarts, int received, int code)
{
    bool follows = c->direct && launch_joins(c) && c->node > 0;
    return restarts < c->restarts && !received && code != 0 &&
           code != status_exit_code(STATUS_USAGE) && (follows || has_checkpoint(c));
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

/* Exports the list of hosts as LAUNCH_HOSTS_VARIABLE. With this list, the command `accept` finds
 * the hosts whose ranks have not joined. */
static enum status export_hosts(const struct launch_config *c)
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

/* Sets a variable to 64 random hexadecimal digits, unless it is set already. */
static enum status export_random(const char *variable)
{
    unsigned char bytes[32];
    char text[2 * sizeof bytes + 1];
    if (getenv(variable))
        return STATUS_OK;
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        return status_fail(STATUS_IO, "cannot get random bytes: %s", strerror(errno));
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    int error = setenv(variable, text, 1);
    explicit_bzero(bytes, sizeof bytes);
    explicit_bzero(text, sizeof text);
    return error == 0 ? STATUS_OK : status_fail(STATUS_OOM, "no memory for the environment");
}

/* Ranks that connect without MPI need a common job id and secret. They inherit both as environment
 * variables and not as arguments, because other users can see arguments. If the user runs the
 * command line on several nodes, the user sets both variables. */
static enum status export_secret(const struct launch_config *c)
{
    bool own = c->direct && (c->nodes == 1 || c->hosts.n > 0);
    if (!own && !launch_command_value(c->argc, c->argv, "--rendezvous"))
        return STATUS_OK;
    TRY(export_random("AMPSCALE_JOB"));
    return export_random("AMPSCALE_SECRET");
}

enum status launch_run(const struct launch_config *c, int *exit_code)
{
    struct launch l = {.config = c, .signals.fd = -1};
    enum status st;
    CHECK(export_hosts(c));
    CHECK(export_secret(c));
    CHECK(one_machine_begin(c, &l.machine));
    CHECK(find_site(&l));
    l.site.terminal = isatty(STDOUT_FILENO) == 1;
    CHECK(open_logs(&l));
    CHECK(open_signals(&l));
    CHECK(run_jobs(&l, exit_code));
done:
    if (l.mpirun_log)
        fclose(l.mpirun_log);
    process_signals_close(&l.signals);
    one_machine_end(&l.machine);
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
    if (c->direct) {
        CHECK(launch_command(&l, &mpirun));
        CHECK(print_line(c->hosts.n > 0 ? "command of launch"
                                        : "the command that launch runs on this node",
                         &mpirun, out));
        goto done;
    }
    CHECK(launch_command_mpirun(c, &l.site, &mpirun));
    CHECK(launch_command_srun(c, &l.site, &srun));
    CHECK(print_line("command of launch", &mpirun, out));
    CHECK(print_line("the same with Slurm", &srun, out));
done:
    words_free(&mpirun);
    words_free(&srun);
    return st;
}
