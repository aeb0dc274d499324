/* ampscale plot: pictures of one or more runs, from their records alone; and the flags of every
 * command that draws figures. */
#include "base/file.h"
#include "base/folder.h"
#include "cli/cli.h"
#include "cli/picture.h"
#include "plots/sources.h"

#define SETTINGS_OF struct plot_size
const struct setting picture_settings[] = {
    {"width", 0, "INCHES", "16", "Width of PNG and PDF figures; their text scales with the width",
     AS_REAL(width_in, 1, 64)},
    {"dpi", 0, "N", "100", "Pixels per inch of PNG figures", AS_INTEGER(dpi, 20, 2400)},
    {"large-text", 0, NULL, NULL,
     "Draw text twice as large, for figures that fill half a page or a phone's screen",
     AS_SWITCH(large_text)},
    {0},
};

enum { LOCK_WAIT_SECONDS = 60 };

enum status picture_draw(const char *record, const char *dir, const struct plot_size *size,
                         bool silent)
{
    const struct plot_options o = {
        .png = true, .svg = true, .pdf = true, .size = *size, .written = silent ? NULL : stdout};
    int lock;
    TRY(dir_lock(dir, "ampscale", LOCK_WAIT_SECONDS, &lock));
    enum status st = plot_record(record, dir, &o);
    fd_close(&lock);
    return st;
}

struct plot_command {
    struct plot_sources sources;
    bool format[3]; /* png, svg, pdf; none: all */
};

#undef SETTINGS_OF
#define SETTINGS_OF struct plot_command
static const struct setting plot_settings[] = {
    {"out", 0, "DIR", NULL,
     "Folder for the figures (default: RUN/plots, for a single run or study; NAME-plots for a "
     "table NAME.csv)",
     AS_TEXT(sources.out)},
    {"format", 0, "png|svg|pdf", NULL, "One or several formats, separated by commas (default: all)",
     AS_SET(format)},
    {"title", 0, "TEXT", NULL, "Prefix of each figure's title", AS_TEXT(sources.options.title)},
    {"ema", 0, "A", "0",
     "Smooth curves over epochs by an exponential moving average; A: weight of earlier values",
     AS_REAL(sources.options.ema, 0, 0.999)},
    {"published", 0, "FILE:SERIES", NULL,
     "Add a series of a published table to a study's figures; may be given several times",
     AS_LIST(sources.published, sources.n_published)},
    {NULL, 0, "RUN", NULL, NULL, AS_LIST(sources.dir, sources.n)},
    {0},
};

static enum status plot(void *config)
{
    struct plot_command *c = config;
    struct plot_options *o = &c->sources.options;
    bool all = !c->format[0] && !c->format[1] && !c->format[2];
    o->png = all || c->format[0];
    o->svg = all || c->format[1];
    o->pdf = all || c->format[2];
    o->written = stdout;
    o->left_out = stderr;
    TRY(plot_size_check(&o->size));
    return plot_sources(&c->sources);
}

const struct cli_command cmd_plot = {
    .name = "plot",
    .summary = "draw figures of runs from their records",
    .arguments = "FILE\nRUN...",
    .doc = "Draws figures of runs: accuracy, loss, learning rate, loss scale, throughput, storage, "
           "the parts of a step, and the parts of each rank's step. RUN is the folder of 'ampscale "
           "train --out', or of a study. The figures of a study show throughput, time, efficiency "
           "and accuracy by number of devices; if the study has more than six series, the runs of "
           "each precision and data are drawn in a separate folder, DIR/PRECISION-DATA. FILE is an "
           "analysis.json, a published table (CSV, as results/published/hal_v100.csv), or a record "
           "of 'ampscale bench overlap --json' or 'ampscale predict --json'. Prints the names of "
           "the files; gnuplot's scripts and tables are in DIR/data.",
    .example = {{"Figures of a run, in runs/first/plots", "ampscale plot runs/first"},
                {"Two runs in the same figures",
                 "ampscale plot runs/first runs/second --out runs/compared"},
                {"A published table, from the source tree or the installed documents",
                 "ampscale plot results/published/hal_v100.csv --out plots/hal"}},
    .part = {{plot_settings},
             {picture_settings, offsetof(struct plot_command, sources.options.size)}},
    .config = &(struct plot_command){.format = {false}},
    .work = plot};
