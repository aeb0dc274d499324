/* ampscale accept: acceptance test of the hardware of one node, or of many. */
#include "accept/accept_judge.h"
#include "accept/accept_make.h"
#include "accept/accept_suite.h"
#include "accept/fleet_job.h"
#include "base/json.h"
#include "base/output.h"
#include "base/process.h"
#include "cli/cli.h"
#include "comm/comm.h"
#include "results/nodes.h"

#include <limits.h>
#include <string.h>

enum { PATHS_MAX = 4096 };

struct accept_command {
    const char *spec, *device, *only, *peer, *expect;
    struct accept_options options;
    struct fleet_options fleet;
    int gpus, pass;
    bool dry_run, list, print, quiet;
    const char *made[PATHS_MAX]; /* (n_made) folders of results to make a spec from */
    const char *path[PATHS_MAX]; /* (n_paths) nodes' results to judge */
    int n_made, n_paths;
    const char *more[PATHS_MAX]; /* (n_more) positional arguments: further paths for `made` or
                                  * `path` */
    int n_more;
    int argc;
    char **argv;
    int exit_code;
};

#define SETTINGS_OF struct accept_command
static const struct setting accept_settings[] = {
    {"spec", 0, "cpu|h200|h100|a100|v100|bring-up|FILE", NULL,
     "Requirements of the hardware: the name of a built-in spec, or a file", AS_TEXT(spec)},
    {"out", 0, "DIR", NULL, "Folder of the results", AS_TEXT(options.dir)},
    {"name", 0, "NAME", NULL, "Name of the node in the results (default: the host's)",
     AS_TEXT(options.name)},
    {"level", 0, "1|2|3|4", "2",
     "Highest level of checks to run: 1 takes seconds, 2 minutes, 3 tens of minutes, 4 hours",
     AS_INTEGER(options.level, 1, ACCEPT_LEVEL_MAX)},
    {"hours", 0, "H", NULL, "Total time of the burn-in checks", AS_REAL(options.hours, 0, 10000)},
    {"gpus", 0, "N", NULL, "GPUs that the node must have (default: as the spec says)",
     AS_INTEGER(gpus, 1, ACCEPT_DEVICES_MAX)},
    {"device", 0, "cpu|ref|cuda[:N]", NULL, "Device to check (default: as the spec says)",
     AS_TEXT(device)},
    {"only", 0, "CHECK,...", NULL, "Run these checks only (default: all up to the level)",
     AS_TEXT(only)},
    {"pass", 0, "1|2|...|9", NULL,
     "Run only the checks of this pass of the spec; --resume adds another pass",
     AS_INTEGER(pass, 1, ACCEPT_PASS_MAX)},
    {"budget", 0, "S", NULL,
     "Seconds for all checks together; half of the time that later checks need is kept for them "
     "(default: no limit)",
     AS_INTEGER(options.budget_s, 1, 10000000)},
    {"peer", 0, "FILE", NULL,
     "Reference program: throughput checks take turns with it, as 'bench throughput' does "
     "(default: none)",
     AS_TEXT(peer)},
    {"resume", 0, NULL, NULL, "Continue with the results in DIR: run the checks that are missing",
     AS_SWITCH(options.resume)},
    {"strict", 0, NULL, NULL, "Treat warnings as failures", AS_SWITCH(fleet.strict)},
    {"dry-run", 0, NULL, NULL,
     "Print the checks, their commands and expected times, and run nothing", AS_SWITCH(dry_run)},
    QUIET_ROW(quiet),
    {"list", 0, NULL, NULL, "List the built-in specs", AS_SWITCH(list)},
    {"print", 0, NULL, NULL, "Print the built-in spec given by --spec, and exit", AS_SWITCH(print)},
    {"make-spec", 0, "DIR", NULL,
     "Print a spec whose limits come from the results of good hardware in DIR; more folders may "
     "follow",
     AS_LIST(made, n_made)},
    {"node-list", 0, "FILE|DIR", NULL,
     "Compare the results of nodes with each other: a results-summary.jsonl, the folder of a node, "
     "or a folder of such folders; more may follow",
     AS_LIST(path, n_paths)},
    {"expect", 0, "FILE", NULL, "Nodes that must have results, one name per line", AS_TEXT(expect)},
    {"within", 0, "PERCENT", "10",
     "Percent below the fleet's median at which a metric without a limit in the spec fails",
     AS_REAL(fleet.within, 0.1, 99)},
    {"warn-within", 0, "PERCENT", "5",
     "Percent below the fleet's median at which a metric gets a warning",
     AS_REAL(fleet.warn_within, 0.1, 99)},
    {"wait", 0, "S", NULL,
     "In a job of several ranks: seconds that a finished node waits for the others (default: one "
     "hour plus twice the planned time of the checks)",
     AS_REAL(fleet.wait_s, 1, 1e8)},
    {NULL, 0, "DIR", NULL, NULL, AS_LIST(more, n_more)},
    {0},
};

/* Appends the positional arguments to the list that --make-spec or --node-list began. */
static enum status take_more(struct accept_command *a)
{
    const char **list = a->n_made > 0 ? a->made : a->path;
    int *n = a->n_made > 0 ? &a->n_made : &a->n_paths;
    if (a->n_more > 0 && *n == 0)
        return status_fail(STATUS_USAGE, "unexpected argument '%s'; see '%s --help'", a->more[0],
                           a->argv[0]);
    if (*n + a->n_more > PATHS_MAX)
        return status_fail(STATUS_USAGE, "more than %d files and folders of results were given",
                           PATHS_MAX);
    memcpy(list + *n, a->more, (size_t)a->n_more * sizeof *list);
    *n += a->n_more;
    return STATUS_OK;
}

static enum status list_specs(void)
{
    for (const struct preset *p = accept_presets; p->name; p++) {
        struct accept_spec spec;
        TRY(accept_spec_load(p->name, NULL, 0, &spec));
        printf("%-14s %s\n", p->name, spec.about);
        accept_spec_free(&spec);
    }
    return STATUS_OK;
}

/* Runs the test suite of this rank's node: starts the same command in a new process, which writes
 * its results to a folder of this node. */
static enum status run_rank(const struct accept_spec *spec, struct accept_command *a,
                            const char *program)
{
    struct words command = {0};
    enum status st;
    CHECK(words_add_all(&command, program, "accept", NULL));
    CHECK(words_add_list(&command, a->argc - 1, a->argv + 1));
    CHECK(fleet_run_rank(&a->fleet, spec, &a->options, &command, &a->exit_code));
done:
    words_free(&command);
    return st;
}

static enum status run(const struct accept_spec *spec, struct accept_command *a)
{
    char program[PATH_MAX];
    struct words left = {0};
    struct accept_report report;
    TRY(process_own_file(program, sizeof program));
    if (comm_under_mpi() && a->options.name)
        return status_fail(STATUS_USAGE,
                           "--name is for one node; a job names nodes by their hosts");
    if (a->options.name && !node_name_ok(a->options.name))
        return status_fail(STATUS_USAGE,
                           "--name '%s': give letters, digits, '.', '-' and '_', beginning with a "
                           "letter or a digit",
                           a->options.name);
    if (comm_under_mpi())
        return run_rank(spec, a, program);
    enum status st = fleet_leave_job(&left); /* leaves this job, because the suite itself
                                              * starts jobs */
    words_free(&left);
    TRY(st);
    a->options.program = program;
    a->options.progress = a->quiet ? NULL : stderr;
    TRY(accept_run(spec, &a->options, &report));
    st = accept_write(&report, a->fleet.strict, a->options.dir);
    if (st == STATUS_OK) {
        accept_print(&report, a->fleet.strict, stdout);
        a->exit_code = verdict_exit_code(report.count, a->fleet.strict);
    }
    accept_report_free(&report);
    return st;
}

static enum status work(struct accept_command *a)
{
    struct accept_spec spec;
    json_t *made;
    if (a->list || a->print || a->dry_run || a->n_made + a->n_paths > 0)
        output_begin(OUTPUT_ENDS); /* results, not progress */
    TRY(take_more(a));
    a->fleet.out = a->options.dir;
    if (a->list)
        return list_specs();
    if (a->n_made > 0) {
        TRY(accept_make_spec(a->made, a->n_made, stderr, &made));
        json_print(made, stdout, JSON_EXACT);
        return STATUS_OK;
    }
    if (a->n_paths > 0)
        return fleet_judge_paths(&a->fleet, a->path, a->n_paths, a->spec, a->expect, &a->exit_code);
    if (!a->spec)
        return status_fail(STATUS_USAGE, "no spec: give --spec; --list names the built-in ones");
    if (a->print)
        return preset_print(accept_presets, a->spec, stdout);
    if (!a->options.dir && !a->dry_run)
        return status_fail(STATUS_USAGE, "no folder for the results: give --out DIR");
    TRY(accept_spec_load(a->spec, a->device, a->gpus, &spec));
    spec.peer = a->peer;
    if (!a->options.dir)
        a->options.dir = spec.name;
    enum status st = accept_spec_select(&spec, a->only, a->pass);
    if (st == STATUS_OK)
        st = a->dry_run ? accept_plan_print(&spec, &a->options, stdout) : run(&spec, a);
    accept_spec_free(&spec);
    return st;
}

static int run_accept(const struct cli_command *c, int argc, char **argv)
{
    struct accept_command *a = c->config;
    int exit_code;
    if (argc > 1 && strcmp(argv[1], "pair") == 0)
        return cli_run(&cmd_pair, argc - 1, argv + 1);
    a->argc = argc;
    a->argv = argv;
    if (!cli_read(c, argc, argv, &exit_code))
        return exit_code;
    enum status st = work(a);
    return st == STATUS_OK ? a->exit_code : cli_end(st);
}

const struct cli_command cmd_accept = {
    .name = "accept",
    .summary = "check hardware against a specification",
    .arguments = "--spec NAME|FILE --out DIR\n--node-list FILE|DIR... [--out DIR]\n--list\n"
                 "--make-spec DIR...",
    .doc = "Runs the checks of a spec on this machine, and compares the results with the limits in "
           "the spec. With --node-list, compares the results of many machines with each other. A "
           "metric that was not measured has not passed. 'accept pair' is the same as 'ampscale "
           "pair'.\vExit status: 0 if the hardware is accepted, 1 on an error, 2 if the command "
           "line or the spec is wrong, 4 if a check failed, 5 if something was not measured.",
    .example = {{"Test this machine's processors: minutes",
                 "ampscale accept --spec cpu --out results/node1"},
                {"Show the checks for a node with H100 GPUs and their time, and run nothing",
                 "ampscale accept --spec h100 --level 3 --dry-run"},
                {"Compare the nodes whose results are in one folder with each other",
                 "ampscale accept --node-list results --out results/fleet"}},
    .part = {{accept_settings}},
    .config = &(struct accept_command){0},
    .output = OUTPUT_DROPS,
    .run = run_accept};
