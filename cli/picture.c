/* The flags of every command that draws figures. */
#include "cli/picture.h"

#include "plots/plot.h"

#define SETTINGS_OF struct plot_size
const struct setting picture_settings[] = {
    {"width", 0, "INCHES", "16", "Width of PNG and PDF figures; their text scales with the width",
     AS_REAL(width_in, 1, 64)},
    {"dpi", 0, "N", "100", "Pixels per inch of PNG figures", AS_INTEGER(dpi, 20, 2400)},
    {"large-text", 0, NULL, NULL,
     "Draw text twice as large, for figures that fill half a page or a phone's screen",
     AS_SWITCH(large_text)},
    {0},
};
