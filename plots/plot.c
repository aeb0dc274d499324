/* From runs to pictures: names the runs, lets each figure write its tables, runs gnuplot. */
#include "plots/plot.h"

#include "plots/figure.h"
#include "plots/gnuplot.h"
#include "plots/labels.h"
#include "plots/series.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The templates of plots/templates, compiled in. */
extern const unsigned char plot_style[], plot_curves[], plot_lr[], plot_throughput[], plot_io[],
    plot_split[];

/* A figure of curves draws train_<name> and val_<name> of epochs, and <name> of steps. */
#define CURVES(n, title_text, unit_text)                                                           \
    {                                                                                              \
        .name = #n, .title = title_text, .unit = unit_text, .script = plot_curves,                 \
        .prepare = figure_curves, .train = offsetof(struct epoch_record, train_##n),               \
        .val = offsetof(struct epoch_record, val_##n), .step = offsetof(struct step_record, n)     \
    }

static const struct figure figures[] = {
    CURVES(loss, "Loss", "cross-entropy"),
    CURVES(top1, "Top-1 accuracy", "%"),
    CURVES(top5, "Top-5 accuracy", "%"),
    {.name = "lr", .title = "Learning rate", .script = plot_lr, .prepare = figure_lr},
    {.name = "throughput",
     .title = "Training throughput",
     .script = plot_throughput,
     .prepare = figure_throughput},
    {.name = "io", .title = "Storage and decoding", .script = plot_io, .prepare = figure_io},
    {.name = "split",
     .title = "Parts of the median step",
     .script = plot_split,
     .prepare = figure_split},
};
enum { N_FIGURES = sizeof figures / sizeof *figures, N_FORMATS = 2 };

static const char *const formats[N_FORMATS] = {"png", "svg"};

static bool wanted(const struct plot_options *o, int format)
{
    return format == 0 ? o->png : o->svg;
}

/* A pause shows when it is longer than two median steps, and wide enough to be seen at all. */
static enum status pause_that_shows(const struct run *run, double *gap_s)
{
    double median;
    double *total = malloc((size_t)(run->n_steps + 1) * sizeof *total);
    if (!total)
        return status_fail(STATUS_OOM, "no memory for the steps of '%s'", run->dir);
    for (int64_t k = 0; k < run->n_steps; k++)
        total[k] = run->step[k].total_s;
    enum status st = series_quantile(total, run->n_steps, 0.5, &median);
    *gap_s = fmax(2 * median, 0.005 * run->elapsed);
    free(total);
    return st;
}

/* What every script knows: figure, title, formats, and the runs' labels. */
static void write_common(const struct drawing *d, const struct figure *f, FILE *script)
{
    char title[512];
    const char *own = d->options->title;
    snprintf(title, sizeof title, "%s%s%s", own ? own : "", own ? " \u2013 " : "", f->title);
    fprintf(script, "# %s. Draw again: gnuplot %s.gp in this folder.\n", f->title, f->name);
    figure_set_text(script, "figure", f->name);
    figure_set_text(script, "figure_title", title);
    figure_set_text(script, "quantity", f->title);
    figure_set_text(script, "unit", f->unit ? f->unit : "");
    fputs("formats = '", script);
    for (int k = 0; k < N_FORMATS; k++)
        if (wanted(d->options, k))
            fprintf(script, "%s ", formats[k]);
    fputs("'\n", script);
    figure_set(script, "ema", d->options->ema);
    fprintf(script, "array legend[%d]\n", d->n);
    for (int i = 0; i < d->n; i++) {
        char name[32];
        snprintf(name, sizeof name, "legend[%d]", i + 1);
        figure_set_text(script, name, d->label[i]);
    }
}

/* Writes "<data>/<figure>.gp" with its tables; *some as figure.prepare gives it. */
static enum status figure_write(const struct drawing *d, const struct figure *f, bool *some)
{
    enum status st;
    char path[4096];
    struct atomic_file script = {0};
    *some = false;
    CHECK(path_format(path, sizeof path, "%s/%s.gp", d->data, f->name));
    CHECK(atomic_file_open(&script, path));
    write_common(d, f, script.stream);
    CHECK(f->prepare(d, f, script.stream, some));
    fprintf(script.stream, "\n%s\n%s", (const char *)plot_style, (const char *)f->script);
    if (*some)
        CHECK(atomic_file_commit(&script));
done:
    atomic_file_abandon(&script);
    return st;
}

/* Removes the figure's earlier pictures, so that none outlives what it shows. */
static enum status pictures_remove(const char *out, const struct figure *f)
{
    for (int k = 0; k < N_FORMATS; k++) {
        char path[4096];
        TRY(path_format(path, sizeof path, "%s/%s.%s", out, f->name, formats[k]));
        if (unlink(path) != 0 && errno != ENOENT)
            return status_fail(STATUS_IO, "cannot replace '%s': %s", path, strerror(errno));
    }
    return STATUS_OK;
}

static enum status figure_draw(const struct drawing *d, const struct figure *f, const char *out)
{
    char path[4096];
    snprintf(path, sizeof path, "%s.gp", f->name);
    TRY(gnuplot_run(d->data, path));
    for (int k = 0; k < N_FORMATS; k++) {
        if (!wanted(d->options, k))
            continue;
        TRY(path_format(path, sizeof path, "%s/%s.%s", out, f->name, formats[k]));
        TRY(gnuplot_check_picture(path));
        if (d->options->written)
            fprintf(d->options->written, "%s\n", path);
    }
    return STATUS_OK;
}

static enum status figures_make(const struct drawing *d, const char *out)
{
    bool some[N_FIGURES], any = false;
    for (int k = 0; k < N_FIGURES; k++) {
        TRY(pictures_remove(out, &figures[k]));
        TRY(figure_write(d, &figures[k], &some[k]));
        any = any || some[k];
    }
    if (!any)
        return status_fail(STATUS_DATA, "nothing to draw: no run has finished a step yet");
    for (int k = 0; k < N_FIGURES; k++) {
        if (some[k])
            TRY(figure_draw(d, &figures[k], out));
        else if (d->options->left_out)
            fprintf(d->options->left_out, "%s: left out, no run has anything to show\n",
                    figures[k].name);
    }
    return STATUS_OK;
}

enum status plot_runs(const struct run *const *runs, int n, const char *out,
                      const struct plot_options *options)
{
    if (n < 1 || n > PLOT_MAX_RUNS)
        return status_fail(STATUS_USAGE, "%d runs in one drawing: give 1 to %d", n, PLOT_MAX_RUNS);
    if (!(options->png || options->svg) || !(options->ema >= 0 && options->ema < 1))
        return status_fail(STATUS_INVALID, "a drawing without a format, or with an average of %g",
                           options->ema);
    char label[PLOT_MAX_RUNS][FIGURE_LABEL_MAX];
    struct drawing d = {.run = runs, .n = n, .options = options, .label = label};
    labels_make(runs, n, label);
    for (int i = 0; i < n; i++)
        TRY(pause_that_shows(runs[i], &d.gap_s[i]));
    TRY(path_format(d.data, sizeof d.data, "%s/data", out));
    TRY(dir_make(d.data));
    return figures_make(&d, out);
}
