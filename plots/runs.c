/* Draws runs: names the runs, lets each figure write its tables, and runs gnuplot. */
#include "base/array.h"
#include "base/text.h"
#include "plots/figure.h"
#include "plots/series.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The templates of plots/templates, compiled in. */
extern const unsigned char plot_curves[], plot_lr[], plot_throughput[], plot_io[], plot_split[],
    plot_loss_scale[], plot_ranks[], plot_telemetry[], plot_time_to_accuracy[];

/* A figure that draws the members train_<name> and val_<name> of epoch records, and the member
 * <name> of step records. */
#define CURVES(n, title_text, unit_text)                                                           \
    {                                                                                              \
        .name = #n, .title = title_text, .unit = unit_text, .script = plot_curves,                 \
        .prepare = figure_curves, .train = offsetof(struct epoch_record, train_##n),               \
        .val = offsetof(struct epoch_record, val_##n), .step = offsetof(struct step_record, n),    \
        .fits_half = true                                                                          \
    }

/* A figure with the curves of training only (pass is `train`) or of validation only (`val`). In a
 * figure of both, the curves of many runs could not be distinguished. */
#define CURVE(n, pass, title_text)                                                                 \
    {                                                                                              \
        .name = #n "_" #pass, .title = title_text, .unit = "%", .script = plot_curves,             \
        .prepare = figure_curves, .pass = offsetof(struct epoch_record, pass##_##n),               \
        .step = offsetof(struct step_record, n), .fits_half = true                                 \
    }

#define FIGURE(n, title_text, half)                                                                \
    {                                                                                              \
        .name = #n, .title = title_text, .script = plot_##n, .prepare = figure_##n,                \
        .fits_half = (half)                                                                        \
    }

static const struct figure figures[] = {
    CURVES(loss, "Loss", "cross-entropy"),
    CURVE(top1, train, "Top-1 accuracy of training"),
    CURVE(top1, val, "Top-1 accuracy of validation"),
    CURVE(top5, train, "Top-5 accuracy of training"),
    CURVE(top5, val, "Top-5 accuracy of validation"),
    FIGURE(time_to_accuracy, "Time to accuracy", true),
    FIGURE(lr, "Learning rate", true),
    FIGURE(loss_scale, "Loss scale", true),
    FIGURE(throughput, "Training throughput", true),
    FIGURE(io, "Storage and decoding", false),
    FIGURE(split, "Parts of the median step", true),
    FIGURE(telemetry, "Power, temperature and clocks", false),
    FIGURE(ranks, "Parts of each rank's mean step", false),
};
enum { N_FIGURES = sizeof figures / sizeof *figures };

/* Sets *gap_s to the duration of the shortest pause that a figure shows: two median steps, but at
 * least 0.5 % of the run. */
static enum status pause_that_shows(const struct run *run, double *gap_s)
{
    double median;
    double *total;
    TRY(array_new(&total, run->n_steps));
    for (int64_t k = 0; k < run->n_steps; k++)
        total[k] = run->step[k].total_s;
    enum status st = series_quantile(total, run->n_steps, 0.5, &median);
    *gap_s = fmax(2 * median, 0.005 * run->elapsed);
    free(total);
    return st;
}

/* Whether figure k is of accuracy. A study draws these four itself, of all cells and repeats. */
static bool is_of_study(int k)
{
    return figures[k].unit && strcmp(figures[k].unit, "%") == 0;
}

/* Writes one line with the names of all figures without data. Most runs lack some data, so there is
 * not a line for each figure. */
static void say_left_out(const bool some[], bool of_study, FILE *out)
{
    const char *before = "Skipped, no data: ";
    for (int k = 0; out && k < N_FIGURES; k++) {
        if (some[k] || (of_study && is_of_study(k)))
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
        some[k] = false;
        if (d->options->series && is_of_study(k))
            continue;
        TRY(figure_remove(&figures[k], out));
        TRY(figure_write(d, &figures[k], &some[k]));
        any = any || some[k];
    }
    if (!any)
        return status_fail(STATUS_DATA, "nothing to draw yet: no run has finished a step");
    for (int k = 0; k < N_FIGURES; k++) {
        if (some[k] && (!d->options->shown || d->options->shown(figures[k].name)))
            TRY(figure_draw(d, &figures[k], out));
    }
    say_left_out(some, d->options->series, d->options->left_out);
    return STATUS_OK;
}

enum status plot_runs_remove(const char *out)
{
    for (int k = 0; k < N_FIGURES; k++)
        if (!is_of_study(k))
            TRY(figure_remove(&figures[k], out));
    return STATUS_OK;
}

enum status plot_runs(const struct run *const *runs, int n, const char *out,
                      const struct plot_options *options)
{
    if (n < 1 || n > PLOT_MAX_RUNS)
        return status_fail(STATUS_USAGE, "cannot draw %d runs in one figure: give 1 to %d", n,
                           PLOT_MAX_RUNS);
    if (!(options->png || options->svg || options->pdf) || !(options->ema >= 0 && options->ema < 1))
        return status_fail(
            STATUS_INVALID,
            "cannot draw: no format is given, or the weight of the average, %g, is not in [0, 1)",
            options->ema);
    char label[PLOT_MAX_RUNS][FIGURE_LABEL_MAX];
    struct drawing d = {
        .run = runs, .n = n, .options = options, .title = options->title, .label = label};
    labels_make(runs, n, label);
    for (int i = 0; options->names && i < n; i++)
        text_clean(label[i], sizeof label[i], options->names[i]);
    labels_look_runs(&d);
    for (int i = 0; i < n; i++)
        TRY(pause_that_shows(runs[i], &d.gap_s[i]));
    TRY(path_format(d.data, sizeof d.data, "%s/data", out));
    TRY(dir_make(d.data));
    return figures_make(&d, out);
}
