/* ampscale export: records in the formats of other programs. */
#include "export/export.h"

#include "base/stop.h"
#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_FORMAT = 256, KEY_DIVISION };

static const struct argp_option options[] = {
    {"format", KEY_FORMAT, "tensorboard|mlperf|prometheus|csv|superbench", 0,
     "What to write; required", 0},
    {"out", 'o', "FILE|DIR", 0,
     "Where to write it; required. A folder for tensorboard and csv, else a file", 0},
    {"division", KEY_DIVISION, "open|closed", 0,
     "mlperf: the division whose rules the log is checked by (default open)", 0},
    {0},
};

struct export_config {
    char **dir; /* of the runs; in argv */
    int n;
    bool chosen; /* a format was */
    struct export_options options;
};

static enum status parse_format(const char *word, struct export_config *c)
{
    for (int f = 0; f < EXPORT_FORMATS; f++) {
        if (strcmp(word, export_format_str(f)) != 0)
            continue;
        c->options.format = f;
        c->chosen = true;
        return STATUS_OK;
    }
    return status_fail(STATUS_USAGE,
                       "--format '%s': give tensorboard, mlperf, prometheus, csv or superbench",
                       word);
}

static enum status parse_division(const char *word, struct export_config *c)
{
    c->options.closed = strcmp(word, "closed") == 0;
    if (!c->options.closed && strcmp(word, "open") != 0)
        return status_fail(STATUS_USAGE, "--division '%s': give open or closed", word);
    return STATUS_OK;
}

static enum status check(const struct export_config *c)
{
    if (c->n == 0)
        return status_fail(STATUS_USAGE, "no run to export: give the folder of one");
    if (!c->chosen)
        return status_fail(STATUS_USAGE, "no format: give --format tensorboard, mlperf, "
                                         "prometheus, csv or superbench");
    if (!c->options.out)
        return status_fail(STATUS_USAGE, "nowhere to export to: give -o FILE, or -o DIR");
    return STATUS_OK;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct export_config *c = state->input;
    enum status st = STATUS_OK;
    switch (key) {
    case KEY_FORMAT:
        st = parse_format(arg, c);
        break;
    case 'o':
        c->options.out = arg;
        break;
    case KEY_DIVISION:
        st = parse_division(arg, c);
        break;
    case ARGP_KEY_ARGS:
        c->dir = state->argv + state->next;
        c->n = state->argc - state->next;
        break;
    case ARGP_KEY_END:
        st = check(c);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return st == STATUS_OK ? 0 : EINVAL;
}

static enum status load_and_export(const struct export_config *c)
{
    enum status st = STATUS_OK;
    struct run **run = calloc((size_t)c->n, sizeof *run);
    if (!run)
        return status_fail(STATUS_OOM, "no memory for %d runs", c->n);
    for (int i = 0; i < c->n; i++) {
        CHECK(run_load(c->dir[i], &run[i]));
        CHECK(stop_check());
    }
    CHECK(export_runs((const struct run *const *)run, c->n, &c->options));
done:
    for (int i = 0; i < c->n; i++)
        run_free(run[i]);
    free(run);
    return st;
}

int cmd_export(int argc, char **argv)
{
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .args_doc = "RUN...",
        .doc = "Writes the records of runs for other programs: TensorBoard's event files, MLPerf's "
               ":::MLLOG lines, a textfile for Prometheus, CSV tables, SuperBench's results "
               "summary. RUN is the folder of 'ampscale train --out'. Prints the files it has "
               "written.",
    };
    struct export_config c = {.options = {.written = stdout, .go_on = stop_check}};
    int exit_code;
    if (!cli_parse(&argp, argc, argv, &c, &exit_code))
        return exit_code;
    stop_install(); /* what is half written is removed */
    enum status st = load_and_export(&c);
    return st == STATUS_OK ? 0 : cli_fail(st);
}
