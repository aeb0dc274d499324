/* Decodes WebP files with libwebp. */
#include "base/array.h"
#include "input/decode_format.h"

#include <string.h>
#include <webp/decode.h>

enum {
    RIFF = 12,  /* bytes before the first chunk: "RIFF", size, "WEBP" */
    CHUNK = 8,  /* bytes of a chunk before its data: type, length */
    FRAME = 16, /* bytes of an animation frame before the frame's picture */
    EDGE = 2,   /* number of pixels at a cropped edge that differ from those of the whole picture,
                 * because the upsampling lacks their neighbours */
};

struct webp_decoder {
    const uint8_t *bytes; /* the file, or the chunks of an animation's first frame */
    size_t size;
    struct rect frame, canvas; /* `frame`: the rectangle of the canvas that the picture in `bytes`
                                * fills; the rest of the canvas is black */
    uint8_t *pixels;
    size_t capacity;
};

static enum status open_webp(void **out)
{
    struct webp_decoder *d;
    enum status st = array_new(&d, 1);
    *out = d;
    return st;
}

static void close_webp(void *own)
{
    struct webp_decoder *d = own;
    free(d->pixels);
    free(d);
}

/* Converts `code` to a status with a message. */
static enum status webp_status(VP8StatusCode code)
{
    switch (code) {
    case VP8_STATUS_OK:
        return STATUS_OK;
    case VP8_STATUS_OUT_OF_MEMORY:
        return status_fail(STATUS_OOM, "no memory to decode a WebP image");
    case VP8_STATUS_UNSUPPORTED_FEATURE:
        return status_fail(STATUS_DATA, "a WebP file of a kind that libwebp cannot decode");
    case VP8_STATUS_SUSPENDED:
    case VP8_STATUS_NOT_ENOUGH_DATA:
        return status_fail(STATUS_DATA, "damaged WebP: its data end too early");
    default:
        return status_fail(STATUS_DATA, "damaged WebP");
    }
}

static uint32_t little_endian(const uint8_t *p, int bytes)
{
    uint32_t value = 0;
    for (int i = 0; i < bytes; i++)
        value |= (uint32_t)p[i] << (8 * i);
    return value;
}

/* Sets d->bytes and d->frame to the first frame of an animation. */
static enum status find_frame(struct webp_decoder *d)
{
    for (size_t at = RIFF; d->size - at >= CHUNK;) {
        const uint8_t *data = d->bytes + at + CHUNK;
        size_t length = little_endian(d->bytes + at + 4, 4), left = d->size - at - CHUNK;
        if (length > left)
            break;
        if (memcmp(data - CHUNK, "ANMF", 4) == 0 && length >= FRAME) {
            d->frame = (struct rect){
                2 * (int)little_endian(data, 3), 2 * (int)little_endian(data + 3, 3),
                1 + (int)little_endian(data + 6, 3), 1 + (int)little_endian(data + 9, 3)};
            d->bytes = data + FRAME;
            d->size = length - FRAME;
            return STATUS_OK;
        }
        if (length + length % 2 > left) /* chunks are padded to an even length */
            break;
        at += CHUNK + length + length % 2;
    }
    return status_fail(STATUS_DATA, "damaged WebP: an animation without a frame");
}

/* Checks that the frame has the size that the animation's header states, and that it lies on the
 * canvas. */
static enum status check_frame(const struct webp_decoder *d)
{
    WebPBitstreamFeatures f;
    TRY(webp_status(WebPGetFeatures(d->bytes, d->size, &f)));
    const struct rect *r = &d->frame;
    if (f.has_animation || f.width != r->w || f.height != r->h || r->x > d->canvas.w - r->w ||
        r->y > d->canvas.h - r->h)
        return status_fail(STATUS_DATA, "damaged WebP: a frame that does not fit its animation");
    return STATUS_OK;
}

static enum status begin_webp(void *own, const uint8_t *bytes, size_t size, struct image_info *info)
{
    struct webp_decoder *d = own;
    WebPBitstreamFeatures f;
    uint64_t whole = (uint64_t)little_endian(bytes + 4, 4) + CHUNK;
    if (whole > size)
        return status_fail(STATUS_DATA, "truncated: %zu of %llu bytes", size,
                           (unsigned long long)whole);
    d->bytes = bytes;
    d->size = whole < RIFF ? RIFF : (size_t)whole;
    TRY(webp_status(WebPGetFeatures(d->bytes, d->size, &f)));
    TRY(decode_check_pixels(f.width, f.height));
    d->canvas = d->frame = (struct rect){0, 0, f.width, f.height};
    if (f.has_animation) {
        TRY(find_frame(d));
        TRY(check_frame(d));
    }
    info->width = f.width;
    info->height = f.height;
    info->shrink_max = 1; /* libwebp can reduce a picture, but first decodes every pixel */
    return STATUS_OK;
}

static struct rect intersection(struct rect a, struct rect b)
{
    int left = a.x > b.x ? a.x : b.x, right = a.x + a.w < b.x + b.w ? a.x + a.w : b.x + b.w;
    int top = a.y > b.y ? a.y : b.y, bottom = a.y + a.h < b.y + b.h ? a.y + a.h : b.y + b.h;
    return (struct rect){left, top, right > left ? right - left : 0,
                         bottom > top ? bottom - top : 0};
}

/* Returns `want` enlarged by EDGE pixels on each side, within the canvas. The result's left and top
 * are even, since the library crops at even pixels. */
static struct rect widen(const struct webp_decoder *d, struct rect want)
{
    int left = (want.x - EDGE) & ~1, top = (want.y - EDGE) & ~1;
    struct rect r = {left, top, want.x + want.w + EDGE - left, want.y + want.h + EDGE - top};
    return intersection(r, d->canvas);
}

/* Decodes the rectangle `from`, in coordinates of the canvas, into `region`. The rectangle must lie
 * within the frame. */
static enum status decode(struct webp_decoder *d, struct rect from, const struct region *region)
{
    WebPDecoderConfig c;
    if (!WebPInitDecoderConfig(&c))
        return status_fail(STATUS_LIBRARY, "the versions of libwebp and of its header differ");
    c.options.use_cropping = 1;
    c.options.crop_left = from.x - d->frame.x;
    c.options.crop_top = from.y - d->frame.y;
    c.options.crop_width = from.w;
    c.options.crop_height = from.h;
    size_t at = (size_t)(from.y - region->at.y) * region->stride +
                (size_t)(from.x - region->at.x) * DECODE_RGB;
    c.output.colorspace = MODE_RGB;
    c.output.is_external_memory = 1;
    c.output.u.RGBA.rgba = d->pixels + at;
    c.output.u.RGBA.stride = (int)region->stride;
    c.output.u.RGBA.size = region->stride * (size_t)region->at.h - at;
    return webp_status(WebPDecode(d->bytes, d->size, &c));
}

static enum status read_webp(void *own, int shrink, struct rect want, bool keep, struct region *out)
{
    struct webp_decoder *d = own;
    (void)shrink;
    struct region r = {.at = widen(d, want)};
    struct rect from = intersection(r.at, d->frame);
    r.stride = (size_t)r.at.w * DECODE_RGB;
    size_t bytes = r.stride * (size_t)r.at.h;
    if (!decode_reserve(&d->pixels, &d->capacity, bytes))
        return status_fail(STATUS_OOM, "no memory for an image's pixels");
    r.pixels = d->pixels;
    if (from.w != r.at.w || from.h != r.at.h)
        memset(d->pixels, 0, bytes);
    if (from.w > 0 && from.h > 0)
        TRY(decode(d, from, &r));
    if (keep)
        *out = r;
    return STATUS_OK;
}

const struct decode_format decode_webp = {open_webp, close_webp, begin_webp, read_webp};
