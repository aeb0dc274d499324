/* Where the images of pooling lie: activations cut into units of channels side by side. */
#ifndef KERNELS_CPU_POOL_H
#define KERNELS_CPU_POOL_H

#include "kernels/cpu/kernels.h"
#include "kernels/tensor.h"

/* A unit is some channels of one image: a block, up to MAXPOOL_LANES neighbours of an NHWC tensor,
 * or a few planes. */
struct pool_units {
    int64_t per_image;
    int64_t lanes; /* channels of a unit; the last of an image may have fewer */
    int64_t channels;
};

/* `planes`: channels in a unit of a plain tensor. */
struct pool_units pool_units_of(const struct tensor_desc *t, int64_t planes);

/* One unit of one image in a tensor: element (channel lane i, pixel p) is at
 * offset + p * pixel + i * lane. */
struct pool_view {
    int64_t offset;
    int64_t pixel;
    int64_t lane;
    int64_t lanes;
};

/* Unit u (counted through the images) of `units` in a tensor of the same images and channels, with
 * the layout that `units` was made for or plain. */
struct pool_view pool_view_of(const struct tensor_desc *t, const struct pool_units *units,
                              int64_t u);

#endif
