/* Units of adjacent channels, into which pooling cuts activations. */
#pragma once

#include "kernels/cpu/kernels.h"
#include "kernels/tensor.h"

/* A unit is some channels of one image: one block of a blocked tensor, or up to MAXPOOL_LANES
 * adjacent channels of an NHWC tensor, or a few channels (planes) of a plain tensor. */
struct pool_units {
    int64_t per_image;
    int64_t lanes; /* channels of a unit; the last unit of an image may have fewer */
    int64_t channels;
};

/* `planes`: channels in a unit of a plain tensor. */
struct pool_units pool_units_of(const struct tensor_desc *t, int64_t planes);

/* One unit of one image in a tensor. Each channel of the unit is a lane; the element of lane i at
 * pixel p is at offset + p * pixel + i * lane. */
struct pool_view {
    int64_t offset;
    int64_t pixel;
    int64_t lane;
    int64_t lanes;
};

/* Returns the view of unit u; units are numbered over all images. `t` must have as many images and
 * channels as the tensor for which `units` was made, and the layout of that tensor or the plain
 * layout. */
struct pool_view pool_view_of(const struct tensor_desc *t, const struct pool_units *units,
                              int64_t u);
