/* The launcher: checks its configuration, creates the logs, starts the job and restarts it. */
#include "base/host.h"
#include "base/stop.h"
#include "base/text.h"
#include "comm/comm.h"
#include "comm/control.h"
#include "launch/parts.h"
#include "results/schema.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static const char by_nodes[] = "run the same command line on each node with --nnodes, --node-rank "
                               "and --rendezvous";

/* Finds the MPI library of mpirun from the output of its --version. STATUS_IO: it cannot be run. */
static enum status ask_mpirun(struct launch *l)
{
    char text[4096] = "", path[64];
    char *argv[] = {(char *)l->config.mpirun, "--version", NULL};
    struct process_end end;
    int file = memfd_create("mpirun-version", MFD_CLOEXEC);
    if (file < 0)
        return status_fail(STATUS_IO, "cannot create a file in memory: %s", strerror(errno));
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    const struct process_config c = {
        .argv = argv, .log = path, .signals = &l->signals, .limit_s = 10};
    enum status st = process_run(&c, &end);
    (void)!pread(file, text, sizeof text - 1, 0);
    close(file);
    TRY(st);
    TRY(stop_check());
    if (end.late)
        return status_fail(STATUS_IO, "cannot run '%s --version': it hangs", argv[0]);
    if (end.code == PROCESS_NOT_STARTED)
        return status_fail(STATUS_IO, "%s", end.message);
    l->kind = strstr(text, "HYDRA") ? MPI_KIND_MPICH : MPI_KIND_OPENMPI;
    if (l->kind == MPI_KIND_MPICH || strstr(text, "Open MPI") || strstr(text, "OpenRTE"))
        return STATUS_OK;
    return status_fail(STATUS_UNSUPPORTED,
                       "'%s' is neither Open MPI's nor MPICH's mpirun: its --version prints '%.*s'",
                       argv[0], (int)strcspn(text, "\n"), text);
}

/* Finds how ranks start: by mpirun, for --hosts, --mpirun, --mpi-arg and --comm mpi; without MPI,
 * for --comm gloo, --nnodes, --min-nodes and --rendezvous, or if this program was built without
 * MPI, or if there is no mpirun. */
static enum status find_kind(struct launch *l)
{
    struct launch_config *c = &l->config;
    bool gloo = c->comm && strcmp(c->comm, "gloo") == 0, hosts = c->hosts.n > 0;
    bool mpi = (c->comm && strcmp(c->comm, "mpi") == 0) || c->mpirun || c->mpi_args.n > 0;
    bool built = strcmp(comm_mpi_version(), "none") != 0;
    l->over_tcp = hosts && (gloo || !built);
    l->kind = MPI_KIND_NONE;
    if (!hosts && (gloo || c->nodes > 0 || c->min_nodes > 0 || c->rendezvous || !(mpi || built)))
        return STATUS_OK;
    if (!hosts && !mpi) {
        char path[4096];
        bool found;
        TRY(path_of_program(getenv("PATH"), "mpirun", path, sizeof path, &found));
        if (!found)
            return STATUS_OK;
    }
    c->mpirun = c->mpirun ? c->mpirun : "mpirun";
    enum status st = ask_mpirun(l);
    if (st != STATUS_IO)
        return st;
    return status_fail(st, "%s; install Open MPI or MPICH, or %s", status_message(),
                       hosts ? by_nodes
                             : "give the path of its mpirun by --mpirun, or --comm gloo");
}

/* Checks the hosts of mpirun, and removes those that get no rank. */
static enum status check_hosts(struct launch_config *c)
{
    int left = c->nproc, hosts = 0;
    for (; hosts < c->hosts.n && left > 0; hosts++) {
        struct launch_host *h = &c->hosts.v[hosts];
        if (strchr(h->name, ':'))
            return status_fail(STATUS_USAGE,
                               "host '%s': mpirun takes no IPv6 address; give a name of the host",
                               h->name);
        h->slots = c->node_ranks > 0 ? c->node_ranks : left < h->slots ? left : h->slots;
        left -= h->slots;
    }
    c->hosts.n = hosts;
    if (c->min_nodes > 0 || (c->nodes > 0 && c->nodes != hosts))
        return status_fail(STATUS_USAGE,
                           "%s %d: mpirun needs all %d hosts of --hosts that have ranks; or %s",
                           c->min_nodes > 0 ? "--min-nodes" : "--nnodes",
                           c->min_nodes > 0 ? c->min_nodes : c->nodes, hosts, by_nodes);
    return STATUS_OK;
}

/* Checks the settings of a job without MPI, and sets those that are not given. */
static enum status check_direct(struct launch *l)
{
    struct launch_config *c = &l->config;
    c->nodes = c->nodes > 0 ? c->nodes : 1;
    c->min_nodes = c->min_nodes > 0 ? c->min_nodes : c->nodes;
    c->node_ranks = c->nproc / c->nodes;
    l->joins = c->nodes > 1 && (c->restarts > 0 || c->min_nodes < c->nodes);
    if (c->min_nodes > c->nodes)
        return status_fail(STATUS_USAGE, "--min-nodes %d: the job has --nnodes %d", c->min_nodes,
                           c->nodes);
    if (c->node >= c->nodes)
        return status_fail(STATUS_USAGE, "--node-rank %d: give 0 to %d, for --nnodes %d", c->node,
                           c->nodes - 1, c->nodes);
    if (c->nodes > 1 && !c->rendezvous)
        return status_fail(STATUS_USAGE,
                           "--nnodes %d: give --rendezvous HOST:PORT, with node 0's address",
                           c->nodes);
    if (c->nproc % c->nodes != 0)
        return status_fail(STATUS_USAGE, "--nproc %d: not a multiple of --nnodes %d", c->nproc,
                           c->nodes);
    return STATUS_OK;
}

static enum status check(struct launch_config *c)
{
    int most, slots = launch_hosts_slots(&c->hosts, &most);
    int nodes = c->hosts.n > 0 ? c->hosts.n : c->nodes > 0 ? c->nodes : 1;
    if (c->comm && strcmp(c->comm, "local") == 0)
        return status_fail(STATUS_USAGE, "--comm local connects only the threads of one process; "
                                         "for ranks give --comm gloo or mpi");
    if (c->node_ranks > 0 && c->nproc > 0 && c->nproc != c->node_ranks * nodes)
        return status_fail(STATUS_USAGE, "--nproc %d: --nproc-per-node %d gives %d ranks", c->nproc,
                           c->node_ranks, c->node_ranks * nodes);
    if (c->nproc == 0)
        c->nproc = c->node_ranks > 0 ? c->node_ranks * nodes
                   : slots > 0       ? slots
                                     : launcher_slurm_tasks();
    if (c->nproc == 0)
        return status_fail(STATUS_USAGE,
                           "the number of ranks is missing: give --nproc, --nproc-per-node, "
                           "--hosts or --hostfile");
    if (c->rendezvous && !strchr(c->rendezvous, ':'))
        return status_fail(STATUS_USAGE, "--rendezvous '%s': give HOST:PORT, or [IPv6]:PORT",
                           c->rendezvous);
    if (slots > 0 && c->nproc > slots)
        return status_fail(STATUS_USAGE, "--nproc %d: the hosts have %d slots", c->nproc, slots);
    if (c->restarts > 0 && !launch_command_value(c->argc, c->argv, "--out"))
        return status_fail(STATUS_USAGE, "--restarts needs the run's folder: 'train --out DIR'");
    return c->hosts.n > 0 ? check_hosts(c) : STATUS_OK;
}

/* Chooses the folder of the logs, an absolute path: --log-dir; else "runs/first-logs" for a run in
 * "runs/first"; else the first of "runs/COMMAND-001-logs", "runs/COMMAND-002-logs" ... that does
 * not exist. */
static enum status choose_log_dir(const struct launch_config *c, char out[PATH_MAX])
{
    const char *run = launch_command_value(c->argc, c->argv, "--out");
    char cwd[PATH_MAX], name[PATH_MAX];
    int n = run ? (int)strlen(run) : 0, i = 1;
    bool taken = true;
    while (n > 1 && run[n - 1] == '/')
        n--;
    if (!getcwd(cwd, sizeof cwd))
        return status_fail(STATUS_IO, "cannot read the name of the current folder: %s",
                           strerror(errno));
    if (c->log_dir)
        TRY(path_format(name, sizeof name, "%s", c->log_dir));
    else if (n > 0)
        TRY(path_format(name, sizeof name, "%.*s-logs", n, run));
    while (!c->log_dir && n <= 0 && taken) {
        TRY(path_format(name, sizeof name, "runs/%s-%03d-logs", c->argv[0], i++));
        TRY(path_taken(name, &taken));
    }
    return *name == '/' ? path_format(out, PATH_MAX, "%s", name)
                        : path_format(out, PATH_MAX, "%s/%s", cwd, name);
}

static enum status configure(struct launch *l)
{
    struct launch_config *c = &l->config;
    TRY(check(c));
    TRY(find_kind(l));
    if (l->kind == MPI_KIND_NONE)
        TRY(check_direct(l));
    else if (c->rendezvous && !l->over_tcp)
        return status_fail(STATUS_USAGE,
                           "--rendezvous '%s': mpirun's ranks connect by MPI; add --comm gloo",
                           c->rendezvous);
    TRY(choose_log_dir(c, l->log_dir));
    l->one_machine =
        l->kind != MPI_KIND_NONE && c->hosts.n == 0 && c->mpi_args.n == 0 && !launcher_has_hosts();
    if (c->bind == LAUNCH_BIND_AUTO && c->mpi_args.n > 0) /* which may bind ranks otherwise */
        c->bind = LAUNCH_BIND_NONE;
    c->log_dir = l->log_dir;
    c->terminal = !c->dry_run && isatty(STDOUT_FILENO) == 1;
    return STATUS_OK;
}

/* Sets a variable, unless it is set already. */
static enum status set(const char *variable, const char *value)
{
    return setenv(variable, value, 0) == 0
               ? STATUS_OK
               : status_fail(STATUS_OOM, "no memory for the environment");
}

/* Ranks that connect without MPI need a common job id and secret, as environment variables, because
 * other users can see arguments. For a command line on several nodes, the user sets both. */
static enum status set_secret(const struct launch *l)
{
    const struct launch_config *c = &l->config;
    bool own = l->kind == MPI_KIND_NONE ? c->nodes == 1 : l->over_tcp;
    if (!own && !launch_command_value(c->argc, c->argv, "--rendezvous"))
        return STATUS_OK;
    char job[NONCE_TEXT_MAX], secret[NONCE_TEXT_MAX];
    TRY(nonce_text(job));
    TRY(nonce_text(secret));
    TRY(set("AMPSCALE_JOB", job));
    return set(SECRET_VARIABLE, secret);
}

/* Lists the hosts for `accept`, which then finds those whose ranks have not joined, and makes Open
 * MPI keep the domains of their names; it would take a.x and a.y for the host a. */
static enum status set_hosts(const struct launch_config *c)
{
    static const char *const domains[] = {"OMPI_MCA_orte_keep_fqdn_hostnames",  /* Open MPI 4 */
                                          "PRTE_MCA_prte_keep_fqdn_hostnames"}; /* 5 */
    struct words list = {0};
    enum status st;
    unsetenv(LAUNCH_HOSTS_VARIABLE);
    CHECK(launch_hosts_word(&c->hosts, false, &list));
    CHECK(set(LAUNCH_HOSTS_VARIABLE, list.v[0]));
    for (int i = 0; i < 2 && strchr(list.v[0], '.'); i++)
        CHECK(set(domains[i], "1"));
done:
    words_free(&list);
    return st;
}

/* Confines a job of mpirun to this machine, if all its ranks run here. If /dev/shm has 32 MiB for
 * each rank (it uses 4 MiB, and more when it sends much data), ranks of Open MPI communicate only
 * over shared memory. Its files remain when ranks are killed: they are in a locked folder, which a
 * later job removes when no process has the lock any more. */
static enum status set_one_machine(struct launch *l)
{
    enum { RANK_BYTES = 32 << 20 };
    struct statvfs s;
    if (!l->one_machine)
        return STATUS_OK;
    if (access("/dev/shm", W_OK) == 0 && statvfs("/dev/shm", &s) == 0 &&
        (double)s.f_bavail * (double)s.f_frsize >= (double)l->config.nproc * RANK_BYTES) {
        TRY(set("OMPI_MCA_btl", "self,vader"));
        if (!getenv("OMPI_MCA_btl_vader_backing_directory") &&
            !getenv("OMPI_MCA_btl_sm_backing_directory")) {
            TRY(temporary_dir_make_in(&l->shared, "/dev/shm", "ampscale-mpi"));
            fcntl(l->shared.held, F_SETFD, 0);
            TRY(set("OMPI_MCA_btl_vader_backing_directory", l->shared.path)); /* Open MPI 4 */
            TRY(set("OMPI_MCA_btl_sm_backing_directory", l->shared.path));    /* Open MPI 5 */
        }
    }
    TRY(set("OMPI_MCA_btl_tcp_if_include", "lo"));
    TRY(set("OMPI_MCA_oob_tcp_if_include", "lo"));
    TRY(set("UCX_NET_DEVICES", "lo"));
    return set("FI_TCP_IFACE", "lo");
}

/* Prepares the environment of the job, its logs, and this process. */
static enum status prepare(struct launch *l)
{
    if (l->config.hosts.n > 0)
        TRY(set_hosts(&l->config));
    TRY(set_secret(l));
    TRY(set_one_machine(l));
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    TRY(dir_make(l->log_dir));
    TRY(path_format(l->own_log_path, sizeof l->own_log_path, "%s/%s.log", l->log_dir,
                    l->kind == MPI_KIND_NONE ? "launch" : "mpirun"));
    int log;
    TRY(log_open(l->own_log_path, O_WRONLY, &log));
    l->own_log = fdopen(log, "a");
    if (!l->own_log)
        return status_fail(STATUS_OOM, "no memory to write '%s'", l->own_log_path);
    text_print(stderr, "ampscale: %d rank%s; the output of each is in '%s/rank-N.log'",
               l->config.nproc, l->config.nproc > 1 ? "s" : "", l->log_dir);
    return STATUS_OK;
}

/* Runs the job, and restarts it after a failure; not after a signal to this process or a usage
 * error, which would occur again, nor without a checkpoint to continue at: the run's, with --resume
 * auto, or one that the job has written. If nodes join, only node 0 checks this, because the other
 * nodes may not have the run's folder. */
static enum status run_jobs(struct launch *l, int *exit_code)
{
    const struct launch_config *c = &l->config;
    const char *run = launch_command_value(c->argc, c->argv, "--out");
    const char *from = launch_command_value(c->argc, c->argv, "--resume");
    char path[PATH_MAX], before[PATH_MAX];
    struct stat at_first = {0}, now;
    bool own = from && strcmp(from, "auto") == 0;
    TRY(prepare(l));
    TRY(path_format(path, sizeof path, "%s/" CHECKPOINT_NAME, run ? run : ""));
    TRY(path_format(before, sizeof before, "%s/" CHECKPOINT_PREV_NAME, run ? run : ""));
    bool follows = l->joins && c->node > 0; /* node 0 knows the checkpoints */
    if (from && !own && !launch_command_value(c->argc, c->argv, "--start-epoch"))
        TRY(path_same(from, path, &own));
    (void)stat(path, &at_first);
    for (int restart = 1;; restart++) {
        enum status st = job_run(l, exit_code);
        int code = st == STATUS_OK ? *exit_code : status_exit_code(st);
        /* If another launcher was stopped, only a job that may become smaller continues. */
        bool all = l->joins && c->min_nodes == c->nodes;
        bool stopped = stop_requested() || (all && code == 128 + SIGTERM);
        bool written = stat(path, &now) == 0 &&
                       memcmp(&now.st_mtim, &at_first.st_mtim, sizeof now.st_mtim) != 0;
        if (restart > c->restarts || stopped || code == 0 ||
            code == status_exit_code(STATUS_USAGE) ||
            !(follows || written || (own && (path_exists(path) || path_exists(before)))))
            return st;
        if (st != STATUS_OK)
            fprintf(stderr, "ampscale: %s\n", status_message());
        l->resume = true;
        fprintf(stderr, "ampscale: restart %d of %d, from the last checkpoint\n", restart,
                c->restarts);
    }
}

/* Prints and frees the command line `w`. `st`: whether it is complete. */
static enum status print_line(enum status st, const char *comment, struct words *w)
{
    char *line = NULL;
    st = st == STATUS_OK ? words_shell(w, &line) : st;
    if (st == STATUS_OK)
        printf("# %s\n%s\n", comment, line);
    free(line);
    words_free(w);
    return st;
}

/* Prints the command lines of mpirun and srun; without MPI, the command of a rank. */
static enum status print_job(const struct launch *l)
{
    struct words w = {0};
    if (l->kind == MPI_KIND_NONE)
        return print_line(
            command_rank(&l->config, cores_share(l->config.node_ranks, host_cores()), &w),
            "command of each rank, without MPI", &w);
    TRY(print_line(command_start(l, false, &w), "command of launch", &w));
    return print_line(command_srun(l, &w), "the same with Slurm", &w);
}

enum status launch_run(const struct launch_config *config, int *exit_code)
{
    struct launch l = {.config = *config};
    enum status st = process_signals_open(&l.signals);
    st = st == STATUS_OK ? configure(&l) : st;
    if (st == STATUS_OK)
        st = config->dry_run ? print_job(&l) : run_jobs(&l, exit_code);
    if (l.own_log)
        fclose(l.own_log);
    process_signals_close(&l.signals);
    (void)!temporary_dir_remove(&l.shared); /* else the next job removes the folder */
    return st;
}
