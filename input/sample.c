/* One image, from file to pixels. */
#include "input/sample.h"

#include "base/clock.h"
#include "input/decode.h"
#include "input/resize.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX_BYTES ((off_t)1 << 30)

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
    struct sample_reader *r = calloc(1, sizeof *r);
    if (!r)
        return status_fail(STATUS_OOM, "no memory to read images");
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

/* A file that shrinks while it is read counts as what was got: decoding judges it. */
static enum status read_bytes(int fd, uint8_t *bytes, size_t size, size_t *got)
{
    *got = 0;
    while (*got < size) {
        ssize_t n = read(fd, bytes + *got, size - *got);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return status_fail(STATUS_IO, "cannot read: %s", strerror(errno));
        if (n == 0)
            break;
        *got += (size_t)n;
    }
    return STATUS_OK;
}

enum status sample_load(struct sample_reader *r, int dir, const char *path, const uint8_t **bytes,
                        size_t *size)
{
    enum status st = STATUS_OK;
    /* A named pipe in the data set must not stop a worker. */
    int fd = openat(dir, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return status_fail(STATUS_IO, "cannot open: %s", strerror(errno));
    struct stat s;
    if (fstat(fd, &s) != 0) {
        st = status_fail(STATUS_IO, "cannot read: %s", strerror(errno));
        goto done;
    }
    if (!S_ISREG(s.st_mode)) {
        st = status_fail(STATUS_DATA, "not a regular file");
        goto done;
    }
    if (s.st_size > FILE_MAX_BYTES) {
        st =
            status_fail(STATUS_DATA, "%lld bytes are too many for one image", (long long)s.st_size);
        goto done;
    }
    CHECK(reserve(r, (size_t)s.st_size));
    CHECK(read_bytes(fd, r->bytes, (size_t)s.st_size, size));
    *bytes = r->bytes;
done:
    close(fd);
    return st;
}

enum status sample_check(struct sample_reader *r, int dir, const char *path, struct jpeg_info *info,
                         int64_t *bytes)
{
    const uint8_t *data = NULL;
    size_t size = 0;
    *info = (struct jpeg_info){0};
    enum status st = sample_load(r, dir, path, &data, &size);
    *bytes = (int64_t)size;
    TRY(st);
    TRY(decoder_begin(r->decoder, data, size, info));
    return decoder_check(r->decoder);
}

enum status sample_decode(struct sample_reader *r, const struct sample_config *c,
                          const uint8_t *bytes, size_t size, struct rng *rng,
                          struct sample_view *view)
{
    struct jpeg_info info;
    TRY(decoder_begin(r->decoder, bytes, size, &info));
    struct view v = c->train ? view_train(&c->range, c->image_size, info.width, info.height, rng)
                             : view_val(c->image_size, c->resize, info.width, info.height);
    int shrink = view_shrink(&v);
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

enum status sample_read(struct sample_reader *r, const struct sample_config *config, int dir,
                        const char *path, struct rng *rng, uint8_t *out, struct io_stats *stats)
{
    const uint8_t *bytes = NULL;
    size_t size = 0;
    uint64_t start = clock_ns();
    enum status st = sample_load(r, dir, path, &bytes, &size);
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
