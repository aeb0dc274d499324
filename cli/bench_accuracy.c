/* ampscale bench accuracy: a training at each precision, compared with recorded runs. */
#include "bench/accuracy.h"

#include "base/process.h"
#include "cli/bench_commands.h"
#include "cli/cli.h"
#include "model/policy.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

enum { KEY_PRECISIONS = 256, KEY_QUICK, KEY_BUDGET, KEY_OUT, KEY_RECORDED, KEY_PRINT };

static const struct argp_option options[] = {
    {"precisions", KEY_PRECISIONS, "P,...", 0,
     "Precisions, as train has them (default fp32,O1,bf16,tf32,O2)", 0},
    {"quick", KEY_QUICK, 0, 0,
     "A training of seconds; without --recorded it is compared with nothing", 0},
    {"budget", KEY_BUDGET, "S", 0, "End within S seconds with the rows that there are by then", 0},
    {"out", KEY_OUT, "DIR", 0,
     "Folder for accuracy.json, replaced after each training, and the runs", 0},
    {"recorded", KEY_RECORDED, "DIR", 0,
     "Compare with the runs in DIR (default: those that the program was built with)", 0},
    {"print-reference", KEY_PRINT, 0, 0, "Print what is compared with, as JSON, and end", 0},
    {0},
};

struct accuracy_args {
    struct bench_common common;
    struct accuracy_config config;
    const char *precisions;
    bool print;
};

static error_t parse_accuracy(int key, char *arg, struct argp_state *state)
{
    struct accuracy_args *a = state->input;
    struct accuracy_config *c = &a->config;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->common;
        return 0;
    case KEY_PRECISIONS:
        a->precisions = arg;
        return 0;
    case KEY_QUICK:
        c->quick = true;
        return 0;
    case KEY_BUDGET:
        return cli_double("--budget", arg, 1, 1e6, &c->budget_s) == STATUS_OK ? 0 : EINVAL;
    case KEY_OUT:
        c->out = arg;
        return 0;
    case KEY_RECORDED:
        c->recorded = arg;
        return 0;
    case KEY_PRINT:
        a->print = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static enum status take_precisions(const char *list, struct accuracy_config *c)
{
    for (const char *at = list; *at || at == list; at += strcspn(at, ",")) {
        struct policy known;
        at += *at == ',';
        size_t n = strcspn(at, ",");
        if (c->n_rows == ACCURACY_ROWS_MAX || n >= sizeof *c->precision)
            return status_fail(STATUS_USAGE, "--precisions '%s': too many, or a long name", list);
        char *name = c->precision[c->n_rows++];
        memcpy(name, at, n);
        name[n] = '\0';
        if (policy_find(name, -1, &known) != STATUS_OK)
            return status_fail(
                STATUS_USAGE, "--precisions '%s': give fp32, tf32, amp or bf16, or O0 to O3", name);
    }
    return STATUS_OK;
}

static enum status run_accuracy(struct accuracy_args *a)
{
    char program[PATH_MAX];
    struct accuracy_config *c = &a->config;
    if (a->print)
        return accuracy_print_reference(c);
    TRY(bench_host_devices(a->common.devices));
    TRY(take_precisions(a->precisions, c));
    TRY(process_own_file(program, sizeof program));
    c->program = program;
    c->devices = a->common.devices;
    c->threads = a->common.threads;
    c->json = a->common.json;
    return bench_accuracy(c);
}

int cmd_bench_accuracy(int argc, char **argv)
{
    static const struct argp_child children[] = {{&bench_common_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        .options = options,
        .parser = parse_accuracy,
        .children = children,
        .doc = "Trains the quickstart's network at each precision, each in a process of its own, "
               "and compares the accuracy with that of recorded runs on a CPU.\v"
               "Exit status: 0 all are right, 1 failed or stopped by a signal, 2 wrong usage, 4 an "
               "accuracy is out of its range, 5 a precision has no result."};
    struct accuracy_args a = {.common = bench_common_default(),
                              .precisions = "fp32,O1,bf16,tf32,O2",
                              .config = {.stream = stdout}};
    int exit_code;
    if (!cli_parse(&argp, argc, argv, &a, &exit_code))
        return exit_code;
    enum status st = run_accuracy(&a);
    return st == STATUS_OK ? 0 : cli_fail(st);
}
