/* Chooses the part of a picture that a network sees, as torchvision does.
 *
 * Pure functions of the picture's size and, in training, of random draws. decode.h decodes the
 * chosen part and resize.h resamples it. */
#pragma once

#include "base/rng.h"
#include "input/decode.h"
#include "input/resize.h"

/* The ranges of torchvision.transforms.RandomResizedCrop; its defaults are 0.08..1 and 3/4..4/3. */
struct crop_range {
    float scale_min, scale_max; /* crop's area as a fraction of the picture's area, 0 < min <= max
                                 * <= 1 */
    float ratio_min, ratio_max; /* width / height, 0 < min <= max */
};

/* RandomResizedCrop.get_params. For up to ten tries, draws the area, uniform in scale, and the
 * ratio, uniform in its logarithm (rng_double each); for the first try that fits in the picture,
 * also draws the top and the left edge (rng_below each). If no try fits: the largest central crop
 * with a ratio in range. */
struct rect augment_crop(const struct crop_range *range, int width, int height, struct rng *rng);

/* The part of one picture to decode and resample. */
struct view {
    struct resize_axis x, y; /* in pixels of the full picture */
    bool flip;
};

/* Training: augment_crop, then a flip where one more rng_double < 0.5. Output: size x size. */
struct view view_train(const struct crop_range *range, int size, int width, int height,
                       struct rng *rng);

/* Validation: Resize(resize) of the shorter side, then CenterCrop(size); resize >= size. */
struct view view_val(int size, int resize, int width, int height);

/* The largest divisor for reduced decoding (1, 2, 4 or 8) with which the decoded part still has at
 * least as many pixels as the output in both directions. */
int view_shrink(const struct view *v);
