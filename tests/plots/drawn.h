/* Runs that never took place, and pictures of them, in a scratch folder. A failure fails the test.
 */
#pragma once

#include "base/status.h"
#include "plots/plot.h"
#include "sample.h"
#include "scratch.h"

enum { MAX_SAMPLES = PLOT_MAX_RUNS };

/* Runs in a scratch folder, and the folder "out" beside them for the pictures. */
struct fixture {
    char dir[SCRATCH_MAX];
    char out[SCRATCH_MAX + 16];
    struct run *run[MAX_SAMPLES];
    int n;
    char written[8192], left_out[1024];
};

/* For cmocka: a fixture in *state. */
int set_up(void **state);
int tear_down(void **state);
#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

void add_run(struct fixture *f, const char *name, struct sample sample);

/* Draws PNG, and SVG if asked for, of all runs. */
enum status draw(struct fixture *f, bool svg, const char *title, double ema);

/* Draws PNG with this script in place of gnuplot; with NULL, no gnuplot is found. */
enum status draw_with(struct fixture *f, const char *script);

/* Checks the figure's PNG and, if it was asked for, its SVG, which the caller frees. */
char *check_figure(const struct fixture *f, const char *figure, bool svg);

void check_says(const char *svg, const char *text);
