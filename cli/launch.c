/* ampscale launch: runs a command of ampscale as the ranks of a job. */
#include "launch/launch.h"
#include "base/array.h"
#include "base/file.h"
#include "base/launcher.h"
#include "base/process.h"
#include "cli/cli.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct arguments {
    struct launch_config config;
    bool as_rank;
    const char *master_addr;
    const char *redirects;
    char **words;                       /* the command with --comm added, or NULL */
    char address[LAUNCHER_ADDRESS_MAX]; /* from --master-addr and --master-port */
    char program[PATH_MAX];             /* path of this program; config.program points at it */
};

static enum status take_hosts(const struct setting *s, const char *text, void *arguments)
{
    struct launch_hosts *hosts = setting_member(s, arguments);
    return strcmp(s->flag, "hosts") == 0 ? launch_hosts_parse(hosts, text)
                                         : launch_hosts_read(hosts, text);
}

static enum status take_mpi_arg(const struct setting *s, const char *text, void *arguments)
{
    return words_add(setting_member(s, arguments), "%s", text);
}

/* Takes --nnodes N, or torchrun's MIN:MAX. */
static enum status take_nodes(const struct setting *s, const char *text, void *arguments)
{
    struct launch_config *c = setting_member(s, arguments);
    int least = 0, most = 0, end = 0;
    bool range = sscanf(text, "%5d:%5d%n", &least, &most, &end) == 2;
    if (!range)
        end = sscanf(text, "%5d%n", &most, &end) == 1 ? end : 0;
    if (end == 0 || text[end] || most < 1 || most > HOST_SLOTS_MAX ||
        (range && (least < 1 || least > most)))
        return status_fail(STATUS_USAGE, "--nnodes '%s': give a number of nodes, or MIN:MAX", text);
    c->nodes = most;
    c->min_nodes = range ? least : c->min_nodes;
    return STATUS_OK;
}

#define SETTINGS_OF struct arguments
static const struct setting launch_settings[] = {
    {NULL, 0, "COMMAND", NULL, NULL, AS_ARGUMENTS(config.argv, config.argc),
     .traits = SETTING_REST},
    {"nproc", 0, "N", NULL,
     "Total number of ranks (default: one for each slot of the hosts, or the tasks of a Slurm "
     "allocation)",
     AS_INTEGER(config.nproc, 1, HOST_SLOTS_MAX), .aliases = {"np"}},
    {"nproc-per-node", 0, "N", NULL, "Ranks of each node, in place of --nproc",
     AS_INTEGER(config.node_ranks, 1, HOST_SLOTS_MAX)},
    {"nnodes", 0, "N|MIN:MAX", NULL,
     "Without MPI: number of nodes that run this command line, each with its own --node-rank; MIN "
     "sets --min-nodes",
     TAKEN_BY(take_nodes), SETTING_AT(config)},
    {"min-nodes", 0, "N", NULL,
     "Without MPI: smallest number of nodes with which the job starts; the world size is then "
     "smaller (default: all nodes)",
     AS_INTEGER(config.min_nodes, 1, HOST_SLOTS_MAX)},
    {"join-timeout", 0, "S", "60",
     "Without MPI, with --restarts or --min-nodes: time limit for nodes to join at each start, in "
     "seconds",
     AS_INTEGER(config.join_timeout, 1, 86400)},
    {"node-rank", 0, "N", "0", "Rank of this node, from 0, with --nnodes",
     AS_INTEGER(config.node, 0, HOST_SLOTS_MAX)},
    {"rendezvous", 0, "HOST:PORT", NULL,
     "Address of node 0, at which the ranks connect without MPI (default on one node without "
     "mpirun: a free port of loopback)",
     AS_TEXT(config.rendezvous)},
    {"comm", 0, "auto|nccl|host|mpi|gloo", NULL,
     "--comm to pass to the command; mpi starts the ranks with mpirun; gloo, without --hosts, "
     "starts them without MPI (default: the --comm given after the command)",
     AS_TEXT(config.comm)},
    {"master-addr", 0, "HOST", NULL, "HOST of --rendezvous", AS_TEXT(master_addr)},
    {"master-port", 0, "PORT", NULL,
     "PORT of --rendezvous (default: 29500 with --master-addr; a free port with --hosts)",
     AS_INTEGER(config.port, 1, 65535)},
    {"hosts", 'H', "HOST:N,...", NULL,
     "Hosts and the number of ranks on each; mpirun starts the ranks", TAKEN_BY(take_hosts),
     SETTING_AT(config.hosts)},
    {"hostfile", 0, "FILE", NULL, "File of hosts, one a line: 'name slots=N' or 'name:N'",
     TAKEN_BY(take_hosts), SETTING_AT(config.hosts)},
    {"log-dir", 0, "DIR", NULL,
     "Folder of the ranks' logs (default: OUT-logs, next to the run's folder OUT)",
     AS_TEXT(config.log_dir)},
    {"threads", 0, "N", NULL, "Threads per rank (default: an equal share of its host's cores)",
     AS_INTEGER(config.threads, 1, 1024)},
    {"bind", 0, "auto|none|cores", "auto",
     "cores: each rank runs on its own share of its host's cores; none: on any core; auto: cores, "
     "if there is a core for each rank, else none",
     AS_CHOICE(config.bind)},
    {"mpirun", 0, "FILE", NULL, "mpirun of Open MPI or MPICH (default mpirun)",
     AS_TEXT(config.mpirun)},
    {"mpi-arg", 0, "ARG", NULL, "Argument to pass to mpirun; may be given several times",
     TAKEN_BY(take_mpi_arg), SETTING_AT(config.mpi_args)},
    {"grace", 0, "S", "30",
     "Seconds between the signal that asks ranks to stop and the signal that kills them",
     AS_INTEGER(config.grace, 0, 86400)},
    {"start-timeout", 0, "S", "120",
     "Time limit for the start of all ranks by mpirun, in seconds; 0: no limit",
     AS_INTEGER(config.start_timeout, 0, 86400)},
    {"restarts", 0, "N", "0", "Restart a failed job up to N times, from the run's checkpoint",
     AS_INTEGER(config.restarts, 0, 1000), .aliases = {"max-restarts"}},
    {"tee", 't', "MODE", NULL, "No effect: ranks always have logs, and rank 0's output is shown",
     AS_TEXT(redirects), .aliases = {"redirects"}},
    {"dry-run", 0, NULL, NULL, "Print the command lines for mpirun and for srun, and run nothing",
     AS_SWITCH(config.dry_run)},
    {"as-rank", 0, NULL, NULL, "Supervise one rank; for internal use by launch", AS_SWITCH(as_rank),
     .traits = SETTING_HIDDEN},
    {"terminal", 0, NULL, NULL, "Rank 0 writes to a terminal; for internal use, with --as-rank",
     AS_SWITCH(config.terminal), .traits = SETTING_HIDDEN},
    {0},
};

/* Checks that the command is a command of ampscale other than launch. */
static enum status check_command(const struct launch_config *c)
{
    if (c->argc == 0)
        return status_fail(
            STATUS_USAGE,
            "no command: give it last, as in 'ampscale launch --nproc 2 -- train ...'");
    for (const struct cli_command *const *known = cli_commands; *known; known++)
        if (strcmp((*known)->name, c->argv[0]) == 0 && *known != &cmd_launch)
            return STATUS_OK;
    size_t n = strlen(c->argv[0]);
    bool script = strcmp(c->argv[0], "python") == 0 || strcmp(c->argv[0], "python3") == 0 ||
                  (n > 3 && strcmp(c->argv[0] + n - 3, ".py") == 0);
    if (script)
        return status_fail(STATUS_USAGE,
                           "cannot launch '%s': ampscale's own trainer replaces the script; write "
                           "'train' and the script's flags",
                           c->argv[0]);
    return status_fail(STATUS_USAGE, "cannot launch '%s'; 'ampscale --help' lists the commands",
                       c->argv[0]);
}

/* Takes the address of the rendezvous from --master-addr and --master-port. If neither
 * --master-addr nor --rendezvous is given, a job of several nodes takes the address from
 * MASTER_ADDR and MASTER_PORT, if they are set. */
static enum status settle_address(struct arguments *a)
{
    struct launch_config *c = &a->config;
    const char *host = getenv("MASTER_ADDR"), *port = getenv("MASTER_PORT");
    enum status st = STATUS_OK;
    if (c->rendezvous && a->master_addr)
        return status_fail(STATUS_USAGE, "--master-addr '%s' and --rendezvous '%s': give one",
                           a->master_addr, c->rendezvous);
    if (a->master_addr)
        st = path_format(a->address, sizeof a->address, "%s:%d", a->master_addr,
                         c->port ? c->port : 29500);
    else if (!c->rendezvous && c->nodes > 1 && host && port)
        st = path_format(a->address, sizeof a->address, "%s:%s", host, port);
    if (*a->address)
        c->rendezvous = a->address;
    return st;
}

/* Passes launch's --comm on to the command. If launch was given no --comm, takes the command's. */
static enum status settle_comm(struct arguments *a)
{
    static char flag[] = "--comm";
    struct launch_config *c = &a->config;
    if (!c->comm) {
        c->comm = launch_command_value(c->argc, c->argv, flag);
        return STATUS_OK;
    }
    TRY(array_new(&a->words, c->argc + 2));
    memcpy(a->words, c->argv, (size_t)c->argc * sizeof *a->words);
    a->words[c->argc] = flag;
    a->words[c->argc + 1] = (char *)c->comm;
    c->argv = a->words;
    c->argc += 2;
    return STATUS_OK;
}

static enum status run(struct arguments *a, int *exit_code)
{
    struct launch_config *c = &a->config;
    TRY(process_own_file(a->program, sizeof a->program));
    c->program = a->program;
    TRY(check_command(c));
    if (a->as_rank) {
        c->log_dir = c->log_dir ? c->log_dir : ".";
        *exit_code = launch_supervise(c);
        return STATUS_OK;
    }
    TRY(settle_address(a));
    TRY(settle_comm(a));
    return launch_run(c, exit_code);
}

/* Returns the value of --out if the command is a test suite of nodes, and NULL for any other
 * command. The results of a test suite stay in that folder after a failure. */
static const char *suite_folder(const struct launch_config *c)
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

/* Called when a lost rank has ended a test suite's job before the verdicts. Prints the commands
 * that continue the job or judge its results. `argv` has the arguments of launch itself. */
static void say_how_on(const struct launch_config *c, int argc, char **argv)
{
    const char *out = suite_folder(c);
    struct words again = {0}, judge = {0};
    char *line = NULL, *other = NULL;
    enum status st;
    CHECK(words_add_all(&again, "ampscale", "launch", NULL));
    CHECK(words_add_list(&again, argc, argv));
    if (!resumes(c))
        CHECK(words_add(&again, "--resume"));
    CHECK(words_shell(&again, &line));
    CHECK(words_add(&judge, "%s", out));
    CHECK(words_shell(&judge, &other));
    fprintf(stderr,
            "ampscale: the results are in %s: '%s' runs the missing checks, and 'ampscale accept "
            "--node-list %s' judges the existing results\n",
            other, line, other);
done:
    free(line);
    free(other);
    words_free(&again);
    words_free(&judge);
}

static int run_launch(const struct cli_command *c, int argc, char **argv)
{
    static char np[] = "--np";
    struct arguments *a = c->config;
    int exit_code = 0;
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) /* horovodrun's -np has one dash */
        argv[i] = strcmp(argv[i], "-np") == 0 ? np : argv[i];
    if (cli_read(c, argc, argv, &exit_code)) {
        enum status st = run(a, &exit_code);
        if (st != STATUS_OK)
            exit_code = cli_end(st);
    }
    bool judged = exit_code == 0 || exit_code == status_exit_code(STATUS_USAGE) ||
                  exit_code == status_exit_code(STATUS_MISMATCH) ||
                  exit_code == status_exit_code(STATUS_DATA);
    if (!judged && !a->as_rank && suite_folder(&a->config) && path_exists(suite_folder(&a->config)))
        say_how_on(&a->config, argc - 1, argv + 1);
    words_free(&a->config.mpi_args);
    free(a->words);
    launch_hosts_free(&a->config.hosts);
    return exit_code;
}

const struct cli_command cmd_launch = {
    .name = "launch",
    .summary = "run a command as the ranks of a job, on one or many hosts",
    .arguments = "[--] COMMAND ARG...",
    .doc =
        "Runs a command of ampscale as the ranks of a job, through mpirun or without MPI, on "
        "this machine or on several machines. COMMAND is train, bench collective, bench overlap, "
        "accept or pair, which work as one job; each rank runs any other command alone. Shows "
        "the output of rank 0, and the reason if a rank fails.\vExit status: that of the first "
        "rank that failed, or 128 plus the number "
        "of the signal that ended this rank; 1 if mpirun failed, 2 on wrong usage.",
    .example = {{"Train with two processes on this machine",
                 "ampscale launch --nproc 2 -- train data/synth10 -a resnet18 --image-size 64 -b "
                 "32 --epochs 2 --out runs/two"},
                {"Train on 16 GPUs of two nodes (needs those)",
                 "ampscale launch --hosts node1:8,node2:8 -- train /data/imagenet -a resnet50 "
                 "--devices cuda --precision amp --out runs/imagenet"},
                {"Print the command lines for mpirun and srun, and run nothing",
                 "ampscale launch --nproc 2 --dry-run -- bench collective allreduce"}},
    .part = {{launch_settings}},
    .config = &(struct arguments){.as_rank = false},
    .output = OUTPUT_DROPS,
    .run = run_launch};
