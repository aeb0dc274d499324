/* Inside cli/: the flags of every command that draws figures. */
#pragma once

#include "base/setting.h"

struct plot_size;

/* --width, --dpi and --large-text, in a struct plot_size (plots/plot.h). A command checks the
 * combination with plot_size_check before it does any work. */
extern const struct setting picture_settings[];

/* Draws a record into the folder `dir` as PNG, SVG and PDF. Prints the names of the pictures,
 * unless `silent` is true. */
MUST_CHECK enum status picture_draw(const char *record, const char *dir,
                                    const struct plot_size *size, bool silent);
