/* The sources of `ampscale plot`: folders of runs or of a study, or the file of a record or
 * of a published table. */
#pragma once

#include "plots/plot.h"

enum { PLOT_PUBLISHED_MAX = 8 };

struct plot_sources {
    const char *dir[PLOT_MAX_RUNS]; /* (n) folders of runs, the folder of a study, or the file of a
                                     * record or of a published table */
    int n;
    const char *out; /* folder of the figures; NULL: "plots" in dir[0] or, for a published table
                      * NAME.csv, "NAME-plots" */
    const char *published[PLOT_PUBLISHED_MAX]; /* (n_published) FILE:SERIES, drawn with a study */
    int n_published;
    struct plot_options options;
};

/* Draws the sources. STATUS_USAGE if they cannot be drawn together, or if they
 * need the folder `out` and it is NULL. */
MUST_CHECK enum status plot_sources(const struct plot_sources *s);
