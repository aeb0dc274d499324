/* Inside cli/: the flags of every command that draws figures. */
#pragma once

#include "base/setting.h"

/* --width, --dpi and --large-text, in a struct plot_size (plots/plot.h). A command checks the
 * combination with plot_size_check before it does any work. */
extern const struct setting picture_settings[];
