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

struct sample_reader {
    struct decoder *decoder;
    struct resizer resizer;
    uint8_t *bytes;
    size_t capacity;
};

void io_stats_add(struct io_stats *sum, const struct io_stats *x)
{
    sum->files += x->files;
    sum->bytes += x->bytes;
    sum->bad += x->bad;
    sum->read_ns += x->read_ns;
    sum->decode_ns += x->decode_ns;
}

enum status sample_reader_open(struct sample_reader **out)
{
    *out = NULL;
    struct sample_reader *r;
    TRY(array_new(&r, 1));
    enum status st = decoder_open(&r->decoder);
    if (st != STATUS_OK) {
        sample_reader_close(r);
        return st;
    }
    *out = r;
    return STATUS_OK;
}

void sample_reader_close(struct sample_reader *r)
{
    if (!r)
        return;
    decoder_close(r->decoder);
    resizer_free(&r->resizer);
    free(r->bytes);
    free(r);
}

static enum status reserve(struct sample_reader *r, size_t size)
{
    if (size <= r->capacity)
        return STATUS_OK;
    free(r->bytes);
    r->capacity = 0;
    r->bytes = malloc(size);
    if (!r->bytes)
        return status_fail(STATUS_OOM, "no memory for a file of %zu bytes", size);
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

enum status sample_decode(struct sample_reader *r, const struct sample_config *c,
                          const uint8_t *bytes, size_t size, struct rng *rng,
                          struct sample_view *view)
{
    struct image_info info;
    TRY(decoder_begin(r->decoder, bytes, size, &info));
    struct view v = c->train ? view_train(&c->range, c->image_size, info.width, info.height, rng)
                             : view_val(c->image_size, c->resize, info.width, info.height);
    int shrink = view_shrink(&v);
    if (shrink > info.shrink_max)
        shrink = info.shrink_max;
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

static enum status decode_view(struct sample_reader *r, const struct sample_config *c,
                               const uint8_t *bytes, size_t size, struct rng *rng, uint8_t *out)
{
    struct sample_view v;
    TRY(sample_decode(r, c, bytes, size, rng, &v));
    return sample_resample(r, &v, out);
}

enum status sample_read(struct sample_reader *r, const struct sample_config *config,
                        struct image_file file, struct rng *rng, uint8_t *out,
                        struct io_stats *stats)
{
    const uint8_t *bytes = NULL;
    size_t size = 0;
    uint64_t start = clock_ns();
    enum status st = sample_load(r, file, &bytes, &size);
    uint64_t loaded = clock_ns();
    stats->read_ns += (int64_t)(loaded - start);
    if (st == STATUS_OK) {
        stats->files++;
        stats->bytes += (int64_t)size;
        st = decode_view(r, config, bytes, size, rng, out);
        stats->decode_ns += (int64_t)(clock_ns() - loaded);
    }
    stats->bad += st == STATUS_DATA;
    return st;
}
