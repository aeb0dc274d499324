/* What the figures of a drawing share: its runs, their names, and how a figure hands tables and
 * settings to its gnuplot script. For plots/ alone. */
#ifndef PLOTS_FIGURE_H
#define PLOTS_FIGURE_H

#include "base/file.h"
#include "plots/plot.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* More rows than this in a table tell the eye nothing more. */
enum { FIGURE_MAX_ROWS = 1000, FIGURE_LABEL_MAX = 80 };

/* A part that is nowhere more of a step than this cannot be seen, and needs no legend. */
#define FIGURE_VISIBLE_SHARE 0.001

struct drawing {
    const struct run *const *run; /* NULL in the drawing of a report */
    int n;                        /* runs; or the curves of a report */
    const json_t *report;
    const struct plot_options *options;
    char data[4096];                 /* the folder of scripts and tables */
    char (*label)[FIGURE_LABEL_MAX]; /* (n) all different */
    double gap_s[PLOT_MAX_RUNS];     /* a pause between steps that a drawing shows */
};

struct figure {
    const char *name; /* of its files */
    const char *title;
    const unsigned char *script; /* gnuplot, run after what `prepare` and style.gp define */
    /* Writes the figure's tables, and its settings to `vars`; *some is false when the runs hold
     * nothing for it. */
    enum status (*prepare)(const struct drawing *d, const struct figure *f, FILE *vars, bool *some);
    size_t train, val; /* curves: offsets in struct epoch_record */
    size_t step;       /* curves: offset in struct step_record */
    const char *unit;  /* curves: of the y axis */
};

MUST_CHECK enum status figure_curves(const struct drawing *d, const struct figure *f, FILE *vars,
                                     bool *some);
MUST_CHECK enum status figure_lr(const struct drawing *d, const struct figure *f, FILE *vars,
                                 bool *some);
MUST_CHECK enum status figure_throughput(const struct drawing *d, const struct figure *f,
                                         FILE *vars, bool *some);
MUST_CHECK enum status figure_io(const struct drawing *d, const struct figure *f, FILE *vars,
                                 bool *some);
MUST_CHECK enum status figure_split(const struct drawing *d, const struct figure *f, FILE *vars,
                                    bool *some);
MUST_CHECK enum status figure_ranks(const struct drawing *d, const struct figure *f, FILE *vars,
                                    bool *some);
MUST_CHECK enum status figure_loss_scale(const struct drawing *d, const struct figure *f,
                                         FILE *vars, bool *some);
MUST_CHECK enum status figure_telemetry(const struct drawing *d, const struct figure *f, FILE *vars,
                                        bool *some);
MUST_CHECK enum status figure_amp(const struct drawing *d, const struct figure *f, FILE *vars,
                                  bool *some);

/* Removes the figure's earlier pictures from the folder `out`, so that none outlives what it
 * shows. */
MUST_CHECK enum status figure_remove(const struct figure *f, const char *out);

/* Writes "<data>/<figure>.gp" with its tables; *some as figure.prepare gives it. */
MUST_CHECK enum status figure_write(const struct drawing *d, const struct figure *f, bool *some);

/* Runs the script, and checks the pictures: each is there whole or not at all. */
MUST_CHECK enum status figure_draw(const struct drawing *d, const struct figure *f,
                                   const char *out);

/* Opens the table "<figure>-<i>.dat" of run i (from 0), which gnuplot's table(i+1) names. */
MUST_CHECK enum status figure_table(const struct drawing *d, const struct figure *f, int i,
                                    struct atomic_file *table);

/* Settings for the script: name = 'text', with quotes doubled; name = number (NaN stays NaN). */
void figure_set_text(FILE *vars, const char *name, const char *text);
void figure_set(FILE *vars, const char *name, double value);

/* name = '1 3': the runs (from 0) for which `has` is true, as gnuplot counts them. */
void figure_set_runs(FILE *vars, const char *name, const bool has[], int n);

/* The unit in which the longest run's time is read best, told to the script as `time_label`;
 * returns how many seconds one is. */
double figure_set_time(FILE *vars, const struct drawing *d);

#endif
