/* Loads one image, from file to pixels. */
#include "input/sample.h"

#include "base/array.h"
#include "base/clock.h"
#include "input/decode.h"
#include "input/resize.h"
#include "input/tar.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX_BYTES (INT64_C(1) << 30)

/* First size of the buffer in bytes. The files of most photographs are smaller, so the buffer
 * rarely grows: allocating memory for a device is slow. */
#define DEVICE_FILE_BYTES ((size_t)256 << 10)

struct sample_reader {
    struct decoder *decoder;
    struct resizer resizer;
    const struct device_decoder *device; /* allocates `bytes`; NULL: malloc */
    uint8_t *bytes;                      /* of the fetched file */
    size_t size, capacity;
};

void io_stats_add(struct io_stats *sum, const struct io_stats *x)
{
    sum->files += x->files;
    sum->bytes += x->bytes;
    sum->bad += x->bad;
    sum->on_device += x->on_device;
    sum->read_ns += x->read_ns;
    sum->decode_ns += x->decode_ns;
}

enum status sample_reader_open(struct sample_reader **out)
{
    return sample_reader_open_for(NULL, out);
}

enum status sample_reader_open_for(const struct device_decoder *device, struct sample_reader **out)
{
    *out = NULL;
    struct sample_reader *r;
    TRY(array_new(&r, 1));
    r->device = device;
    enum status st = decoder_open(&r->decoder);
    if (st != STATUS_OK) {
        sample_reader_close(r);
        return st;
    }
    *out = r;
    return STATUS_OK;
}

static void free_bytes(struct sample_reader *r)
{
    if (r->device)
        r->device->free(r->device, r->bytes);
    else
        free(r->bytes);
    r->bytes = NULL;
    r->capacity = 0;
}

void sample_reader_close(struct sample_reader *r)
{
    if (!r)
        return;
    decoder_close(r->decoder);
    resizer_free(&r->resizer);
    free_bytes(r);
    free(r);
}

static enum status reserve_device(struct sample_reader *r, size_t size)
{
    size_t capacity = DEVICE_FILE_BYTES;
    while (capacity < size)
        capacity *= 2;
    void *mem;
    TRY(r->device->alloc(r->device, capacity, &mem));
    r->bytes = mem;
    r->capacity = capacity;
    return STATUS_OK;
}

static enum status reserve(struct sample_reader *r, size_t size)
{
    if (size <= r->capacity)
        return STATUS_OK;
    free_bytes(r);
    if (r->device)
        return reserve_device(r, size);
    TRY(array_new(&r->bytes, size));
    r->capacity = size;
    return STATUS_OK;
}

/* Reads `bytes` bytes of an open file from `offset`. If the file shrinks meanwhile, reads fewer,
 * and the decoder then reports a truncated image. */
static enum status load_part(struct sample_reader *r, int fd, int64_t offset, int64_t bytes,
                             size_t *size)
{
    if (bytes > FILE_MAX_BYTES)
        return status_fail(STATUS_DATA, "the file has %lld bytes, too many for one image",
                           (long long)bytes);
    TRY(reserve(r, (size_t)bytes));
    return tar_read(fd, offset, r->bytes, (size_t)bytes, size);
}

static enum status load_file(struct sample_reader *r, struct image_file f, size_t *size)
{
    enum status st;
    /* Non-blocking: a named pipe in the data set must not block a worker. */
    int fd = openat(f.fd, f.path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return status_fail(STATUS_IO, "cannot open: %s", strerror(errno));
    struct stat s;
    if (fstat(fd, &s) != 0)
        st = status_fail(STATUS_IO, "cannot read: %s", strerror(errno));
    else if (!S_ISREG(s.st_mode))
        st = status_fail(STATUS_DATA, "not a regular file");
    else
        st = load_part(r, fd, 0, s.st_size, size);
    close(fd);
    return st;
}

enum status sample_load(struct sample_reader *r, struct image_file f, const uint8_t **bytes,
                        size_t *size)
{
    TRY(f.path ? load_file(r, f, size) : load_part(r, f.fd, f.offset, f.bytes, size));
    *bytes = r->bytes;
    return STATUS_OK;
}

enum status sample_check(struct sample_reader *r, struct image_file file, struct image_info *info,
                         int64_t *bytes)
{
    const uint8_t *data = NULL;
    size_t size = 0;
    *info = (struct image_info){0};
    enum status st = sample_load(r, file, &data, &size);
    *bytes = (int64_t)size;
    TRY(st);
    TRY(decoder_begin(r->decoder, data, size, info));
    return decoder_check(r->decoder);
}

static struct view choose_view(const struct sample_config *c, const struct image_info *info,
                               struct rng *rng)
{
    struct view v = c->train ? view_train(&c->range, c->image_size, info->width, info->height, rng)
                             : view_val(c->image_size, c->resize, info->width, info->height);
    v.x.filter = v.y.filter = c->filter;
    return v;
}

/* Returns whether a view's axis reaches the last unit of a file whose size is not a multiple of the
 * unit. Reduced decoding mixes the unit's padding into its pixels, and upsampling mixes these into
 * up to MARGIN pixels before it. */
static bool reaches_padding(const struct resize_axis *a, int pixels, int unit)
{
    enum { MARGIN = 24 };
    int begin, end, rest = pixels % unit;
    resize_axis_span(a, &begin, &end);
    return rest != 0 && end > pixels - rest - MARGIN;
}

static int choose_shrink(const struct sample_config *c, const struct image_info *info,
                         const struct view *v)
{
    if (!c->fast || info->shrink_max == 1 ||
        reaches_padding(&v->x, info->width, info->unit_width) ||
        reaches_padding(&v->y, info->height, info->unit_height))
        return 1;
    return view_shrink(v);
}

enum status sample_decode(struct sample_reader *r, const struct sample_config *c,
                          const uint8_t *bytes, size_t size, struct rng *rng,
                          struct sample_view *view)
{
    struct image_info info;
    TRY(decoder_begin(r->decoder, bytes, size, &info));
    struct view v = choose_view(c, &info, rng);
    int shrink = choose_shrink(c, &info, &v);
    *view = (struct sample_view){
        .x = resize_axis_shrink(v.x, shrink), .y = resize_axis_shrink(v.y, shrink), .flip = v.flip};
    int left, right, top, bottom;
    resize_axis_span(&view->x, &left, &right);
    resize_axis_span(&view->y, &top, &bottom);
    struct rect want = {left, top, right - left, bottom - top};
    return decoder_read(r->decoder, shrink, want, &view->region);
}

enum status sample_resample(struct sample_reader *r, const struct sample_view *v, uint8_t *out)
{
    return resizer_run(&r->resizer, &v->x, &v->y, v->flip, &v->region, out);
}

enum status sample_fetch(struct sample_reader *r, struct image_file file, struct io_stats *stats)
{
    const uint8_t *bytes = NULL;
    uint64_t start = clock_ns();
    r->size = 0;
    enum status st = sample_load(r, file, &bytes, &r->size);
    stats->read_ns += (int64_t)(clock_ns() - start);
    stats->files += st == STATUS_OK;
    stats->bytes += st == STATUS_OK ? (int64_t)r->size : 0;
    stats->bad += st == STATUS_DATA;
    return st;
}

enum status sample_make(struct sample_reader *r, const struct sample_config *config,
                        struct rng *rng, uint8_t *out, struct io_stats *stats)
{
    struct sample_view v;
    uint64_t start = clock_ns();
    enum status st = sample_decode(r, config, r->bytes, r->size, rng, &v);
    st = st == STATUS_OK ? sample_resample(r, &v, out) : st;
    stats->decode_ns += (int64_t)(clock_ns() - start);
    stats->bad += st == STATUS_DATA;
    return st;
}

enum status sample_read(struct sample_reader *r, const struct sample_config *config,
                        struct image_file file, struct rng *rng, uint8_t *out,
                        struct io_stats *stats)
{
    TRY(sample_fetch(r, file, stats));
    return sample_make(r, config, rng, out, stats);
}

enum status sample_describe(struct sample_reader *r, const struct sample_config *config,
                            struct rng *rng, struct device_picture *picture)
{
    struct image_info info;
    TRY(decoder_begin(r->decoder, r->bytes, r->size, &info));
    if (config->filter != RESIZE_BILINEAR || !info.baseline ||
        (int64_t)info.width * info.height > DEVICE_MAX_PIXELS)
        return status_fail(STATUS_UNSUPPORTED, "only the CPU decodes this picture");
    struct view v = choose_view(config, &info, rng);
    TRY(resize_table_fill(&v.x, v.flip, &r->resizer.x));
    TRY(resize_table_fill(&v.y, false, &r->resizer.y));
    *picture = (struct device_picture){.bytes = r->bytes,
                                       .size = r->size,
                                       .width = info.width,
                                       .height = info.height,
                                       .x = &r->resizer.x,
                                       .y = &r->resizer.y,
                                       .side = config->image_size};
    return STATUS_OK;
}
