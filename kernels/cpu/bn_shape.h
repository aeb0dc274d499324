/* How batch norm cuts activations of any layout into patches (see struct bn_patch).
 *
 * A unit is the channels that a line contains: one channel of a plain tensor, one block of a
 * blocked tensor, sixteen adjacent channels of an NHWC tensor. A panel is a few units that one
 * thread processes over all images. A panel is so small that a second pass finds much of it in the
 * cache. Results do not depend on the number of threads, because sums have a fixed order, and the
 * sizes of units and panels are the same for any number of threads. */
#pragma once

#include "kernels/cpu/kernels.h"
#include "kernels/tensor.h"

enum { PANEL_UNITS = 16, PANEL_LANES = PANEL_UNITS * LINE };

struct bn_shape {
    int64_t images;
    int64_t channels;
    int64_t spatial;     /* H * W */
    int64_t width;       /* number of channels of a unit: 1, 8 or 16 */
    int64_t units;       /* number of units of all channels */
    int64_t panel_units; /* number of units of one panel, at most PANEL_UNITS */
    int64_t panels;
    bool contiguous; /* a unit of one image is contiguous in memory; false: NHWC */
    int64_t strip;   /* pixels of a patch */
};

struct bn_shape bn_shape_of(const struct tensor_desc *x);

/* Whether every patch begins at a multiple of LINE elements and has no tail. */
bool bn_shape_whole_lines(const struct bn_shape *s);

/* The patches of a panel in the first `pixels` pixels of an image, in memory order if the layout
 * allows that:
 *     for (struct bn_cursor c = bn_cursor_at(shape, panel, image, pixels); bn_cursor_next(&c);) */
struct bn_cursor {
    struct bn_patch patch;
    int64_t offset; /* offset of the patch in the tensor, elements */
    int64_t lane;   /* index of the patch's first lane in arrays of PANEL_LANES */

    const struct bn_shape *shape;
    int64_t image, pixels;
    int64_t first, count; /* the panel's units */
    int64_t unit, pixel;  /* where the next patch begins; `unit` counts from `first` */
};

struct bn_cursor bn_cursor_at(const struct bn_shape *s, int64_t panel, int64_t image,
                              int64_t pixels);
bool bn_cursor_next(struct bn_cursor *c);

/* Sets [*first, *end) to the panel's channels. */
void bn_panel_channels(const struct bn_shape *s, int64_t panel, int64_t *first, int64_t *end);

/* Sets lane[i] to the value of its channel, for all lanes of a panel; `of_channel` has a value per
 * channel of the tensor. Lanes without a channel become 0. */
void bn_panel_spread(const struct bn_shape *s, int64_t panel, const float *of_channel,
                     float lane[PANEL_LANES]);

/* The reverse of bn_panel_spread: of_channel[c] = sum of the lanes that belong to channel c. */
void bn_panel_fold(const struct bn_shape *s, int64_t panel, const double lane[PANEL_LANES],
                   double *of_channel);
