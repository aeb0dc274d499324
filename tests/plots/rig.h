/* What the tests of figures share: runs of invented numbers, drawings in a scratch folder, and
 * assertions on files. A failure fails the test. */
#pragma once

#include "../results/scratch.h"
#include "base/status.h"
#include "plots/plot.h"

struct sample {
    const char *arch, *precision;
    int batch;
    int epochs, steps_per_epoch;
    int steps;           /* if not 0: total number of steps; the last epoch may be incomplete */
    double images_per_s; /* throughput of a step without waiting for data */
    double val_s;        /* seconds of validation after each epoch; 0: no validation */
    bool dummy;          /* no files read */
    bool gpu;            /* copies and communication take time, and there is a loss scale */
    int ranks;           /* if not 0: number of ranks with their own records, two on each host */
    const char *host;    /* beginning of the hosts' names; NULL: "node" */
    int slow_rank;       /* this rank waits for data for slow_data of each step; 0: none */
    double slow_data;
    int nan_from_step; /* first step with a NaN loss; 0: none */
    int sensors;       /* number of devices with telemetry; the last device is throttled in the
                        * second half of the run */
    unsigned seed;
};

/* Writes the records of such a run into the existing folder `dir`. */
void sample_write(const char *dir, const struct sample *s);

/* Runs in a scratch folder. The folder "out" next to it is for the figures. */
struct fixture {
    char dir[SCRATCH_MAX];
    char out[SCRATCH_MAX + 16];
    struct run *run[PLOT_MAX_RUNS];
    int n;
    char written[8192], left_out[1024];
};

/* Set-up and tear-down for cmocka; *state is a fixture. */
int set_up(void **state);
int tear_down(void **state);
#define WITH_RUNS(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

void add_run(struct fixture *f, const char *name, struct sample sample);

/* Draws all runs as PNG and, if `svg`, also as SVG. */
enum status draw(struct fixture *f, bool svg, const char *title, double ema);

/* Draws PNG with the shell script `script` instead of gnuplot; with NULL, gnuplot is not found:
 * only the tables and scripts are written. */
enum status draw_with(struct fixture *f, const char *script);
void write_tables(struct fixture *f);

/* Without gnuplot, the calls between these two write only tables and scripts. */
void hide_gnuplot(const char *path);
void show_gnuplot(void);

/* Skips the test with a message if gnuplot is not installed. */
void skip_without_gnuplot(void);

/* Checks that "<dir>/<figure>.png" is a PNG of 1600 pixels and not blank, and, if Python is there,
 * that the SVG is XML. */
void expect_figure(const char *dir, const char *figure, bool svg);

/* Whether "<dir>/<file>" exists. */
bool file_exists(const char *dir, const char *file);

/* "<dir>/<file>" contains the text, or does not. */
void expect_text(const char *dir, const char *file, const char *text);
void expect_no_text(const char *dir, const char *file, const char *text);
