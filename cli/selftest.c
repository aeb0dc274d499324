/* ampscale selftest: does this installation compute what PyTorch computes? */
#include "runners/selftest.h"
#include "cli/cli.h"

#include <errno.h>

enum { KEY_ORACLE = 256, KEY_DEVICES, KEY_THREADS, KEY_QUICK, KEY_JSON };

static const struct argp_option options[] = {
    {"oracle", KEY_ORACLE, "FILE", 0, "Run the cases of FILE instead of the built-in ones", 0},
    {"devices", KEY_DEVICES, "cpu|ref|cuda:N", 0, "Device to check (default cpu)", 0},
    {"threads", KEY_THREADS, "N", 0, "Host threads (default: all cores)", 0},
    {"quick", KEY_QUICK, NULL, 0, "Leave out cases larger than 64 pixels", 0},
    {"quiet", 'q', NULL, 0, "One line per case, and each value that fails", 0},
    {"json", KEY_JSON, NULL, 0, "Print one JSON object with every value", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct selftest_config *c = state->input;
    int64_t n;
    switch (key) {
    case KEY_ORACLE:
        c->oracle = arg;
        return 0;
    case KEY_DEVICES:
        c->devices = arg;
        return 0;
    case KEY_THREADS:
        if (cli_int("--threads", arg, 1, 1024, &n) != STATUS_OK)
            return EINVAL;
        c->threads = (int)n;
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

int cmd_selftest(int argc, char **argv)
{
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .doc = "Computes known training steps and compares every value with PyTorch's.\v"
               "Exit status: 0 all values hold, 4 some do not, 5 the oracle file is missing or "
               "damaged."};
    struct selftest_config c = {.devices = "cpu", .verbose = true, .out = stdout};
    int exit_code;
    if (!cli_parse(&argp, argc, argv, &c, &exit_code))
        return exit_code;
    enum status st = selftest_run(&c);
    return st == STATUS_OK ? 0 : cli_fail(st);
}
