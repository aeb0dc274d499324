/* Running gnuplot, and checking its result. */
#pragma once

#include "base/status.h"

/* The prefix of the names of pictures that gnuplot_run draws. The prefix hides the files, so that
 * an incomplete picture is not mistaken for a complete one. */
#define GNUPLOT_DRAFT ".draft-"

/* Runs "gnuplot <script>" in the folder `dir`, without a shell and without the user's gnuplot
 * settings; the variable `draft` is GNUPLOT_DRAFT. STATUS_UNSUPPORTED when gnuplot is not
 * installed; STATUS_LIBRARY, with the last line of gnuplot's error output, when gnuplot fails. */
MUST_CHECK enum status gnuplot_run(const char *dir, const char *script);

/* Checks that `draft` is a complete PNG or SVG file, because gnuplot does not report a full disk.
 * Returns STATUS_IO if it is not; the message names `path`, the final name of the picture. */
MUST_CHECK enum status gnuplot_check_picture(const char *draft, const char *path);
