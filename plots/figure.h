/* Internal to plots/: the data that all figures of a drawing share (such as the runs and their
 * labels), and functions that write a figure's tables, and the settings for its gnuplot script. */
#pragma once

#include "base/file.h"
#include "plots/palette.h"
#include "plots/plot.h"

#include <stdbool.h>
#include <stdio.h>

/* FIGURE_MAX_ROWS: maximum number of rows of a table; a reader cannot distinguish more points in a
 * figure. FIGURE_LABEL_MAX: maximum size of a label in bytes. */
enum { FIGURE_MAX_ROWS = 1000, FIGURE_LABEL_MAX = PALETTE_NAME_SIZE };

/* If a part of a step never exceeds this fraction of the step, it is too small to see, and gets no
 * entry in the legend. */
#define FIGURE_VISIBLE_SHARE 0.001

/* Number of parts of a step, and maximum number of bars in a figure. */
enum { FIGURE_PARTS = 7, FIGURE_BARS_MAX = 32 };

struct drawing {
    const struct run *const *run; /* NULL if a report is drawn */
    int n;                        /* number of runs, or of the report's curves */
    const json_t *report;         /* NULL if no report is drawn */
    const struct plot_options *options;
    const char *title;               /* precedes each figure's own title; NULL: none */
    char data[4096];                 /* the folder of scripts and tables */
    char (*label)[FIGURE_LABEL_MAX]; /* (n) all different */
    int look[FIGURE_BARS_MAX];       /* (n) colour and shape of each label, as one number
                                      * (palette.h) */
    int nth[FIGURE_BARS_MAX];        /* (n) number of earlier labels that have the same colour; such
                                      * labels differ in shape */
    double gap_s[PLOT_MAX_RUNS];     /* a pause between two steps is drawn if it is longer than
                                      * this, in seconds */
};

struct figure;

/* Writes the tables of the figure, and writes its settings to `vars`. Sets has[i] to true if run i
 * has data; the caller has set it to false. */
typedef enum status figure_prepare(const struct drawing *d, const struct figure *f, FILE *vars,
                                   bool has[FIGURE_BARS_MAX]);

struct figure {
    const char *name; /* base name of its files */
    const char *title;
    const unsigned char *script; /* gnuplot commands that run after style.gp and after the settings
                                  * of `prepare` */
    figure_prepare *prepare;
    size_t train, val; /* curves: offsets in struct epoch_record; 0: no such curve */
    size_t step;       /* curves: offset in struct step_record */
    const char *unit;  /* curves: unit of the y axis */
    bool fits_half;    /* the script can draw on a canvas half as wide (plot_size.large_text) */
};

/* The functions that prepare the figures of runs; each is in a file of its own. */
figure_prepare figure_curves, figure_lr, figure_throughput, figure_io, figure_split, figure_ranks,
    figure_loss_scale, figure_telemetry, figure_time_to_accuracy;

/* Sets label[i] to "resnet50 bf16 b32 · folder" from the configuration and the folder of run i, cut
 * to fit. If labels are equal, all but the first get a number at the end. (labels.c) */
void labels_make(const struct run *const *run, int n, char (*label)[FIGURE_LABEL_MAX]);

/* Set the colour and the shape of each label from the palette of the options. labels_look looks up
 * the label in the palette; labels_look_runs looks up the name of the run's series. (labels.c) */
void labels_look(struct drawing *d);
void labels_look_runs(struct drawing *d);

/* Bars of the parts of a step, which split.gp draws. */
struct bars {
    bool used[FIGURE_PARTS];
    double longest_ms;
};

/* Writes the table of bar i, whose parts are in seconds. If their sum is 0, writes no table and
 * sets *has to false. (split.c) */
MUST_CHECK enum status bar_write(const struct drawing *d, const struct figure *f, int i,
                                 const double part[FIGURE_PARTS], FILE *vars, bool *has,
                                 struct bars *b);

/* Writes the settings of all bars. */
void bars_set(FILE *vars, const struct bars *b, const char *label);

/* Removes earlier pictures of the figure from the folder `out`, because they are outdated. */
MUST_CHECK enum status figure_remove(const struct figure *f, const char *out);

/* Writes the script "<data>/<figure>.gp" and the tables that it draws. Sets *some to false if the
 * figure has no data. */
MUST_CHECK enum status figure_write(const struct drawing *d, const struct figure *f, bool *some);

/* Runs the figure's script, and checks its pictures. Afterwards each picture is complete or
 * absent. */
MUST_CHECK enum status figure_draw(const struct drawing *d, const struct figure *f,
                                   const char *out);

/* Opens the table "<figure>-<i>.dat" of run i (from 0); in gnuplot, table(i+1) is its name. */
MUST_CHECK enum status figure_table(const struct drawing *d, const struct figure *f, int i,
                                    struct atomic_file *table);

/* figure_set_text writes a setting for the script: name = 'text'. It doubles the quotes in `text`.
 * figure_set writes name = number, or name = NaN. */
void figure_set_text(FILE *vars, const char *name, const char *text);
void figure_set(FILE *vars, const char *name, double value);

/* Writes a space and a value of a table, or " nan" if the value is not finite. */
void figure_number(FILE *table, double x);

/* Writes name = '1 3': the numbers of those runs for which `has` is true. The number of
 * run i is i + 1, because gnuplot counts from 1. */
void figure_set_runs(FILE *vars, const char *name, const bool has[], int n);

/* Chooses a unit of time that suits the longest run, and writes the setting time_label. Returns the
 * length of the unit in seconds. */
double figure_set_time(FILE *vars, const struct drawing *d);
