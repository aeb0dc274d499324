/* ampscale report: RESULTS.md and an HTML page from records. */
#include "report/report.h"
#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>

enum { KEY_HTML = 256, KEY_NO_FIGURES, DIRS_MAX = 64 };

static const struct argp_option options[] = {
    {"out", 'o', "FILE", 0, "Markdown to write, for example RESULTS.md", 0},
    {"html", KEY_HTML, "FILE", 0, "HTML page to write, with the pictures in it", 0},
    {"no-figures", KEY_NO_FIGURES, 0, 0, "Draw nothing; show the figures that are there", 0},
    {0},
};

struct arguments {
    struct report_config config;
    const char *dir[DIRS_MAX];
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct arguments *a = state->input;
    struct report_config *c = &a->config;
    enum status st = STATUS_OK;
    switch (key) {
    case 'o':
        c->markdown = arg;
        break;
    case KEY_HTML:
        c->html = arg;
        break;
    case KEY_NO_FIGURES:
        c->draw = false;
        break;
    case ARGP_KEY_ARG:
        if (c->n == DIRS_MAX)
            st = status_fail(STATUS_USAGE, "more than %d folders", DIRS_MAX);
        else
            a->dir[c->n++] = arg;
        break;
    case ARGP_KEY_END:
        if (!c->markdown && !c->html)
            st = status_fail(STATUS_USAGE, "nothing to write: give -o FILE, --html FILE or both");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return st == STATUS_OK ? 0 : EINVAL;
}

int cmd_report(int argc, char **argv)
{
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .args_doc = "[DIR...]",
        .doc = "Writes what records come to: machines, tables, figures, findings in words, and the "
               "commands that make them again. DIR holds studies, runs or records of bench "
               "(default results/recorded); records in one folder are of one machine. The "
               "same records give the same bytes."};
    struct arguments a = {.config = {.draw = true, .said = stderr}};
    int exit_code;
    if (!cli_parse(&argp, argc, argv, &a, &exit_code))
        return exit_code;
    if (a.config.n == 0)
        a.dir[a.config.n++] = "results/recorded";
    a.config.dir = a.dir;
    enum status st = report_make(&a.config);
    return st == STATUS_OK ? 0 : cli_fail(st);
}
