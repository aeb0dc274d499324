/* ampscale launch: a command of ours as the ranks of a job. */
#include "launch/launch.h"
#include "base/file.h"
#include "base/process.h"
#include "cli/cli.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    KEY_NPROC = 256,
    KEY_HOSTS,
    KEY_HOSTFILE,
    KEY_LOG_DIR,
    KEY_THREADS,
    KEY_BIND,
    KEY_MPIRUN,
    KEY_MPI_ARG,
    KEY_GRACE,
    KEY_START_TIMEOUT,
    KEY_RESTARTS,
    KEY_DRY_RUN,
    KEY_AS_RANK,
    KEY_TERMINAL,
};

static const struct argp_option options[] = {
    {"nproc", KEY_NPROC, "N", 0,
     "Ranks in all (default: one for each slot of the hosts, or the tasks of a Slurm allocation)",
     0},
    {"hosts", KEY_HOSTS, "HOST:N,...", 0, "Hosts, and how many ranks each takes", 0},
    {"hostfile", KEY_HOSTFILE, "FILE", 0, "Hosts, one a line: 'name slots=N' or 'name:N'", 0},
    {"log-dir", KEY_LOG_DIR, "DIR", 0,
     "Folder of the ranks' logs (default: beside the run's, OUT-logs)", 0},
    {"threads", KEY_THREADS, "N", 0,
     "Threads of each rank (default: an equal share of its host's cores)", 0},
    {"bind", KEY_BIND, "none|cores", 0,
     "Let ranks run on any core (default), or each on its own share", 0},
    {"mpirun", KEY_MPIRUN, "FILE", 0, "Open MPI's or MPICH's starter (default mpirun)", 0},
    {"mpi-arg", KEY_MPI_ARG, "ARG", 0, "An argument for mpirun; can be given again", 0},
    {"grace", KEY_GRACE, "S", 0, "Seconds that ranks have to stop after a signal (default 30)", 0},
    {"start-timeout", KEY_START_TIMEOUT, "S", 0,
     "Seconds until all ranks run, where they run on this host (default 120; 0: no limit)", 0},
    {"restarts", KEY_RESTARTS, "N", 0,
     "Start again after a failure, at most N times, from the run's checkpoint (default 0)", 0},
    {"dry-run", KEY_DRY_RUN, 0, 0, "Print mpirun's line, and srun's, instead", 0},
    {"as-rank", KEY_AS_RANK, 0, OPTION_HIDDEN, "Keep one rank; what mpirun starts", 0},
    {"terminal", KEY_TERMINAL, 0, OPTION_HIDDEN, "Rank 0 sees a terminal; with --as-rank", 0},
    {0},
};

struct arguments {
    struct launch_config config;
    bool dry_run, as_rank, terminal;
    char program[PATH_MAX]; /* this one's file: what config.program points at */
};

static enum status parse_int(const char *flag, const char *arg, int min, int max, int *out)
{
    int64_t v;
    TRY(cli_int(flag, arg, min, max, &v));
    *out = (int)v;
    return STATUS_OK;
}

static enum status parse_bind(const char *arg, enum launch_bind *out)
{
    if (strcmp(arg, "none") != 0 && strcmp(arg, "cores") != 0)
        return status_fail(STATUS_USAGE, "--bind '%s': give none or cores", arg);
    *out = strcmp(arg, "cores") == 0 ? LAUNCH_BIND_CORES : LAUNCH_BIND_NONE;
    return STATUS_OK;
}

/* STATUS_UNSUPPORTED for a key that takes no value here. */
static enum status parse_value(int key, const char *arg, struct launch_config *c)
{
    switch (key) {
    case KEY_NPROC:
        return parse_int("--nproc", arg, 1, HOST_SLOTS_MAX, &c->nproc);
    case KEY_HOSTS:
        return launch_hosts_parse(&c->hosts, arg);
    case KEY_HOSTFILE:
        return launch_hosts_read(&c->hosts, arg);
    case KEY_THREADS:
        return parse_int("--threads", arg, 1, 1024, &c->threads);
    case KEY_BIND:
        return parse_bind(arg, &c->bind);
    case KEY_MPI_ARG:
        return words_add(&c->mpi_args, "%s", arg);
    case KEY_GRACE:
        return parse_int("--grace", arg, 0, 86400, &c->grace);
    case KEY_START_TIMEOUT:
        return parse_int("--start-timeout", arg, 0, 86400, &c->start_timeout);
    case KEY_RESTARTS:
        return parse_int("--restarts", arg, 0, 1000, &c->restarts);
    default:
        return STATUS_UNSUPPORTED;
    }
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct arguments *a = state->input;
    enum status st;
    switch (key) {
    case KEY_LOG_DIR:
        a->config.log_dir = arg;
        return 0;
    case KEY_MPIRUN:
        a->config.mpirun = arg;
        return 0;
    case KEY_DRY_RUN:
        a->dry_run = true;
        return 0;
    case KEY_AS_RANK:
        a->as_rank = true;
        return 0;
    case KEY_TERMINAL:
        a->terminal = true;
        return 0;
    default:
        st = parse_value(key, arg, &a->config);
        return st == STATUS_OK ? 0 : st == STATUS_UNSUPPORTED ? ARGP_ERR_UNKNOWN : EINVAL;
    }
}

/* The command behind "--" must be one of ours; not this one, whose ranks would have ranks. */
static enum status check_command(const struct launch_config *c)
{
    if (c->argc == 0)
        return status_fail(STATUS_USAGE, "no command; put it behind '--', as in 'ampscale launch "
                                         "--nproc 2 -- train ...'");
    for (const struct cli_command *known = cli_commands; known->name; known++)
        if (strcmp(known->name, c->argv[0]) == 0 && known->run != cmd_launch)
            return STATUS_OK;
    return status_fail(STATUS_USAGE, "cannot launch '%s'; 'ampscale --help' lists the commands",
                       c->argv[0]);
}

static enum status run(struct arguments *a, int *exit_code)
{
    struct launch_config *c = &a->config;
    TRY(process_own_file(a->program, sizeof a->program));
    c->program = a->program;
    TRY(check_command(c));
    if (a->as_rank) {
        struct keeper_config keeper = {.program = a->program,
                                       .log_dir = c->log_dir ? c->log_dir : ".",
                                       .threads = c->threads,
                                       .bind = c->bind,
                                       .terminal = a->terminal,
                                       .argc = c->argc,
                                       .argv = c->argv};
        *exit_code = launch_keep(&keeper);
        return STATUS_OK;
    }
    TRY(launch_config_check(c));
    return a->dry_run ? launch_print(c, stdout) : launch_run(c, exit_code);
}

/* The value of --out of a battery of nodes, which keeps what it has measured; NULL for any other
 * command. */
static const char *battery_folder(const struct launch_config *c)
{
    bool nodes = c->argc > 1 && strcmp(c->argv[0], "accept") == 0 &&
                 strcmp(c->argv[1], "pair") != 0 &&
                 !launch_command_value(c->argc, c->argv, "--node-list");
    return nodes ? launch_command_value(c->argc, c->argv, "--out") : NULL;
}

static bool resumes(const struct launch_config *c)
{
    for (int i = 0; i < c->argc; i++)
        if (strcmp(c->argv[i], "--resume") == 0)
            return true;
    return false;
}

/* A rank that is lost ends the job before the verdicts: the last line is how to come by them. argv
 * is the launch's own, from its first argument on. */
static void say_how_on(const struct launch_config *c, int argc, char **argv)
{
    const char *out = battery_folder(c);
    struct words again = {0}, judge = {0};
    char *line = NULL, *other = NULL;
    enum status st;
    CHECK(words_add(&again, "ampscale"));
    CHECK(words_add(&again, "launch"));
    CHECK(words_add_list(&again, argc, argv));
    if (!resumes(c))
        CHECK(words_add(&again, "--resume"));
    CHECK(words_shell(&again, &line));
    CHECK(words_add(&judge, "%s", out));
    CHECK(words_shell(&judge, &other));
    fprintf(stderr,
            "ampscale: results stay in %s: '%s' runs what is missing, and 'ampscale accept "
            "--node-list %s' judges what is there\n",
            other, line, other);
done:
    free(line);
    free(other);
    words_free(&again);
    words_free(&judge);
}

int cmd_launch(int argc, char **argv)
{
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .args_doc = "-- COMMAND ARG...",
        .doc = "Runs a command of ampscale as the ranks of a job, by mpirun: on this machine, or "
               "on several. Shows what rank 0 shows, and why a rank failed.\v"
               "Exit status: that of the first rank that failed, 128 plus its number for a signal; "
               "1 when mpirun failed, 2 wrong usage."};
    struct arguments a = {.config = {.grace = 30, .start_timeout = 120}};
    int exit_code = 0, own = 1;
    while (own < argc && strcmp(argv[own], "--") != 0)
        own++;
    if (own + 1 < argc) {
        a.config.argc = argc - own - 1;
        a.config.argv = argv + own + 1;
    }
    if (cli_parse(&argp, own, argv, &a, &exit_code)) {
        enum status st = run(&a, &exit_code);
        if (st != STATUS_OK)
            exit_code = cli_fail(st);
    }
    bool judged = exit_code == 0 || exit_code == status_exit_code(STATUS_USAGE) ||
                  exit_code == status_exit_code(STATUS_MISMATCH) ||
                  exit_code == status_exit_code(STATUS_DATA);
    if (!judged && !a.as_rank && battery_folder(&a.config) &&
        path_is_dir(battery_folder(&a.config)))
        say_how_on(&a.config, argc - 1, argv + 1);
    words_free(&a.config.mpi_args);
    launch_hosts_free(&a.config.hosts);
    return exit_code;
}
