/* Prepares the images for bench input: on disk, in memory and decoded. Drops them from the page
 * cache. */
#include "bench/input.h"

#include "base/array.h"
#include "base/file.h"
#include "base/host.h"
#include "base/stop.h"
#include "engine/device_input.h"
#include "input/synth.h"
#include "kernels/backend.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CLASSES = 8, FILE_MAX = 1 << 30 };

struct rng input_rng(int64_t i)
{
    return rng_at(0, RNG_AUGMENT, 0, (uint64_t)i);
}

/* --- the set --- */

/* Generates the set in a temporary folder in TMPDIR or, if that is not set, in /var/tmp. /tmp is
 * not used, because it may be in memory. */
static enum status make_set(const struct input_config *c, struct input_set *set)
{
    int each = (c->images + CLASSES - 1) / CLASSES;
    stop_install(); /* so that a signal does not leave the folder behind */
    TRY(temporary_dir_make(&set->made, "/var/tmp", "ampscale-input"));
    const struct synth_config synth = {.out = set->made.path,
                                       .classes = CLASSES,
                                       .train = each,
                                       .val = 1,
                                       .size = c->size,
                                       .workers = host_cores(),
                                       .proceed = stop_check};
    return synth_write(&synth);
}

/* --- expected results of an image --- */

/* Reads the image's file, with functions that the loader does not use, so that the check is
 * independent of the loader. */
static enum status keep_bytes(const struct input_set *set, int64_t i, struct input_image *image)
{
    char path[8192], *bytes;
    const struct sample *s = &set->data.sample[i];
    if (set->data.shards > 0) {
        image->size = (size_t)s->bytes;
        TRY(array_new(&image->bytes, s->bytes));
        FILE *f = fopen(set->data.shard[s->shard], "rb");
        bool read = f && fseeko(f, s->offset, SEEK_SET) == 0 &&
                    fread(image->bytes, 1, image->size, f) == image->size;
        if (f)
            fclose(f);
        if (!read)
            return status_fail(STATUS_IO, "cannot read '%s'", set->data.shard[s->shard]);
    } else {
        TRY(path_format(path, sizeof path, "%s/%s", set->data.root, dataset_path(&set->data, i)));
        TRY(file_read(path, FILE_MAX, &bytes, &image->size));
        image->bytes = (uint8_t *)bytes;
    }
    image->bytes_sum = hash_bytes(0, image->bytes, image->size);
    return STATUS_OK;
}

/* Decodes the image and copies its pixels, because the decoder overwrites them with the next
 * image. */
static enum status keep_view(const struct input_set *set, struct sample_reader *reader, int64_t i,
                             struct input_image *image)
{
    struct rng rng = input_rng(i);
    struct region *region = &image->view.region;
    TRY(sample_decode(reader, &set->sample, image->bytes, image->size, &rng, &image->view));
    size_t line = (size_t)region->at.w * 3;
    TRY(array_new(&image->pixels, line * (size_t)region->at.h));
    for (int y = 0; y < region->at.h; y++)
        memcpy(image->pixels + (size_t)y * line, region->pixels + (size_t)y * region->stride, line);
    region->pixels = image->pixels;
    region->stride = line;
    return STATUS_OK;
}

enum status input_set_name(const struct input_set *set, int64_t i, enum status st)
{
    if (st != STATUS_DATA && st != STATUS_IO)
        return st;
    return status_context(st, "cannot use the image '%s/%s'", set->data.root,
                          dataset_path(&set->data, i));
}

static enum status learn_one(struct input_set *set, struct sample_reader *reader, uint8_t *pixels,
                             int64_t i)
{
    struct input_image *image = &set->image[i];
    struct io_stats stats = {0};
    struct rng rng = input_rng(i);
    size_t size = (size_t)set->sample.image_size;
    TRY(stop_check());
    TRY(keep_bytes(set, i, image));
    TRY(sample_read(reader, &set->sample, image_files_at(&set->files, i), &rng, pixels, &stats));
    image->pixels_sum = hash_bytes(0, pixels, 3 * size * size);
    set->bytes += stats.bytes;
    return keep_view(set, reader, i, image);
}

static enum status input_set_learn(struct input_set *set)
{
    struct sample_reader *reader;
    size_t size = (size_t)set->sample.image_size;
    TRY(sample_reader_open(&reader));
    uint8_t *pixels;
    enum status st = array_new(&pixels, 3 * size * size);
    for (int64_t i = 0; i < set->data.n && st == STATUS_OK; i++)
        st = input_set_name(set, i, learn_one(set, reader, pixels, i));
    free(pixels);
    sample_reader_close(reader);
    return st;
}

/* Opens the GPU `device`, and the GPU's decoder if the GPU has one. Does nothing if `device` is
 * NULL. */
static enum status open_decoder(const char *device, struct input_set *set)
{
    if (!device)
        return STATUS_OK;
    TRY(device_open(device, 1, &set->device));
    enum status st = gpu_decoder_open(set->device, &set->decoder);
    if (st == STATUS_UNSUPPORTED)
        snprintf(set->no_decoder, sizeof set->no_decoder, "none: %s", status_message());
    return st == STATUS_UNSUPPORTED ? STATUS_OK : st;
}

enum status input_set_open(const struct input_config *c, struct input_set *set)
{
    *set = (struct input_set){.sample = {.train = true,
                                         .image_size = c->options.image_size,
                                         .range = {0.08f, 1, 3.0f / 4, 4.0f / 3},
                                         .fast = c->fast}};
    TRY(open_decoder(c->device, set));
    if (!c->data)
        TRY(make_set(c, set));
    TRY(dataset_open(c->data ? c->data : set->made.path, "train", &set->all));
    /* Chooses images at equal distances in the set, so that all classes occur. */
    const struct dataset *all = set->all;
    int64_t n = c->images < all->n ? c->images : all->n;
    struct sample *sample;
    TRY(array_new(&sample, n));
    set->data = *all;
    set->data.n = n;
    set->data.sample = sample;
    TRY(array_new(&set->image, n));
    for (int64_t i = 0; i < n; i++)
        sample[i] = all->sample[i * all->n / n];
    TRY(image_files_open(&set->data, &set->files));
    return input_set_learn(set);
}

enum status input_set_close(struct input_set *set)
{
    for (int64_t i = 0; set->image && i < set->data.n; i++) {
        free(set->image[i].bytes);
        free(set->image[i].pixels);
    }
    free(set->image);
    gpu_decoder_drop(set->decoder);
    device_close(set->device);
    free(set->data.sample);
    image_files_close(&set->files);
    dataset_free(set->all);
    enum status st = temporary_dir_remove(&set->made);
    *set = (struct input_set){0};
    return st;
}

/* --- the page cache --- */

/* Opens each file, an image or a whole archive, and calls `act` with it. */
static enum status each_file(const struct input_set *set,
                             enum status (*act)(int fd, const struct stat *s, void *context),
                             void *context)
{
    const struct dataset *data = &set->data;
    for (int64_t i = 0; i < (data->shards ? data->shards : data->n); i++) {
        struct stat s;
        const char *path = data->shards ? data->shard[i] : dataset_path(data, i);
        int fd = openat(data->shards ? AT_FDCWD : set->files.folder, path, O_RDONLY | O_CLOEXEC);
        enum status st =
            fd >= 0 && fstat(fd, &s) == 0
                ? act(fd, &s, context)
                : status_fail(STATUS_IO, "cannot open '%s%s%s': %s", data->shards ? "" : data->root,
                              data->shards ? "" : "/", path, strerror(errno));
        fd_close(&fd);
        TRY(st);
    }
    return STATUS_OK;
}

/* Drops a file from the page cache. Syncs the file first, because the page cache keeps pages that
 * are not yet on disk. The system may ignore both requests; input_set_cached measures their
 * effect. */
static enum status drop_one(int fd, const struct stat *s, void *context)
{
    (void)s, (void)context;
    fdatasync(fd);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    return STATUS_OK;
}

enum status input_set_drop(const struct input_set *set)
{
    return each_file(set, drop_one, NULL);
}

struct pages {
    size_t all, cached;
};

static enum status count_pages(int fd, const struct stat *s, void *context)
{
    struct pages *p = context;
    size_t page = (size_t)sysconf(_SC_PAGESIZE), n = ((size_t)s->st_size + page - 1) / page;
    if (n == 0)
        return STATUS_OK;
    unsigned char *in = malloc(n);
    void *map = mmap(NULL, (size_t)s->st_size, PROT_READ, MAP_SHARED, fd, 0);
    bool known = in && map != MAP_FAILED && mincore(map, (size_t)s->st_size, in) == 0;
    for (size_t i = 0; i < n; i++)
        p->cached += !known || (in[i] & 1); /* an unknown page counts as cached */
    p->all += n;
    if (map != MAP_FAILED)
        munmap(map, (size_t)s->st_size);
    free(in);
    return STATUS_OK;
}

enum status input_set_cached(const struct input_set *set, double *share)
{
    struct pages p = {0};
    TRY(each_file(set, count_pages, &p));
    *share = p.all ? (double)p.cached / (double)p.all : 1;
    return STATUS_OK;
}
