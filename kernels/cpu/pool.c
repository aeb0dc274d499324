/* Cuts activations of any layout into units: groups of adjacent channels of one image. */
#include "kernels/cpu/pool.h"

struct pool_units pool_units_of(const struct tensor_desc *t, int64_t planes)
{
    int64_t channels = t->dim[1], block = tensor_block(t);
    int64_t lanes = block == 1 ? planes : block < MAXPOOL_LANES ? block : MAXPOOL_LANES;
    return (struct pool_units){(channels + lanes - 1) / lanes, lanes, channels};
}

struct pool_view pool_view_of(const struct tensor_desc *t, const struct pool_units *units,
                              int64_t u)
{
    int64_t image = u / units->per_image, channel = u % units->per_image * units->lanes;
    int64_t left = units->channels - channel, pixels = t->dim[2] * t->dim[3];
    int64_t block = tensor_block(t);
    /* For every block size, the blocks are stored one after the other. The channels of a block are
     * adjacent. */
    int64_t before = channel / block * block;
    return (struct pool_view){
        .offset = (image * units->channels + before) * pixels + channel - before,
        .pixel = block,
        .lane = block == 1 ? pixels : 1,
        .lanes = left < units->lanes ? left : units->lanes,
    };
}
