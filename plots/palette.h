/* Colours and shapes of series: a name has the same in all figures of a report, and no two names
 * have the same colour and shape. Up to PALETTE_COLOURS names have a colour of their own. */
#pragma once

enum {
    PALETTE_COLOURS = 10, /* of style.gp */
    PALETTE_SHAPES = 7,   /* no common factor with the colours: every pair occurs once */
    PALETTE_LOOKS = PALETTE_COLOURS * PALETTE_SHAPES,
    PALETTE_MAX = 256,       /* names; later ones are not remembered */
    PALETTE_NAME_SIZE = 128, /* bytes of a name, with its end */
};

struct palette {
    int n;
    char name[PALETTE_MAX][PALETTE_NAME_SIZE];
    int look[PALETTE_MAX];
};

/* Sets look[i], 0 to PALETTE_LOOKS - 1, of the n names of one figure; look % PALETTE_COLOURS is the
 * colour, look % PALETTE_SHAPES the shape. A known name keeps its look. A new name takes the first
 * colour that no name has; when all are taken, a look that no name has, if possible with a colour
 * that this figure does not use. NULL: looks are numbered from 0, equal names being one. */
void palette_take(struct palette *p, int n, const char (*name)[PALETTE_NAME_SIZE], int look[]);
