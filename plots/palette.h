/* Colours and shapes of series. A name has the same colour and shape in all figures of a report.
 * The first PALETTE_COLOURS names have different colours. The first PALETTE_LOOKS names have
 * different pairs of colour and shape. */
#pragma once

enum {
    PALETTE_COLOURS = 10, /* number of colours in style.gp */
    /* Number of shapes. It has no common factor with PALETTE_COLOURS, so colours and shapes that
     * are taken in turn form every pair of a colour and a shape. */
    PALETTE_SHAPES = 7,
    PALETTE_LOOKS = PALETTE_COLOURS * PALETTE_SHAPES,
    PALETTE_MAX = 256,       /* maximum number of names in a palette */
    PALETTE_NAME_SIZE = 128, /* bytes of a name, including its final NUL */
};

struct palette {
    int n;
    char name[PALETTE_MAX][PALETTE_NAME_SIZE];
    int look[PALETTE_MAX];
};

/* Sets look[i], from 0 to PALETTE_LOOKS - 1, for each of the n names of one figure. look %
 * PALETTE_COLOURS is the colour, look % PALETTE_SHAPES the shape.
 *
 * A name that is in the palette keeps its look. Another name gets the first colour that no name
 * has. If all colours are in use, it gets a look that no name has, if possible in a colour that
 * this figure does not use. If `palette` is NULL, looks are numbered from 0, and equal names have
 * the same look. */
void palette_take(struct palette *p, int n, const char (*name)[PALETTE_NAME_SIZE], int look[]);
