/* Prints data for the comparison with a peer (tests/peers/torchvision_input.py):
 *     views pixels FOLDER SIZE RESIZE FILTER   each validation image, SIZE x SIZE x 3 bytes; RESIZE
 *                                              0: the default
 *     views trained FOLDER SIZE FILTER N       N training views of each validation image: a line
 *                                              "x y w h flip", then SIZE x SIZE x 3 bytes
 *     views crops WIDTH HEIGHT N               N training crops, a line "x y w h flip" each
 *     views whole FILE...                      for each file the number of its pixels, 0 if it is
 *                                              refused, as 4 bytes, low byte first, and the pixels
 * FILTER is bilinear or bicubic. */
#include "base/file.h"
#include "input/augment.h"
#include "input/loader.h"
#include "input/sample.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct crop_range range = {0.08f, 1.0f, 3.0f / 4, 4.0f / 3};

static enum status pixels(const char *folder, int size, int resize, enum resize_filter filter)
{
    struct dataset *data = NULL;
    struct loader *loader = NULL;
    struct batch *b;
    enum status st = STATUS_OK;
    CHECK(dataset_open(folder, "val", &data));
    struct loader_config c = {.data = data,
                              .image_size = size,
                              .resize = resize,
                              .filter = filter,
                              .batch = 8,
                              .workers = 2,
                              .prefetch = 2,
                              .world = 1};
    CHECK(loader_open(&c, &loader));
    CHECK(loader_start(loader, 0, 0));
    for (;;) {
        CHECK(loader_next(loader, &b));
        if (!b)
            break;
        fwrite(b->pixels, (size_t)size * (size_t)size * 3, (size_t)b->count, stdout);
        loader_release(loader, b);
    }
done:
    loader_close(loader);
    dataset_free(data);
    return st;
}

static void print_crop(int size, int width, int height, uint64_t i)
{
    struct rng rng = rng_at(11, RNG_AUGMENT, 0, i);
    struct view v = view_train(&range, size, width, height, &rng);
    printf("%d %d %d %d %d\n", v.x.lo, v.y.lo, v.x.hi - v.x.lo, v.y.hi - v.y.lo, v.flip);
}

static enum status trained(const char *folder, int size, enum resize_filter filter, int n)
{
    struct dataset *data = NULL;
    struct image_files files = {.folder = -1};
    struct sample_reader *reader = NULL;
    struct sample_config c = {.train = true, .image_size = size, .range = range, .filter = filter};
    size_t bytes = (size_t)size * (size_t)size * 3;
    uint8_t *out = malloc(bytes);
    enum status st = out ? STATUS_OK : STATUS_OOM;
    CHECK(st);
    CHECK(dataset_open(folder, "val", &data));
    CHECK(image_files_open(data, &files));
    CHECK(sample_reader_open(&reader));
    for (int64_t k = 0; k < data->n; k++)
        for (int i = 0; i < n; i++) {
            struct rng rng = rng_at(11, RNG_AUGMENT, 0, (uint64_t)i);
            struct io_stats stats = {0};
            struct image_info info;
            int64_t size_read;
            CHECK(sample_check(reader, image_files_at(&files, k), &info, &size_read));
            CHECK(sample_read(reader, &c, image_files_at(&files, k), &rng, out, &stats));
            print_crop(size, info.width, info.height, (uint64_t)i);
            fwrite(out, bytes, 1, stdout);
        }
done:
    free(out);
    sample_reader_close(reader);
    image_files_close(&files);
    dataset_free(data);
    return st;
}

static enum resize_filter filter_of(const char *name)
{
    return strcmp(name, "bicubic") == 0 ? RESIZE_BICUBIC : RESIZE_BILINEAR;
}

static enum status decode(const char *path, struct decoder *d, struct region *r)
{
    static char *bytes;
    size_t length;
    struct image_info info;
    free(bytes);
    bytes = NULL;
    TRY(file_read(path, 1 << 28, &bytes, &length));
    TRY(decoder_begin(d, (uint8_t *)bytes, length, &info));
    return decoder_read(d, 1, (struct rect){0, 0, info.width, info.height}, r);
}

static enum status whole(char **path, int n)
{
    struct decoder *d = NULL;
    TRY(decoder_open(&d));
    for (int i = 0; i < n; i++) {
        struct region r = {0};
        enum status st = decode(path[i], d, &r);
        uint32_t pixels = st == STATUS_OK ? (uint32_t)(r.at.w * r.at.h) : 0;
        fwrite(&pixels, sizeof pixels, 1, stdout);
        fwrite(r.pixels, 3, pixels, stdout);
    }
    decoder_close(d);
    return STATUS_OK;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    enum status st = STATUS_OK;
    if (strcmp(what, "pixels") == 0 && argc == 6)
        st = pixels(argv[2], atoi(argv[3]), atoi(argv[4]), filter_of(argv[5]));
    else if (strcmp(what, "trained") == 0 && argc == 6)
        st = trained(argv[2], atoi(argv[3]), filter_of(argv[4]), atoi(argv[5]));
    else if (strcmp(what, "whole") == 0)
        st = whole(argv + 2, argc - 2);
    else if (strcmp(what, "crops") == 0 && argc == 5)
        for (int i = 0; i < atoi(argv[4]); i++)
            print_crop(64, atoi(argv[2]), atoi(argv[3]), (uint64_t)i);
    else
        st = status_fail(STATUS_USAGE, "unknown arguments; tests/input/views.c lists the commands");
    if (st != STATUS_OK)
        fprintf(stderr, "views: %s\n", status_message());
    return status_exit_code(st);
}
