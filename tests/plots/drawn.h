/* Makes runs from invented numbers, and draws their figures in a scratch folder. A failure fails
 * the test. */
#pragma once

#include "base/status.h"
#include "plots/plot.h"
#include "sample.h"
#include "scratch.h"

enum { MAX_SAMPLES = PLOT_MAX_RUNS };

/* Runs in a scratch folder. The folder "out" next to it is for the figures. */
struct fixture {
    char dir[SCRATCH_MAX];
    char out[SCRATCH_MAX + 16];
    struct run *run[MAX_SAMPLES];
    int n;
    char written[8192], left_out[1024];
};

/* Set-up and tear-down for cmocka; *state is a fixture. */
int set_up(void **state);
int tear_down(void **state);
#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

void add_run(struct fixture *f, const char *name, struct sample sample);

/* Draws all runs as PNG and, if `svg`, also as SVG. */
enum status draw(struct fixture *f, bool svg, const char *title, double ema);

/* Draws PNG with the shell script `script` instead of gnuplot; with NULL, gnuplot is not found. */
enum status draw_with(struct fixture *f, const char *script);

/* Checks the PNG of a figure and, if `svg`, its SVG. Returns the text of the SVG, which the caller
 * frees. */
char *check_figure(const struct fixture *f, const char *figure, bool svg);

void check_says(const char *svg, const char *text);
