/* Finds the format of each image by its first bytes, and passes the image to the decoder of that
 * format. */
#include "input/decode.h"

#include "base/array.h"
#include "input/decode_format.h"

#include <string.h>

struct decoder {
    void *own[IMAGE_FORMATS]; /* state of each format's decoder, opened at the first image of that
                               * format */
    struct image_info info;   /* properties of the current image */
};

/* The formats by number. `code` is NULL if this build lacks the format's library. */
static const struct {
    const char *name, *library;
    const struct decode_format *code;
} formats[IMAGE_FORMATS] = {
    [IMAGE_OTHER] = {.name = "other"},
    [IMAGE_JPEG] = {"JPEG", "libjpeg", &decode_jpeg},
#if AMPSCALE_PNG
    [IMAGE_PNG] = {"PNG", "libpng", &decode_png},
#else
    [IMAGE_PNG] = {"PNG", "libpng"},
#endif
};

const char *image_format_str(enum image_format format)
{
    return formats[format].name;
}

const char *image_format_lacks(enum image_format format)
{
    return formats[format].code ? NULL : formats[format].library;
}

static bool begins(const uint8_t *bytes, size_t size, const char *magic, size_t n)
{
    return size >= n && memcmp(bytes, magic, n) == 0;
}

static enum image_format format_of(const uint8_t *bytes, size_t size)
{
    if (begins(bytes, size, "\xff\xd8\xff", 3))
        return IMAGE_JPEG;
    return begins(bytes, size, "\x89PNG\r\n\x1a\n", 8) ? IMAGE_PNG : IMAGE_OTHER;
}

/* Returns STATUS_DATA for a file that no decoder can read. The message names the file's format if
 * it is known. */
static enum status refuse(enum image_format format, const uint8_t *bytes, size_t size)
{
    static const struct {
        const char *magic;
        size_t size;
        const char *name;
        size_t at; /* bytes before the magic */
    } known[] = {
        {"GIF8", 4, "GIF"},   {"BM", 2, "BMP"},       {"II*\0", 4, "TIFF"},
        {"MM\0*", 4, "TIFF"}, {"WEBP", 4, "WebP", 8},
    };
    if (format != IMAGE_OTHER)
        return status_fail(STATUS_DATA, "a %s file, and this build lacks %s", formats[format].name,
                           formats[format].library);
    if (size == 0)
        return status_fail(STATUS_DATA, "an empty file");
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (size > known[i].at &&
            begins(bytes + known[i].at, size - known[i].at, known[i].magic, known[i].size))
            return status_fail(STATUS_DATA, "a %s file, not a JPEG or PNG", known[i].name);
    return status_fail(STATUS_DATA, "not a JPEG or PNG file");
}

enum status decoder_open(struct decoder **out)
{
    *out = NULL;
    struct decoder *d;
    TRY(array_new(&d, 1));
    enum status st = decode_jpeg.open(&d->own[IMAGE_JPEG]);
    if (st != STATUS_OK) {
        decoder_close(d);
        return st;
    }
    *out = d;
    return STATUS_OK;
}

void decoder_close(struct decoder *d)
{
    for (int f = 0; d && f < IMAGE_FORMATS; f++)
        if (d->own[f])
            formats[f].code->close(d->own[f]);
    free(d);
}

static enum status begin(struct decoder *d, const uint8_t *bytes, size_t size,
                         struct image_info *info)
{
    const struct decode_format *code = formats[info->format].code;
    if (!code)
        return refuse(info->format, bytes, size);
    if (!d->own[info->format])
        TRY(code->open(&d->own[info->format]));
    return code->begin(d->own[info->format], bytes, size, info);
}

/* Checks that a file without an end marker has all pixels, even if only its top will be decoded. */
static enum status check_unended(struct decoder *d, const uint8_t *bytes, size_t size,
                                 struct image_info *info)
{
    enum status st = decoder_check(d);
    if (st == STATUS_DATA)
        return status_fail(st, "truncated: the end marker is missing");
    return st == STATUS_OK ? begin(d, bytes, size, info) : st;
}

enum status decoder_begin(struct decoder *d, const uint8_t *bytes, size_t size,
                          struct image_info *info)
{
    enum image_format format = format_of(bytes, size);
    *info = (struct image_info){.format = format};
    enum status st = begin(d, bytes, size, info);
    d->info = *info;
    if (st == STATUS_OK && !info->ended)
        st = check_unended(d, bytes, size, info);
    if (st != STATUS_OK)
        *info = d->info = (struct image_info){.format = format};
    return st;
}

static enum status read_part(struct decoder *d, int shrink, struct rect want, bool keep,
                             struct region *out)
{
    enum image_format format = d->info.format;
    return formats[format].code->read(d->own[format], shrink, want, keep, out);
}

enum status decoder_read(struct decoder *d, int shrink, struct rect want, struct region *out)
{
    int width = (d->info.width + shrink - 1) / shrink;
    int height = (d->info.height + shrink - 1) / shrink;
    if (want.x < 0 || want.y < 0 || want.w < 1 || want.h < 1 || want.w > width - want.x ||
        want.h > height - want.y)
        return status_fail(STATUS_INVALID, "rectangle %dx%d+%d+%d is not within %dx%d pixels",
                           want.w, want.h, want.x, want.y, width, height);
    if (shrink > d->info.shrink_max)
        return status_fail(STATUS_INVALID, "a %s picture cannot be decoded at 1/%d of its size",
                           formats[d->info.format].name, shrink);
    return read_part(d, shrink, want, true, out);
}

enum status decoder_check(struct decoder *d)
{
    struct rect all = {0, 0, d->info.width, d->info.height};
    struct region unused;
    return read_part(d, 1, all, false, &unused);
}
