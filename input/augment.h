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
    float scale_min, scale_max; /* crop's area / picture's area, 0 < min <= max <= 1 */
    float ratio_min, ratio_max; /* width / height, 0 < min <= max */
};

/* Returns the crop that RandomResizedCrop.get_params chooses. Each of up to ten tries draws an
 * area, uniform in scale, and a ratio, uniform in its logarithm (one rng_double each). The first
 * try that fits in the picture also draws the crop's top and left edge (one rng_below each). If no
 * try fits, returns the largest central crop with a ratio in range. */
struct rect augment_crop(const struct crop_range *range, int width, int height, struct rng *rng);

/* The part of one picture to decode and resample. */
struct view {
    struct resize_axis x, y; /* positions are in pixels of the full picture */
    bool flip;
};

/* Returns the view for training: the crop of augment_crop, flipped if one more rng_double is below
 * 0.5. The output has size x size pixels. */
struct view view_train(const struct crop_range *range, int size, int width, int height,
                       struct rng *rng);

/* Returns the view for validation: the shorter side is resized to `resize` pixels, then the central
 * size x size pixels are cropped. `resize` must be at least `size`. */
struct view view_val(int size, int resize, int width, int height);

/* Returns the largest divisor for reduced decoding (1, 2, 4 or 8) with which the decoded part is
 * still at least as wide and as high, in pixels, as the output. Reduced decoding changes pixels:
 * for fine patterns by up to 109 of 256 levels, and still by 7 if a crop of 32 times the output is
 * decoded at half its size. */
int view_shrink(const struct view *v);
