/* Cuts activations into panels and patches. */
#include "kernels/cpu/bn_shape.h"

/* Number of floats that a panel has in one image; this is a few pages of memory. In a plain tensor
 * whose channels have fewer floats each, several adjacent channels form one panel. */
enum { PANEL_FLOATS = 2048 };

/* In an NHWC panel, sixteen channels of STRIP_PIXELS pixels are read before the next sixteen
 * channels. The reads of each pixel are one stream, and the hardware prefetchers can track
 * STRIP_PIXELS streams. */
enum { STRIP_PIXELS = 32 };

static int64_t clamp(int64_t v, int64_t low, int64_t high)
{
    return v < low ? low : v > high ? high : v;
}

struct bn_shape bn_shape_of(const struct tensor_desc *x)
{
    int64_t block = tensor_block(x);
    struct bn_shape s = {
        .images = x->dim[0],
        .channels = x->dim[1],
        .spatial = x->dim[2] * x->dim[3],
        .contiguous = LINE % block == 0,
    };
    if (s.contiguous) {
        s.width = block;
        s.panel_units = clamp(PANEL_FLOATS / (s.spatial * block), 1, PANEL_UNITS);
        s.strip = s.spatial;
    } else {
        s.width = LINE;
        s.panel_units = PANEL_UNITS;
        /* If the last unit is partial, each of its lines is a tail. A patch has at most one tail,
         * so each patch is then a single pixel. */
        s.strip = block % LINE == 0 ? STRIP_PIXELS : 1;
    }
    s.units = (s.channels + s.width - 1) / s.width;
    s.panels = (s.units + s.panel_units - 1) / s.panel_units;
    return s;
}

bool bn_shape_whole_lines(const struct bn_shape *s)
{
    return (s->contiguous ? s->spatial * s->width : s->channels) % LINE == 0;
}

struct bn_cursor bn_cursor_at(const struct bn_shape *s, int64_t panel, int64_t image,
                              int64_t pixels)
{
    int64_t first = panel * s->panel_units;
    return (struct bn_cursor){
        .shape = s,
        .image = image,
        .pixels = pixels,
        .first = first,
        .count = clamp(s->units - first, 0, s->panel_units),
    };
}

bool bn_cursor_next(struct bn_cursor *c)
{
    const struct bn_shape *s = c->shape;
    if (c->unit == c->count) {
        c->unit = 0;
        c->pixel += s->strip;
    }
    if (c->pixel >= c->pixels)
        return false;
    int64_t unit = c->first + c->unit;
    if (s->contiguous) {
        int64_t floats = c->pixels * s->width;
        c->patch = (struct bn_patch){floats / LINE, LINE, (int)(floats % LINE)};
        c->offset = (c->image * s->units + unit) * s->spatial * s->width;
    } else {
        int64_t left = s->channels - unit * LINE;
        int64_t lines = clamp(c->pixels - c->pixel, 1, s->strip);
        c->patch = left >= LINE ? (struct bn_patch){lines, s->channels, 0}
                                : (struct bn_patch){0, s->channels, (int)left};
        c->offset = (c->image * s->spatial + c->pixel) * s->channels + unit * LINE;
    }
    c->lane = c->unit * LINE;
    c->unit++;
    return true;
}

void bn_panel_channels(const struct bn_shape *s, int64_t panel, int64_t *first, int64_t *end)
{
    *first = clamp(panel * s->panel_units * s->width, 0, s->channels);
    *end = clamp((panel + 1) * s->panel_units * s->width, 0, s->channels);
}

void bn_panel_spread(const struct bn_shape *s, int64_t panel, const float *of_channel,
                     float lane[PANEL_LANES])
{
    int64_t first, end;
    bn_panel_channels(s, panel, &first, &end);
    for (int64_t begin = first; begin < end; begin += s->width)
        for (int again = 0; again < LINE; again += (int)s->width)
            for (int64_t c = begin; c < begin + s->width; c++)
                *lane++ = c < end ? of_channel[c] : 0;
}

void bn_panel_fold(const struct bn_shape *s, int64_t panel, const double lane[PANEL_LANES],
                   double *of_channel)
{
    int64_t first, end;
    bn_panel_channels(s, panel, &first, &end);
    for (int64_t begin = first; begin < end; begin += s->width, lane += LINE)
        for (int64_t c = begin; c < end && c < begin + s->width; c++) {
            double sum = 0;
            for (int64_t i = c - begin; i < LINE; i += s->width)
                sum += lane[i];
            of_channel[c] = sum;
        }
}
