/* Chooses the crops of torchvision's RandomResizedCrop, and of Resize followed by CenterCrop. */
#include "input/augment.h"

#include <limits.h>
#include <math.h>

enum { TRIES = 10 };

/* Rounds as Python's round() does: a half to the even neighbour. rint() does the same in the
 * default rounding mode. */
static int python_round(double x)
{
    return (int)rint(x);
}

static double uniform(struct rng *rng, double lo, double hi)
{
    return lo + (hi - lo) * rng_double(rng);
}

static struct rect central_crop(const struct crop_range *range, int width, int height)
{
    int w = width, h = height;
    double ratio = (double)width / height;
    if (ratio < range->ratio_min)
        h = python_round(w / (double)range->ratio_min);
    else if (ratio > range->ratio_max)
        w = python_round(h * (double)range->ratio_max);
    w = w < 1 ? 1 : w; /* a side of a very narrow or flat picture may round to 0 */
    h = h < 1 ? 1 : h;
    return (struct rect){(width - w) / 2, (height - h) / 2, w, h};
}

struct rect augment_crop(const struct crop_range *range, int width, int height, struct rng *rng)
{
    double area = (double)width * height;
    double log_min = log(range->ratio_min), log_max = log(range->ratio_max);
    for (int i = 0; i < TRIES; i++) {
        double target = area * uniform(rng, range->scale_min, range->scale_max);
        double ratio = exp(uniform(rng, log_min, log_max));
        int w = python_round(sqrt(target * ratio));
        int h = python_round(sqrt(target / ratio));
        if (w < 1 || w > width || h < 1 || h > height)
            continue;
        int y = (int)rng_below(rng, (uint32_t)(height - h + 1));
        int x = (int)rng_below(rng, (uint32_t)(width - w + 1));
        return (struct rect){x, y, w, h};
    }
    return central_crop(range, width, height);
}

struct view view_train(const struct crop_range *range, int size, int width, int height,
                       struct rng *rng)
{
    struct rect crop = augment_crop(range, width, height, rng);
    return (struct view){
        .x = {crop.x, (double)crop.w / size, crop.x, crop.x + crop.w, 0, size},
        .y = {crop.y, (double)crop.h / size, crop.y, crop.y + crop.h, 0, size},
        .flip = rng_double(rng) < 0.5,
    };
}

static struct resize_axis central_axis(int pixels, int resized, int size)
{
    return (struct resize_axis){
        .origin = 0,
        .scale = (double)pixels / resized,
        .lo = 0,
        .hi = pixels,
        .first = python_round((resized - size) / 2.0),
        .count = size,
    };
}

struct view view_val(int size, int resize, int width, int height)
{
    int shorter = width < height ? width : height, longer = width < height ? height : width;
    int64_t wanted = (int64_t)resize * longer / shorter;
    int resized = wanted < INT_MAX ? (int)wanted : INT_MAX;
    return (struct view){
        .x = central_axis(width, width <= height ? resize : resized, size),
        .y = central_axis(height, width <= height ? resized : resize, size),
    };
}

int view_shrink(const struct view *v)
{
    double scale = fmin(v->x.scale, v->y.scale);
    int shrink = 8;
    while (shrink > 1 && scale < shrink)
        shrink /= 2;
    return shrink;
}
