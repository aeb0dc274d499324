/* ampscale plot: pictures of one or more runs, from their records alone. */
#include "plots/plot.h"

#include "base/file.h"
#include "cli/cli.h"
#include "plots/overlap.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { KEY_OUT = 256, KEY_FORMAT, KEY_TITLE, KEY_EMA };

static const struct argp_option options[] = {
    {"out", KEY_OUT, "DIR", 0, "Folder of the pictures (default: RUN/plots, for a single run)", 0},
    {"format", KEY_FORMAT, "png|svg", 0, "One of the two, or png,svg (default: both)", 0},
    {"title", KEY_TITLE, "TEXT", 0, "Put in front of each figure's own title", 0},
    {"ema", KEY_EMA, "A", 0,
     "Smooth curves against epochs by a moving average with weight A on the past (default 0)", 0},
    {0},
};

struct plot_config {
    const char *dir[PLOT_MAX_RUNS];
    int n;
    const char *out; /* NULL: none was given */
    struct plot_options options;
};

/* Takes "png", "svg" or both with a comma between them. */
static enum status parse_formats(const char *list, struct plot_options *o)
{
    o->png = o->svg = false;
    for (const char *word = list;; word++) {
        size_t len = strcspn(word, ",");
        if (len == 3 && strncmp(word, "png", 3) == 0)
            o->png = true;
        else if (len == 3 && strncmp(word, "svg", 3) == 0)
            o->svg = true;
        else
            return status_fail(STATUS_USAGE, "--format '%s': give png, svg or png,svg", list);
        word += len;
        if (*word == '\0')
            return STATUS_OK;
    }
}

static enum status add_run(struct plot_config *c, const char *dir)
{
    if (c->n == PLOT_MAX_RUNS)
        return status_fail(STATUS_USAGE, "more than %d runs in one drawing, from '%s' on",
                           PLOT_MAX_RUNS, dir);
    c->dir[c->n++] = dir;
    return STATUS_OK;
}

/* A run is a folder, a benchmark's record a file. */
static bool is_record(const char *path)
{
    return path_exists(path) && !path_is_dir(path);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct plot_config *c = state->input;
    enum status st = STATUS_OK;
    switch (key) {
    case KEY_OUT:
        c->out = arg;
        break;
    case KEY_FORMAT:
        st = parse_formats(arg, &c->options);
        break;
    case KEY_TITLE:
        c->options.title = arg;
        break;
    case KEY_EMA:
        st = cli_double("--ema", arg, 0, 0.999, &c->options.ema);
        break;
    case ARGP_KEY_ARG:
        st = add_run(c, arg);
        break;
    case ARGP_KEY_END:
        if (c->n == 0)
            st = status_fail(STATUS_USAGE, "no run to draw: give the folder of one");
        else if (c->n > 1 && !c->out)
            st = status_fail(STATUS_USAGE, "several runs and nowhere to draw them: give --out DIR");
        else if (is_record(c->dir[0]) && !c->out)
            st = status_fail(STATUS_USAGE, "a record and nowhere to draw it: give --out DIR");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return st == STATUS_OK ? 0 : EINVAL;
}

static enum status draw(const struct plot_config *c)
{
    enum status st;
    char out[4096];
    struct run *run[PLOT_MAX_RUNS] = {NULL};
    if (c->n == 1 && is_record(c->dir[0]))
        return plot_overlap(c->dir[0], c->out, &c->options);
    for (int i = 0; i < c->n; i++)
        CHECK(run_load(c->dir[i], &run[i]));
    CHECK(
        path_format(out, sizeof out, "%s%s", c->out ? c->out : c->dir[0], c->out ? "" : "/plots"));
    CHECK(plot_runs((const struct run *const *)run, c->n, out, &c->options));
done:
    for (int i = 0; i < c->n; i++)
        run_free(run[i]);
    return st;
}

int cmd_plot(int argc, char **argv)
{
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .args_doc = "FILE\nRUN...",
        .doc =
            "Draws runs: accuracy, loss, learning rate, loss scale, throughput, storage, the "
            "parts of a step and of each rank's. RUN is the folder of 'ampscale train --out'; FILE "
            "is a record of 'ampscale bench overlap --json'. "
            "Prints the files it has written; gnuplot's scripts and tables stay in DIR/data.",
    };
    struct plot_config c = {
        .options = {.png = true, .svg = true, .written = stdout, .left_out = stderr}};
    int exit_code;
    if (!cli_parse(&argp, argc, argv, &c, &exit_code))
        return exit_code;
    enum status st = draw(&c);
    return st == STATUS_OK ? 0 : cli_fail(st);
}
