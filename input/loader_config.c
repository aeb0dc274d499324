/* Completes a loader's configuration with defaults, and checks it. */
#include "input/loader_config.h"

struct loader_config loader_config_fill(struct loader_config c)
{
    if (c.resize == 0)
        c.resize = (int)((c.image_size * 256LL + 112) / 224);
    if (c.range.scale_max == 0 && c.range.ratio_max == 0)
        c.range = (struct crop_range){0.08f, 1.0f, 3.0f / 4, 4.0f / 3};
    return c;
}

enum status loader_config_check(const struct loader_config *c)
{
    if (!c->data || c->image_size < 1 || c->batch < 1 || c->workers < 1 || c->prefetch < 1 ||
        c->world < 1 || c->rank < 0 || c->rank >= c->world || c->max_bad_images < 0)
        return status_fail(STATUS_INVALID, "the loader's settings are out of range");
    const struct crop_range *r = &c->range;
    if (r->scale_min <= 0 || r->scale_max < r->scale_min || r->scale_max > 1 || r->ratio_min <= 0 ||
        r->ratio_max < r->ratio_min)
        return status_fail(STATUS_USAGE,
                           "crop area %g..%g and ratio %g..%g: the area must be above 0 and at "
                           "most 1, the ratio above 0, and the lower bound must come first",
                           (double)r->scale_min, (double)r->scale_max, (double)r->ratio_min,
                           (double)r->ratio_max);
    if (c->resize < c->image_size)
        return status_fail(STATUS_USAGE,
                           "validation cannot crop --image-size %d from --val-resize %d pixels: "
                           "give --val-resize %d or more",
                           c->image_size, c->resize, c->image_size);
    return STATUS_OK;
}
