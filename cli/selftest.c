/* ampscale selftest: does this installation compute what PyTorch computes, the same bits each time,
 * and in each operation what the reference computes? */
#include "runners/selftest.h"
#include "cli/cli.h"
#include "runners/determinism.h"
#include "verify/operations.h"

#include <errno.h>
#include <string.h>

enum {
    KEY_ORACLE = 256,
    KEY_DEVICES,
    KEY_THREADS,
    KEY_QUICK,
    KEY_JSON,
    KEY_DETERMINISM,
    KEY_REPEATS,
    KEY_OPERATIONS,
    KEY_ONLY, /* from here to the last, for --operations alone */
    KEY_WITHOUT,
    KEY_EVERY,
    KEY_SHARE,
    KEY_CASE,
    KEY_LIST,
    KEY_ISA,
    KEY_JOBS,
    KEY_LIMIT,
    KEY_SANITIZER,
    KEY_WORKER,
    KEY_KIND,
    KEY_INJECT
};

static const struct argp_option options[] = {
    {"oracle", KEY_ORACLE, "FILE", 0, "Run the cases of FILE instead of the built-in ones", 0},
    {"devices", KEY_DEVICES, "cpu|ref|cuda:N", 0, "Device to check (default cpu)", 0},
    {"threads", KEY_THREADS, "N", 0,
     "Host threads (default: all cores; with --operations, 2 in each process)", 0},
    {"quick", KEY_QUICK, NULL, 0,
     "Leave out cases larger than 64 pixels, or all networks but the smallest", 0},
    {"determinism", KEY_DETERMINISM, NULL, 0,
     "Repeat training steps from the same state instead, and compare every bit of loss, gradients, "
     "weights and momentum",
     0},
    {"repeats", KEY_REPEATS, "N", 0,
     "With --determinism: times that a step is computed (default 3)", 0},
    {"operations", KEY_OPERATIONS, NULL, 0,
     "Compare each kind of operation with the reference instead, on a table of cases, in a process "
     "for each kind",
     0},
    {"quiet", 'q', NULL, 0, "One line per case, and each value that fails", 0},
    {"json", KEY_JSON, NULL, 0, "Print one JSON object with every value", 0},
    {NULL, 0, NULL, 0, "With --operations:", 1},
    {"only", KEY_ONLY, "TEXT", 0, "Only cases whose name contains TEXT", 1},
    {"without", KEY_WITHOUT, "TEXT", 0, "No case whose name contains TEXT; may be repeated", 1},
    {"every", KEY_EVERY, "N", 0,
     "One in N problems, in all its layouts (default 1; with --sanitizer, 15)", 1},
    {"share", KEY_SHARE, "K", 0, "Which of those N parts of the table, from 0 (default 0)", 1},
    {"case", KEY_CASE, "N", 0, "Only case N", 1},
    {"list", KEY_LIST, NULL, 0, "List the cases and run none", 1},
    {"isa", KEY_ISA, "generic|avx2|avx512", 0,
     "Own CPU kernels for that instruction set (default: the best that the processor has)", 1},
    {"jobs", KEY_JOBS, "N", 0, "Processes at a time, at most 12 (default: as many as cores)", 1},
    {"limit", KEY_LIMIT, "S", 0,
     "Seconds for all; kinds that are not done are late (default: none)", 1},
    {"sanitizer", KEY_SANITIZER, "memcheck|racecheck|synccheck", 0,
     "Run the processes under that tool of compute-sanitizer, on own kernels alone", 1},
    {"worker", KEY_WORKER, "DIR", OPTION_HIDDEN, "Run cases in this process, plans in DIR", 1},
    {"kind", KEY_KIND, "KIND", OPTION_HIDDEN, "Only operations of that kind", 1},
    {"inject", KEY_INJECT, "FAULT", OPTION_HIDDEN, "Commit a fault, to see what catches it", 1},
    {0},
};

/* What the command line says. */
struct selftest_command {
    struct selftest_config config;
    bool determinism, is_operations, list;
    int repeats; /* 0: the usual number */
    struct operations_config operations;
    const char *worker;  /* the worker's folder; NULL: none */
    int every;           /* 0: the usual number */
    bool for_operations; /* a flag was given that is for --operations */
};

enum { NUMBER_MAX = 1 << 20 }; /* of a case, or of parts of the table */

static enum status parse_count(const char *flag, const char *arg, int min, int max, int *out)
{
    int64_t n = 0;
    enum status st = cli_int(flag, arg, min, max, &n);
    *out = (int)n;
    return st;
}

static enum status parse_sanitizer(const char *arg, const char **tool)
{
    static const char *const known[] = {"memcheck", "racecheck", "synccheck"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(arg, known[i]) == 0) {
            *tool = known[i];
            return STATUS_OK;
        }
    return status_fail(STATUS_USAGE,
                       "--sanitizer: there is no tool '%s'; use memcheck, racecheck or "
                       "synccheck",
                       arg);
}

/* "wrong=12", "crash=12", "hang=12": at that case. */
static enum status parse_fault(const char *arg, struct comparison_fault *f)
{
    static const char *const name[] = {
        [COMPARISON_WRONG] = "wrong=", [COMPARISON_CRASH] = "crash=", [COMPARISON_HANG] = "hang="};
    for (int k = COMPARISON_WRONG; k <= COMPARISON_HANG; k++)
        if (strncmp(arg, name[k], strlen(name[k])) == 0) {
            f->kind = (enum comparison_fault_kind)k;
            return parse_count("--inject", arg + strlen(name[k]), 0, NUMBER_MAX, &f->number);
        }
    return status_fail(STATUS_USAGE, "--inject '%s': use wrong=CASE, crash=CASE or hang=CASE", arg);
}

static enum status parse_without(const char *arg, struct selection *s)
{
    if (s->n_without == SELECTION_WITHOUT_MAX)
        return status_fail(STATUS_USAGE, "--without '%s': it may be given %d times", arg,
                           SELECTION_WITHOUT_MAX);
    s->without[s->n_without++] = arg;
    return STATUS_OK;
}

/* Flags of --operations. */
static enum status parse_operations(int key, const char *arg, struct selftest_command *t)
{
    struct operations_config *o = &t->operations;
    struct selection *s = &o->worker.selection;
    t->for_operations = true;
    switch (key) {
    case KEY_ONLY:
        s->only = arg;
        return STATUS_OK;
    case KEY_WITHOUT:
        return parse_without(arg, s);
    case KEY_EVERY:
        return parse_count("--every", arg, 1, NUMBER_MAX, &t->every);
    case KEY_SHARE:
        return parse_count("--share", arg, 0, NUMBER_MAX, &s->share);
    case KEY_CASE:
        return parse_count("--case", arg, 0, NUMBER_MAX, &s->number);
    case KEY_LIST:
        t->list = true;
        return STATUS_OK;
    case KEY_ISA:
        o->worker.isa = arg;
        return STATUS_OK;
    case KEY_JOBS:
        return parse_count("--jobs", arg, 1, OPERATIONS_JOBS_MAX, &o->jobs);
    case KEY_LIMIT:
        return cli_int("--limit", arg, 1, 1 << 30, &o->limit_s);
    case KEY_SANITIZER:
        return parse_sanitizer(arg, &o->sanitizer);
    case KEY_WORKER:
        t->worker = arg;
        return STATUS_OK;
    case KEY_KIND:
        s->kind = arg;
        return STATUS_OK;
    default:
        return parse_fault(arg, &o->worker.fault);
    }
}

static error_t selftest_parse(int key, char *arg, struct argp_state *state)
{
    struct selftest_command *t = state->input;
    struct selftest_config *c = &t->config;
    switch (key) {
    case KEY_ORACLE:
        c->oracle = arg;
        return 0;
    case KEY_DEVICES:
        c->devices = arg;
        return 0;
    case KEY_THREADS:
        return parse_count("--threads", arg, 1, 1024, &c->threads) == STATUS_OK ? 0 : EINVAL;
    case KEY_REPEATS:
        return parse_count("--repeats", arg, 2, 1024, &t->repeats) == STATUS_OK ? 0 : EINVAL;
    case KEY_DETERMINISM:
        t->determinism = true;
        return 0;
    case KEY_OPERATIONS:
        t->is_operations = true;
        return 0;
    case KEY_QUICK:
        c->quick = true;
        return 0;
    case 'q':
        c->verbose = false;
        return 0;
    case KEY_JSON:
        c->json = true;
        return 0;
    default:
        if (key < KEY_ONLY || key > KEY_INJECT)
            return ARGP_ERR_UNKNOWN;
        return parse_operations(key, arg, t) == STATUS_OK ? 0 : EINVAL;
    }
}

static enum status selftest_operations(struct selftest_command *t)
{
    struct operations_config *o = &t->operations;
    struct selection *s = &o->worker.selection;
    if (t->determinism || t->config.oracle || t->config.quick || t->repeats)
        return status_fail(STATUS_USAGE, "--operations has a table of its own: leave out --oracle, "
                                         "--quick, --determinism and --repeats");
    o->worker.devices = t->config.devices;
    o->worker.threads = t->config.threads ? t->config.threads : 2;
    o->json = t->config.json;
    o->quiet = !t->config.verbose;
    o->out = t->config.out;
    s->depends_on_isa = o->worker.isa != NULL;
    s->every = t->every ? t->every : o->sanitizer ? 15 : 1;
    if (s->share >= s->every)
        return status_fail(STATUS_USAGE, "--share %d: of %d parts there are 0 to %d", s->share,
                           s->every, s->every - 1);
    if (t->worker)
        return worker_run(&o->worker, t->worker);
    if (o->sanitizer && s->number < 0) {
        TRY(parse_without("conv_", s));
        TRY(parse_without("linear_", s));
    }
    return t->list ? operations_list(o) : operations_run(o);
}

static enum status selftest(struct selftest_command *t)
{
    const struct selftest_config *c = &t->config;
    if (t->is_operations)
        return selftest_operations(t);
    if (t->for_operations)
        return status_fail(STATUS_USAGE, "a flag of --operations was given without --operations");
    if (t->determinism && c->oracle)
        return status_fail(STATUS_USAGE, "--determinism needs no --oracle: give one of them");
    if (!t->determinism && t->repeats)
        return status_fail(STATUS_USAGE, "--repeats is for --determinism");
    if (!t->determinism)
        return selftest_run(c);
    const struct determinism_config d = {.devices = c->devices,
                                         .threads = c->threads,
                                         .repeats = t->repeats ? t->repeats : 3,
                                         .quick = c->quick,
                                         .json = c->json,
                                         .out = c->out};
    return determinism_run(&d);
}

int cmd_selftest(int argc, char **argv)
{
    static const struct argp argp = {
        .options = options,
        .parser = selftest_parse,
        .doc = "Computes known training steps and compares every value with PyTorch's; or repeats "
               "steps, and compares every bit; or compares operations with the reference.\v"
               "Exit status: 0 all values hold, 1 an operation's process crashed, 4 some "
               "values do not hold, 5 the oracle file is missing or damaged, the device or the "
               "sanitizer is missing, or no case could run."};
    struct selftest_command t = {.config = {.devices = "cpu", .verbose = true, .out = stdout},
                                 .operations.worker.selection.number = -1};
    int exit_code;
    if (!cli_parse(&argp, argc, argv, &t, &exit_code))
        return exit_code;
    enum status st = selftest(&t);
    return st == STATUS_OK ? 0 : cli_fail(st);
}
