/* Which part of a picture a network sees, as torchvision chooses it.
 *
 * Pure functions of the picture's size and, in training, of the generator's draws. They choose;
 * what is chosen is decoded by decode.h and resampled by resize.h. */
#ifndef INPUT_AUGMENT_H
#define INPUT_AUGMENT_H

#include "base/rng.h"
#include "input/decode.h"
#include "input/resize.h"

/* The ranges of torchvision.transforms.RandomResizedCrop; its defaults are 0.08..1 and 3/4..4/3. */
struct crop_range {
    float scale_min, scale_max; /* of the picture's area, 0 < min <= max <= 1 */
    float ratio_min, ratio_max; /* width / height, 0 < min <= max */
};

/* RandomResizedCrop.get_params. Draws, each a rng_double: for up to ten tries the area, uniform in
 * scale, and the ratio, uniform in its logarithm; of the first that fits, then the top and the left
 * edge (rng_below each). Where none fits: the largest central crop with a ratio in range. */
struct rect augment_crop(const struct crop_range *range, int width, int height, struct rng *rng);

/* What is decoded and resampled for one picture. */
struct view {
    struct resize_axis x, y; /* in pixels of the full picture */
    bool flip;
};

/* Training: augment_crop, then one more rng_double below 0.5 flips. Output is size x size. */
struct view view_train(const struct crop_range *range, int size, int width, int height,
                       struct rng *rng);

/* Validation: Resize(resize), of the shorter side, then CenterCrop(size); resize >= size. */
struct view view_val(int size, int resize, int width, int height);

/* The largest reduction in decoding, 1, 2, 4 or 8, that leaves at least as many pixels as the view
 * has in either direction. */
int view_shrink(const struct view *v);
#endif
