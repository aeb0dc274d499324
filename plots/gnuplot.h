/* Running gnuplot, and checking its result. */
#pragma once

#include "base/status.h"

/* The prefix of the names of pictures that are being drawn. Its dot hides these files from users,
 * who could take an incomplete picture for a complete one. */
#define GNUPLOT_DRAFT ".draft-"

/* Runs "gnuplot <script>" in the folder `dir`, without a shell and without the user's gnuplot
 * settings. Sets gnuplot's variable `draft` to GNUPLOT_DRAFT. STATUS_UNSUPPORTED if gnuplot is not
 * installed; STATUS_LIBRARY, with the last line of gnuplot's error output, if gnuplot fails. */
MUST_CHECK enum status gnuplot_run(const char *dir, const char *script);

/* Checks that `draft` is a complete PNG, SVG or PDF file. This is needed because gnuplot does not
 * report a full disk. Returns STATUS_IO if the file is not complete; the message names `path`, the
 * final name of the picture. */
MUST_CHECK enum status gnuplot_check_picture(const char *draft, const char *path);

/* Adds a style sheet for dark displays to the complete SVG `path` that gnuplot drew. An SVG of an
 * unknown form is left unchanged. (svg.c) */
MUST_CHECK enum status svg_suit_dark(const char *path);
