/* ampscale selftest: does this installation compute what PyTorch computes, and the same bits each
 * time? */
#include "runners/selftest.h"
#include "cli/cli.h"
#include "runners/determinism.h"

#include <errno.h>

enum {
    KEY_ORACLE = 256,
    KEY_DEVICES,
    KEY_THREADS,
    KEY_QUICK,
    KEY_JSON,
    KEY_DETERMINISM,
    KEY_REPEATS
};

static const struct argp_option options[] = {
    {"oracle", KEY_ORACLE, "FILE", 0, "Run the cases of FILE instead of the built-in ones", 0},
    {"devices", KEY_DEVICES, "cpu|ref|cuda:N", 0, "Device to check (default cpu)", 0},
    {"threads", KEY_THREADS, "N", 0, "Host threads (default: all cores)", 0},
    {"quick", KEY_QUICK, NULL, 0,
     "Leave out cases larger than 64 pixels, or all networks but the smallest", 0},
    {"determinism", KEY_DETERMINISM, NULL, 0,
     "Repeat training steps from the same state instead, and compare every bit of loss, gradients, "
     "weights and momentum",
     0},
    {"repeats", KEY_REPEATS, "N", 0,
     "With --determinism: times that a step is computed (default 3)", 0},
    {"quiet", 'q', NULL, 0, "One line per case, and each value that fails", 0},
    {"json", KEY_JSON, NULL, 0, "Print one JSON object with every value", 0},
    {0},
};

/* What the command line says. */
struct selftest_command {
    struct selftest_config config;
    bool determinism;
    int repeats; /* 0: the usual number */
};

static enum status parse_count(const char *flag, const char *arg, int min, int *out)
{
    int64_t n = 0;
    enum status st = cli_int(flag, arg, min, 1024, &n);
    *out = (int)n;
    return st;
}

static error_t parse(int key, char *arg, struct argp_state *state)
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
        return parse_count("--threads", arg, 1, &c->threads) == STATUS_OK ? 0 : EINVAL;
    case KEY_REPEATS:
        return parse_count("--repeats", arg, 2, &t->repeats) == STATUS_OK ? 0 : EINVAL;
    case KEY_DETERMINISM:
        t->determinism = true;
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
        return ARGP_ERR_UNKNOWN;
    }
}

static enum status selftest(const struct selftest_command *t)
{
    const struct selftest_config *c = &t->config;
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
        .parser = parse,
        .doc = "Computes known training steps and compares every value with PyTorch's; or repeats "
               "steps, and compares every bit.\v"
               "Exit status: 0 all values hold, 4 some do not, 5 the oracle file is missing or "
               "damaged."};
    struct selftest_command t = {.config = {.devices = "cpu", .verbose = true, .out = stdout}};
    int exit_code;
    if (!cli_parse(&argp, argc, argv, &t, &exit_code))
        return exit_code;
    enum status st = selftest(&t);
    return st == STATUS_OK ? 0 : cli_fail(st);
}
