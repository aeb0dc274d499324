/* ampscale selftest: compares this installation's results with those of PyTorch; or compares
 * repeated training steps bit by bit; or compares operations with the reference backend. */
#include "verify/selftest.h"
#include "cli/cli.h"
#include "verify/determinism.h"
#include "verify/operations.h"

#include <string.h>

/* The values of the command line. */
struct selftest_command {
    struct selftest_config config;
    bool determinism, is_operations, list, quiet;
    struct bar bar;
    int repeats; /* 0: the default */
    struct operations_config operations;
    const char *worker;  /* the worker's folder; NULL: none */
    int every;           /* 0: the default */
    bool for_operations; /* a flag that needs --operations was given */
};

enum { NUMBER_MAX = 1 << 20 }; /* limit of a case's number, and of the number of parts */

/* Takes an injected fault and its case: "wrong=12", "crash=12", "hang=12". */
static enum status take_fault(const struct setting *s, const char *text, void *command)
{
    static const char *const name[] = {
        [COMPARISON_WRONG] = "wrong=", [COMPARISON_CRASH] = "crash=", [COMPARISON_HANG] = "hang="};
    struct comparison_fault *f = setting_member(s, command);
    int64_t number;
    for (int k = COMPARISON_WRONG; k <= COMPARISON_HANG; k++)
        if (strncmp(text, name[k], strlen(name[k])) == 0) {
            TRY(setting_integer(s->flag, text + strlen(name[k]), 0, NUMBER_MAX, &number));
            *f = (struct comparison_fault){(enum comparison_fault_kind)k, (int)number};
            return STATUS_OK;
        }
    return status_fail(STATUS_USAGE, "--inject '%s': use wrong=CASE, crash=CASE or hang=CASE",
                       text);
}

#define SETTINGS_OF struct selftest_command
static const struct setting selftest_settings[] = {
    {"oracle", 0, "FILE", NULL, "Run the cases of FILE instead of the built-in ones",
     AS_TEXT(config.oracle)},
    {"devices", 0, "cpu|ref|cuda:N", "cpu", "Device to check", AS_TEXT(config.devices)},
    {"threads", 0, "N", NULL,
     "Host threads (default: all cores; with --operations, 2 in each process)",
     AS_INTEGER(config.threads, 1, 1024)},
    {"conv-algorithm", 0, CONV_ALGORITHM_WORDS, "auto",
     "Algorithm of convolutions on a CPU, as in train", AS_CHOICE(config.conv_algorithm)},
    {"quick", 0, NULL, NULL,
     "Skip cases of images larger than 64 pixels; with --determinism, skip all networks except the "
     "smallest one",
     AS_SWITCH(config.quick)},
    {"determinism", 0, NULL, NULL,
     "Repeat training steps from the same state, and compare every bit of loss, gradients, weights "
     "and momentum",
     AS_SWITCH(determinism)},
    {"repeats", 0, "N", NULL,
     "With --determinism: number of times that each step is computed (default 3)",
     AS_INTEGER(repeats, 2, 1024)},
    {"operations", 0, NULL, NULL,
     "Compare operations with the reference on a table of cases, each kind of operation in its own "
     "process",
     AS_SWITCH(is_operations)},
    {"limit", 0, "S", NULL,
     "Seconds for all cases together; a case that will not fit is left out, and an unfinished kind "
     "of --operations is reported as late (default: no limit)",
     AS_INTEGER(config.limit_s, 1, 1 << 30)},
    JSON_ROW(config.json),
    QUIET_ROW(quiet),
    {"verbose", 'v', NULL, NULL,
     "After the summary, print all cases and values, not only the failures",
     AS_SWITCH(config.verbose)},
    {0},
};

/* The flags that need --operations. */
static const struct setting operations_settings[] = {
    {.group = 1, .help = "With --operations:"},
    {"only", 0, "TEXT", NULL, "Run only cases whose name contains TEXT",
     AS_TEXT(operations.worker.selection.only), GIVEN(for_operations)},
    {"without", 0, "TEXT", NULL, "Skip cases whose name contains TEXT; may be given several times",
     AS_LIST(operations.worker.selection.without, operations.worker.selection.n_without),
     GIVEN(for_operations)},
    {"every", 0, "N", NULL,
     "Run one in N problems, in all its layouts (default 1; with --sanitizer, 15)",
     AS_INTEGER(every, 1, NUMBER_MAX), GIVEN(for_operations)},
    {"share", 0, "K", "0", "With --every N: which of the N parts to run, counted from 0",
     AS_INTEGER(operations.worker.selection.share, 0, NUMBER_MAX), GIVEN(for_operations)},
    {"case", 0, "N", NULL, "Run only case N",
     AS_INTEGER(operations.worker.selection.number, 0, NUMBER_MAX), GIVEN(for_operations)},
    {"list", 0, NULL, NULL, "List the cases and run none", AS_SWITCH(list), GIVEN(for_operations)},
    {"isa", 0, "generic|avx2|avx512", NULL,
     "Use ampscale's CPU kernels for this instruction set (default: the best one of the processor)",
     AS_TEXT(operations.worker.isa), GIVEN(for_operations)},
    {"jobs", 0, "N", NULL,
     "Processes at a time, at most 12 (default: number of cores, on a GPU at most 6)",
     AS_INTEGER(operations.jobs, 1, OPERATIONS_JOBS_MAX), GIVEN(for_operations)},
    {"sanitizer", 0, "memcheck|racecheck|synccheck", NULL,
     "Run the processes under this tool of compute-sanitizer; only cases of ampscale's own kernels "
     "are run",
     AS_WORD(operations.sanitizer), GIVEN(for_operations)},
    {"worker", 0, "DIR", NULL, "Run the cases in this process, and keep plans in DIR",
     AS_TEXT(worker), GIVEN(for_operations), .traits = SETTING_HIDDEN},
    {"first", 0, "N", NULL, "Run only cases from number N on",
     AS_INTEGER(operations.worker.selection.first, 0, NUMBER_MAX), GIVEN(for_operations),
     .traits = SETTING_HIDDEN},
    {"kind", 0, "KIND", NULL, "Run only operations of this kind",
     AS_TEXT(operations.worker.selection.kind), GIVEN(for_operations), .traits = SETTING_HIDDEN},
    {"inject", 0, "FAULT", NULL, "Inject a fault, to test the detection", TAKEN_BY(take_fault),
     SETTING_AT(operations.worker.fault), GIVEN(for_operations), .traits = SETTING_HIDDEN},
    {0},
};

static enum status selection_without(struct selection *s, const char *text)
{
    if (s->n_without == SELECTION_WITHOUT_MAX)
        return status_fail(STATUS_USAGE,
                           "--without is given more than %d times, the last time with '%s'",
                           SELECTION_WITHOUT_MAX, text);
    s->without[s->n_without++] = text;
    return STATUS_OK;
}

static enum status selftest_operations(struct selftest_command *t)
{
    struct operations_config *o = &t->operations;
    struct selection *s = &o->worker.selection;
    if (t->determinism || t->config.oracle || t->config.quick || t->repeats)
        return status_fail(STATUS_USAGE, "--operations uses its own table of cases: leave out "
                                         "--oracle, --quick, --determinism and --repeats");
    o->worker.devices = t->config.devices;
    o->worker.threads = t->config.threads ? t->config.threads : 2;
    o->worker.conv_algorithm = t->config.conv_algorithm;
    o->json = t->config.json;
    o->verbose = t->config.verbose;
    o->bar = t->config.bar;
    o->limit_s = t->config.limit_s;
    o->out = t->config.out;
    s->depends_on_isa = o->worker.isa != NULL;
    s->every = t->every ? t->every : o->sanitizer ? 15 : 1;
    if (s->share >= s->every)
        return status_fail(STATUS_USAGE,
                           "--share %d: --every %d divides the cases into parts 0 to %d", s->share,
                           s->every, s->every - 1);
    if (t->worker)
        return worker_run(&o->worker, t->worker);
    if (o->sanitizer && s->number < 0) {
        TRY(selection_without(s, "conv_"));
        TRY(selection_without(s, "linear_"));
    }
    return t->list ? operations_list(o) : operations_run(o);
}

static enum status selftest(void *command)
{
    struct selftest_command *t = command;
    struct selftest_config *c = &t->config;
    t->bar = (struct bar){.out = bar_stream(t->quiet),
                          .title = t->is_operations ? "operations" : "cases"};
    c->bar = &t->bar;
    c->out = stdout;
    if (t->is_operations)
        return selftest_operations(t);
    if (t->for_operations)
        return status_fail(STATUS_USAGE, "a flag that needs --operations was given without it");
    if (t->determinism && c->oracle)
        return status_fail(STATUS_USAGE, "--determinism and --oracle exclude each other");
    if (!t->determinism && t->repeats)
        return status_fail(STATUS_USAGE, "--repeats needs --determinism");
    if (!t->determinism)
        return selftest_run(c);
    t->config.repeats = t->repeats ? t->repeats : 3;
    return determinism_run(c);
}

const struct cli_command cmd_selftest = {
    .name = "selftest",
    .summary = "check this installation against known values",
    .doc =
        "Computes known training steps and compares every value with PyTorch's; or repeats steps "
        "and compares every bit; or compares operations with the reference.\vExit status: 0 if all "
        "values agree, 1 if a case ended with an error or an operation's process crashed, 4 if "
        "some values do not agree or, with --operations, an operation failed for another reason "
        "than lack of memory, 5 if the oracle file is missing or damaged, if the device or "
        "the sanitizer is missing, or if cases were left out or none could run.",
    .example = {{"Check this installation: seconds", "ampscale selftest --quick"},
                {"Look for silent data corruption: five repeats, every bit compared",
                 "ampscale selftest --determinism --repeats 5"},
                {"Compare every operation of a GPU with the reference (needs a GPU)",
                 "ampscale selftest --operations --devices cuda:0"}},
    .part = {{selftest_settings}, {operations_settings}},
    .prints = true,
    .config = &(struct selftest_command){.operations.worker.selection.number = -1},
    .work = selftest};
