/* The flags of every command that draws figures. */
#include "cli/picture.h"

#include "plots/plot.h"

#include <stdio.h>

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

enum status picture_draw(const char *record, const char *dir, const struct plot_size *size,
                         bool silent)
{
    const struct plot_options o = {
        .png = true, .svg = true, .pdf = true, .size = *size, .written = silent ? NULL : stdout};
    return plot_record(record, dir, &o);
}
