/* From runs to pictures: names the runs, lets each figure write its tables, runs gnuplot. */
#include "plots/plot.h"

#include "plots/figure.h"
#include "plots/labels.h"
#include "plots/series.h"
#include "results/text.h"

#include <math.h>
#include <stdlib.h>

/* The templates of plots/templates, compiled in. */
extern const unsigned char plot_curves[], plot_lr[], plot_throughput[], plot_io[], plot_split[],
    plot_loss_scale[], plot_ranks[], plot_telemetry[];

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
    {.name = "loss_scale",
     .title = "Loss scale",
     .script = plot_loss_scale,
     .prepare = figure_loss_scale},
    {.name = "throughput",
     .title = "Training throughput",
     .script = plot_throughput,
     .prepare = figure_throughput},
    {.name = "io", .title = "Storage and decoding", .script = plot_io, .prepare = figure_io},
    {.name = "split",
     .title = "Parts of the median step",
     .script = plot_split,
     .prepare = figure_split},
    {.name = "telemetry",
     .title = "Power, heat and clocks",
     .script = plot_telemetry,
     .prepare = figure_telemetry},
    {.name = "ranks",
     .title = "Parts of each rank's mean step",
     .script = plot_ranks,
     .prepare = figure_ranks},
};
enum { N_FIGURES = sizeof figures / sizeof *figures };

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

/* One line for all of them: most runs lack something. */
static void say_left_out(const bool some[], FILE *out)
{
    const char *before = "Skipped, no data: ";
    for (int k = 0; out && k < N_FIGURES; k++) {
        if (some[k])
            continue;
        fprintf(out, "%s%s", before, figures[k].name);
        before = ", ";
    }
    if (out && *before == ',')
        fputc('\n', out);
}

static enum status figures_make(const struct drawing *d, const char *out)
{
    bool some[N_FIGURES], any = false;
    for (int k = 0; k < N_FIGURES; k++) {
        TRY(figure_remove(&figures[k], out));
        TRY(figure_write(d, &figures[k], &some[k]));
        any = any || some[k];
    }
    if (!any)
        return status_fail(STATUS_DATA, "nothing to draw: no run has finished a step yet");
    for (int k = 0; k < N_FIGURES; k++) {
        if (some[k])
            TRY(figure_draw(d, &figures[k], out));
    }
    say_left_out(some, d->options->left_out);
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
    for (int i = 0; options->names && i < n; i++)
        text_clean(label[i], sizeof label[i], options->names[i]);
    for (int i = 0; i < n; i++)
        TRY(pause_that_shows(runs[i], &d.gap_s[i]));
    TRY(path_format(d.data, sizeof d.data, "%s/data", out));
    TRY(dir_make(d.data));
    return figures_make(&d, out);
}
