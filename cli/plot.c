/* ampscale plot: pictures of one or more runs, from their records alone. */
#include "plots/plot.h"

#include "base/file.h"
#include "cli/cli.h"
#include "plots/record.h"
#include "plots/study.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { KEY_OUT = 256, KEY_FORMAT, KEY_TITLE, KEY_EMA, KEY_PUBLISHED };

enum { PUBLISHED_MAX = 8 };

static const struct argp_option options[] = {
    {"out", KEY_OUT, "DIR", 0,
     "Folder of the pictures (default: RUN/plots, for a single run or study)", 0},
    {"format", KEY_FORMAT, "png|svg", 0, "One of the two, or png,svg (default: both)", 0},
    {"title", KEY_TITLE, "TEXT", 0, "Put in front of each figure's own title", 0},
    {"ema", KEY_EMA, "A", 0,
     "Smooth curves against epochs by a moving average with weight A on the past (default 0)", 0},
    {"published", KEY_PUBLISHED, "FILE:SERIES", 0,
     "Draw a series of a published table beside a study; may be given several times", 0},
    {0},
};

struct plot_config {
    const char *dir[PLOT_MAX_RUNS];
    int n;
    const char *out; /* NULL: none was given */
    const char *published[PUBLISHED_MAX];
    int n_published;
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

static enum status add_published(struct plot_config *c, const char *series)
{
    if (c->n_published == PUBLISHED_MAX)
        return status_fail(STATUS_USAGE, "more than %d published series, from '%s' on",
                           PUBLISHED_MAX, series);
    c->published[c->n_published++] = series;
    return STATUS_OK;
}

/* A run is a folder, a record a file. */
static bool is_record(const char *path)
{
    return path_exists(path) && !path_is_dir(path);
}

/* A folder or a file of `ampscale study`. */
static bool is_study(const char *path)
{
    char inside[4096];
    const char *name = strrchr(path, '/');
    name = name ? name + 1 : path;
    if (is_record(path))
        return strcmp(name, ANALYSIS_FILE) == 0;
    snprintf(inside, sizeof inside, "%s/" ANALYSIS_FILE, path);
    return is_record(inside);
}

static enum status check_config(const struct plot_config *c)
{
    if (c->n == 0)
        return status_fail(STATUS_USAGE, "no run to draw: give the folder of one");
    if (c->n > 1 && !c->out)
        return status_fail(STATUS_USAGE, "several runs and nowhere to draw them: give --out DIR");
    if (is_record(c->dir[0]) && !c->out)
        return status_fail(STATUS_USAGE, "a record and nowhere to draw it: give --out DIR");
    if (c->n_published > 0 && !is_study(c->dir[0]))
        return status_fail(STATUS_USAGE, "'%s' is no study: --published goes with one", c->dir[0]);
    if (c->n > 1 && is_study(c->dir[0]))
        return status_fail(STATUS_USAGE, "'%s' and more: studies are drawn one at a time",
                           c->dir[0]);
    return STATUS_OK;
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
    case KEY_PUBLISHED:
        st = add_published(c, arg);
        break;
    case ARGP_KEY_ARG:
        st = add_run(c, arg);
        break;
    case ARGP_KEY_END:
        st = check_config(c);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return st == STATUS_OK ? 0 : EINVAL;
}

/* "FILE.csv:SERIES" as the series alone; the caller frees `set`. */
static enum status load_published(const char *arg, struct published *set,
                                  const struct published_series **series)
{
    char path[4096];
    const char *colon = strrchr(arg, ':');
    if (!colon)
        return status_fail(STATUS_USAGE, "--published '%s': give FILE:SERIES", arg);
    TRY(path_format(path, sizeof path, "%.*s", (int)(colon - arg), arg));
    TRY(published_load(path, set));
    return published_find(set, colon + 1, series);
}

/* The cell whose run shows a series: its largest that has one. NULL: none has. */
static const struct analysis_cell *cell_of(const struct analysis *a, int64_t series)
{
    const struct analysis_series *s = &a->series[series];
    for (int64_t k = s->n - 1; k >= 0; k--)
        if (a->cell[s->cell[k]].missing[0] == '\0')
            return &a->cell[s->cell[k]];
    return NULL;
}

/* Curves of a study's runs: the first repeat of each series' largest cell, as far as they are in
 * the study's folder. */
static enum status draw_cells(const struct plot_config *c, const struct analysis *a,
                              const char *out)
{
    enum status st = STATUS_OK;
    struct run *run[PLOT_MAX_RUNS] = {NULL};
    const char *name[PLOT_MAX_RUNS];
    struct plot_options o = c->options;
    char dir[4096];
    int n = 0;
    for (int64_t i = 0; i < a->n_series && n < PLOT_MAX_RUNS; i++) {
        const struct analysis_cell *cell = cell_of(a, i);
        if (!cell || strchr(cell->name, '/') || (n > 0 && name[n - 1] == cell->name))
            continue;
        CHECK(path_format(dir, sizeof dir, "%s/cells/%s/r1", c->dir[0], cell->name));
        if (!path_is_dir(dir))
            continue;
        CHECK(run_load(dir, &run[n]));
        name[n++] = cell->name;
    }
    o.names = name;
    if (n > 0)
        CHECK(plot_runs((const struct run *const *)run, n, out, &o));
done:
    for (int i = 0; i < n; i++)
        run_free(run[i]);
    return st;
}

static enum status draw_study(const struct plot_config *c, const char *out)
{
    enum status st;
    struct analysis a = {.n_cells = 0};
    struct published set[PUBLISHED_MAX] = {{.n = 0}};
    const struct published_series *series[PUBLISHED_MAX];
    CHECK(analysis_read(c->dir[0], &a));
    for (int i = 0; i < c->n_published; i++)
        CHECK(load_published(c->published[i], &set[i], &series[i]));
    CHECK(plot_study(&a, series, c->n_published, out, &c->options));
    CHECK(draw_cells(c, &a, out));
done:
    for (int i = 0; i < c->n_published; i++)
        published_free(&set[i]);
    analysis_free(&a);
    return st;
}

static enum status draw_runs(const struct plot_config *c, const char *out)
{
    enum status st;
    struct run *run[PLOT_MAX_RUNS] = {NULL};
    for (int i = 0; i < c->n; i++)
        CHECK(run_load(c->dir[i], &run[i]));
    CHECK(plot_runs((const struct run *const *)run, c->n, out, &c->options));
done:
    for (int i = 0; i < c->n; i++)
        run_free(run[i]);
    return st;
}

static enum status draw(const struct plot_config *c)
{
    char out[4096];
    TRY(path_format(out, sizeof out, "%s%s", c->out ? c->out : c->dir[0], c->out ? "" : "/plots"));
    if (is_study(c->dir[0]))
        return draw_study(c, out);
    if (c->n == 1 && is_record(c->dir[0]))
        return plot_record(c->dir[0], out, &c->options);
    return draw_runs(c, out);
}

int cmd_plot(int argc, char **argv)
{
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .args_doc = "FILE\nRUN...",
        .doc =
            "Draws runs: accuracy, loss, learning rate, loss scale, throughput, storage, the "
            "parts of a step and of each rank's. RUN is the folder of 'ampscale train --out', or "
            "that of a study, whose figures are throughput, time, efficiency and accuracy against "
            "devices. FILE is an analysis.json, or a record of 'ampscale bench overlap --json' or "
            "'ampscale predict --json'. "
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
