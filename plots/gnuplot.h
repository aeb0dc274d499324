/* Running gnuplot, and seeing that it did its work. */
#ifndef PLOTS_GNUPLOT_H
#define PLOTS_GNUPLOT_H

#include "base/status.h"

/* What the names of pictures begin with while gnuplot_run draws them: hidden, so that nobody takes
 * one that is half there for a picture. */
#define GNUPLOT_DRAFT ".draft-"

/* Runs "gnuplot <script>" in the folder `dir`, without a shell and without the user's own gnuplot
 * settings; the variable `draft` is GNUPLOT_DRAFT. STATUS_UNSUPPORTED when there is no gnuplot;
 * STATUS_LIBRARY with its last line of complaint when it fails. */
MUST_CHECK enum status gnuplot_run(const char *dir, const char *script);

/* Whether `draft` is a PNG or SVG file up to its last byte (gnuplot says nothing of a full disk);
 * STATUS_IO otherwise, which speaks of `path`, the name that it was to get. */
MUST_CHECK enum status gnuplot_check_picture(const char *draft, const char *path);
#endif
