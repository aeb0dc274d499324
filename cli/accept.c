/* ampscale accept: whether hardware does what it must. */
#include "accept/battery.h"
#include "accept/judge.h"
#include "accept/make.h"
#include "accept/plan.h"
#include "accept/report.h"
#include "base/process.h"
#include "cli/accept_commands.h"
#include "cli/cli.h"
#include "comm/comm.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    KEY_SPEC = 256,
    KEY_OUT,
    KEY_LEVEL,
    KEY_HOURS,
    KEY_GPUS,
    KEY_RESUME,
    KEY_STRICT,
    KEY_DRY_RUN,
    KEY_LIST,
    KEY_PRINT,
    KEY_MAKE_SPEC,
    KEY_DEVICE,
    KEY_ONLY,
    KEY_PASS,
    KEY_BUDGET,
    KEY_PEER,
};

enum { MADE_MAX = 4096 };

static const struct argp_option options[] = {
    {"spec", KEY_SPEC, "cpu|h200|a100|v100|bring-up|FILE", 0,
     "What the hardware must do: a spec that comes with the program, or a file", 0},
    {"out", KEY_OUT, "DIR", 0, "Folder of the results", 0},
    {"level", KEY_LEVEL, "1|2|3|4", 0,
     "Checks up to this one: seconds, minutes (default), tens of minutes, hours", 0},
    {"hours", KEY_HOURS, "H", 0, "Time of all checks that burn in, together", 0},
    {"gpus", KEY_GPUS, "N", 0, "GPUs that the node has (default: as the spec says)", 0},
    {"device", KEY_DEVICE, "cpu|ref|cuda[:N]", 0, "Device to check (default: as the spec says)", 0},
    {"only", KEY_ONLY, "CHECK,...", 0, "These checks alone (default: all of the level)", 0},
    {"pass", KEY_PASS, "1|2|...|9", 0,
     "The checks of this part of the spec alone; --resume adds a part to another", 0},
    {"budget", KEY_BUDGET, "S", 0,
     "Seconds for all checks: each may take what the later ones leave (default: none)", 0},
    {"peer", KEY_PEER, "FILE", 0,
     "Program that checks of throughput take turns with, as 'bench throughput' has it (default: "
     "none)",
     0},
    {"resume", KEY_RESUME, 0, 0, "Go on with what DIR holds: run what is missing", 0},
    {"strict", KEY_STRICT, 0, 0, "A warning is a failure", 0},
    {"dry-run", KEY_DRY_RUN, 0, 0, "Print the checks, their commands and times instead", 0},
    {"list", KEY_LIST, 0, 0, "List the specs that come with the program", 0},
    {"print", KEY_PRINT, 0, 0, "Print the spec and end", 0},
    {"make-spec", KEY_MAKE_SPEC, "DIR", 0,
     "Print a spec with limits from the results of good hardware: a folder, and more behind it", 0},
    {0},
};

struct arguments {
    const char *spec, *device, *only, *peer;
    struct accept_options options;
    int gpus, pass;
    bool strict, dry_run, list, print;
    char *made[MADE_MAX]; /* (n_made) folders to make a spec of */
    int n_made;
    struct accept_fleet_args fleet;
};

static enum status add_made(struct arguments *a, char *dir)
{
    if (a->n_made == MADE_MAX)
        return status_fail(STATUS_USAGE, "--make-spec with more than %d folders", MADE_MAX);
    a->made[a->n_made++] = dir;
    return STATUS_OK;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct arguments *a = state->input;
    enum status st = STATUS_OK;
    int64_t n;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->fleet;
        break;
    case KEY_SPEC:
        a->spec = arg;
        break;
    case KEY_OUT:
        a->options.dir = arg;
        break;
    case KEY_LEVEL:
        st = cli_int("--level", arg, 1, ACCEPT_LEVEL_MAX, &n);
        a->options.level = st == STATUS_OK ? (int)n : 0;
        break;
    case KEY_HOURS:
        st = cli_double("--hours", arg, 0, 10000, &a->options.hours);
        break;
    case KEY_GPUS:
        st = cli_int("--gpus", arg, 1, ACCEPT_DEVICES_MAX, &n);
        a->gpus = st == STATUS_OK ? (int)n : 0;
        break;
    case KEY_DEVICE:
        a->device = arg;
        break;
    case KEY_ONLY:
        a->only = arg;
        break;
    case KEY_PASS:
        st = cli_int("--pass", arg, 1, ACCEPT_PASS_MAX, &n);
        a->pass = st == STATUS_OK ? (int)n : 0;
        break;
    case KEY_PEER:
        a->peer = arg;
        break;
    case KEY_BUDGET:
        st = cli_int("--budget", arg, 1, 10000000, &a->options.budget_s);
        break;
    case KEY_RESUME:
        a->options.resume = true;
        break;
    case KEY_STRICT:
        a->strict = true;
        break;
    case KEY_DRY_RUN:
        a->dry_run = true;
        break;
    case KEY_LIST:
        a->list = true;
        break;
    case KEY_PRINT:
        a->print = true;
        break;
    case KEY_MAKE_SPEC:
        st = add_made(a, arg);
        break;
    case ARGP_KEY_ARG:
        if (a->n_made == 0 && a->fleet.n == 0)
            return ARGP_ERR_UNKNOWN;
        st = a->n_made > 0 ? add_made(a, arg) : accept_fleet_path(&a->fleet, arg);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return st == STATUS_OK ? 0 : EINVAL;
}

static enum status list_specs(void)
{
    for (const char *const *name = accept_presets; *name; name++) {
        struct accept_spec spec;
        TRY(accept_spec_load(*name, NULL, 0, &spec));
        printf("%-14s %s\n", *name, spec.about);
        accept_spec_free(&spec);
    }
    return STATUS_OK;
}

/* As it was written, to be changed and kept. */
static enum status print_spec(const char *name)
{
    const char *text = accept_preset(name);
    if (!text)
        return status_fail(STATUS_USAGE, "--print: '%s' does not come with the program", name);
    fputs(text, stdout);
    return STATUS_OK;
}

static enum status make_spec(const struct arguments *a)
{
    json_t *spec;
    TRY(accept_make_spec(a->made, a->n_made, stderr, &spec));
    bool printed = json_dumpf(spec, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6)) == 0;
    json_decref(spec);
    putchar('\n');
    return printed ? STATUS_OK : status_fail(STATUS_OOM, "no memory to print a spec");
}

/* The battery as a command, but for its folder. */
static enum status battery_command(const struct arguments *a, const char *program, struct words *w)
{
    const struct accept_options *o = &a->options;
    TRY(words_add(w, "%s", program));
    TRY(words_add(w, "accept"));
    TRY(words_add(w, "--spec"));
    TRY(words_add(w, "%s", a->spec));
    TRY(words_add(w, "--level"));
    TRY(words_add(w, "%d", o->level));
    if (o->hours > 0) {
        TRY(words_add(w, "--hours"));
        TRY(words_add(w, "%.17g", o->hours));
    }
    if (a->gpus > 0) {
        TRY(words_add(w, "--gpus"));
        TRY(words_add(w, "%d", a->gpus));
    }
    if (a->device) {
        TRY(words_add(w, "--device"));
        TRY(words_add(w, "%s", a->device));
    }
    if (a->peer) {
        TRY(words_add(w, "--peer"));
        TRY(words_add(w, "%s", a->peer));
    }
    if (a->only) {
        TRY(words_add(w, "--only"));
        TRY(words_add(w, "%s", a->only));
    }
    if (a->pass > 0) {
        TRY(words_add(w, "--pass"));
        TRY(words_add(w, "%d", a->pass));
    }
    if (o->budget_s > 0) {
        TRY(words_add(w, "--budget"));
        TRY(words_add(w, "%" PRId64, o->budget_s));
    }
    if (o->resume)
        TRY(words_add(w, "--resume"));
    return a->strict ? words_add(w, "--strict") : STATUS_OK;
}

static enum status run_rank(const struct accept_spec *spec, const struct arguments *a,
                            const char *program, int *code)
{
    struct words command = {0};
    enum status st = battery_command(a, program, &command);
    if (st == STATUS_OK)
        st = accept_rank_work(&a->fleet, spec, &a->options, &command, a->strict, code);
    words_free(&command);
    return st;
}

/* One of several that do not know each other looks at its node alone. */
static enum status leave_job(void)
{
    struct words left = {0};
    enum status st = accept_leave_job(&left);
    words_free(&left);
    return st;
}

/* *code: what the results come to. */
static enum status run(const struct accept_spec *spec, const struct arguments *a, int *code)
{
    char program[PATH_MAX];
    struct accept_options o = a->options;
    struct accept_report report;
    TRY(process_own_file(program, sizeof program));
    if (comm_under_mpi())
        return run_rank(spec, a, program, code);
    TRY(leave_job());
    o.program = program;
    o.progress = stderr;
    TRY(accept_run(spec, &o, &report));
    enum status st = accept_write(&report, a->strict, o.dir);
    if (st == STATUS_OK) {
        accept_print(&report, a->strict, stdout);
        *code = accept_exit_code(&report, a->strict);
    }
    accept_report_free(&report);
    return st;
}

static enum status work(struct arguments *a, int *code)
{
    struct accept_spec spec;
    if (a->list)
        return list_specs();
    if (a->n_made > 0)
        return make_spec(a);
    if (a->fleet.n > 0)
        return accept_fleet_work(&a->fleet, a->spec, a->options.dir, a->strict, code);
    if (!a->spec)
        return status_fail(STATUS_USAGE, "no spec: give --spec; --list names those there are");
    if (a->print)
        return print_spec(a->spec);
    if (!a->options.dir && !a->dry_run)
        return status_fail(STATUS_USAGE, "nowhere to keep the results: give --out DIR");
    TRY(accept_spec_load(a->spec, a->device, a->gpus, &spec));
    spec.peer = a->peer;
    if (!a->options.dir)
        a->options.dir = spec.name;
    enum status st = accept_spec_select(&spec, a->only, a->pass);
    if (st == STATUS_OK)
        st = a->dry_run ? accept_plan_print(&spec, &a->options, stdout) : run(&spec, a, code);
    accept_spec_free(&spec);
    return st;
}

int cmd_accept(int argc, char **argv)
{
    static const struct argp_child children[] = {{&accept_fleet_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .children = children,
        .doc = "Runs the checks of a spec on this machine and compares the results with its "
               "limits, or "
               "with --node-list compares the results of many machines with each other. What "
               "was not measured did not pass. 'accept pair' is 'ampscale pair'.\v"
               "Exit status: 0 accepted, 4 a check failed, 5 something was not measured, 2 the "
               "command line or the spec is wrong, 1 the program could not do its work."};
    struct arguments a = {.options = {.level = 2}, .fleet = accept_fleet_default()};
    int exit_code = 0;
    if (argc > 1 && strcmp(argv[1], "pair") == 0)
        return cmd_pair(argc - 1, argv + 1);
    if (!cli_parse(&argp, argc, argv, &a, &exit_code))
        return exit_code;
    enum status st = work(&a, &exit_code);
    return st == STATUS_OK ? exit_code : cli_fail(st);
}
