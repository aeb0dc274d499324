/* How batch norm cuts activations of any layout into patches (see struct bn_patch).
 *
 * A unit is what the lanes of a line belong to: one channel of a plain tensor, one block of a
 * blocked one, sixteen neighbours of an NHWC one. A panel is a few units that one thread takes
 * through all images, small enough that a second pass finds much of it in the cache. Neither
 * depends on the number of threads, and the sums of a patch are added up in a fixed order, so that
 * results do not depend on it either. */
#ifndef KERNELS_CPU_BN_SHAPE_H
#define KERNELS_CPU_BN_SHAPE_H

#include "kernels/cpu/kernels.h"
#include "kernels/tensor.h"

enum { PANEL_UNITS = 16, PANEL_LANES = PANEL_UNITS * LINE };

struct bn_shape {
    int64_t images;
    int64_t channels;
    int64_t spatial;     /* H * W */
    int64_t width;       /* channels of a unit: 1, 8 or 16 */
    int64_t units;       /* of all channels */
    int64_t panel_units; /* of one panel, at most PANEL_UNITS */
    int64_t panels;
    bool contiguous; /* a unit of an image is one run of memory; else NHWC */
    int64_t strip;   /* pixels of a patch */
};

struct bn_shape bn_shape_of(const struct tensor_desc *x);

/* The patches of a panel in the first `pixels` pixels of an image, in memory's order as far as the
 * layout lets it:
 *     for (struct bn_cursor c = bn_cursor_at(shape, panel, image, pixels); bn_cursor_next(&c);)
 */
struct bn_cursor {
    struct bn_patch patch;
    int64_t offset; /* of the patch in the tensor, floats */
    int64_t lane;   /* of the patch's first lane in arrays of PANEL_LANES */

    const struct bn_shape *shape;
    int64_t image, pixels;
    int64_t first, count; /* the panel's units */
    int64_t unit, pixel;  /* where the next patch begins; `unit` counts from `first` */
};

struct bn_cursor bn_cursor_at(const struct bn_shape *s, int64_t panel, int64_t image,
                              int64_t pixels);
bool bn_cursor_next(struct bn_cursor *c);

/* Channels [*first, *end) are those of the panel. */
void bn_panel_channels(const struct bn_shape *s, int64_t panel, int64_t *first, int64_t *end);

/* lane[i] = channel's value, for the lanes of a panel; `of_channel` has a value per channel of the
 * tensor. Lanes that no channel has are 0. */
void bn_panel_spread(const struct bn_shape *s, int64_t panel, const float *of_channel,
                     float lane[PANEL_LANES]);

/* The other way: of_channel[c] = sum of the lanes that belong to c. */
void bn_panel_fold(const struct bn_shape *s, int64_t panel, const double lane[PANEL_LANES],
                   double *of_channel);

#endif
