/* The images that input is measured with: on disk, in memory, decoded, and in the page cache. */
#include "bench/input.h"

#include "base/file.h"
#include "base/host.h"
#include "base/stop.h"
#include "input/synth.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CLASSES = 8, FILE_MAX = 1 << 30 };

uint64_t input_sum(const uint8_t *bytes, size_t n)
{
    return hash_bytes(0, bytes, n);
}

struct rng input_rng(int64_t i)
{
    return rng_at(0, RNG_AUGMENT, 0, (uint64_t)i);
}

/* --- the set --- */

/* A folder of its own, which does not lie in memory where temporary files do. */
static enum status make_set(const struct input_config *c, struct input_set *set)
{
    const char *where = getenv("TMPDIR");
    char dir[sizeof set->made];
    int each = (c->images + CLASSES - 1) / CLASSES;
    stop_install(); /* the folder does not outlive the process */
    TRY(path_format(dir, sizeof dir, "%s/ampscale-input-XXXXXX", where ? where : "/var/tmp"));
    TRY(dir_make_temporary(dir, &set->held));
    TRY(path_format(set->made, sizeof set->made, "%s", dir));
    const struct synth_config synth = {.out = dir,
                                       .classes = CLASSES,
                                       .train = each,
                                       .val = 1,
                                       .size = c->size,
                                       .workers = host_cores(),
                                       .go_on = stop_check};
    return synth_write(&synth);
}

/* Every k-th image, so that all classes are met. */
static enum status choose_images(const struct input_config *c, struct input_set *set)
{
    const struct dataset *all = set->all;
    int64_t n = c->images < all->n ? c->images : all->n;
    struct sample *sample = calloc((size_t)n, sizeof *sample);
    set->image = calloc((size_t)n, sizeof *set->image);
    set->data = *all;
    set->data.n = n;
    set->data.sample = sample;
    if (!sample || !set->image)
        return status_fail(STATUS_OOM, "no memory for %lld images", (long long)n);
    for (int64_t i = 0; i < n; i++)
        sample[i] = all->sample[i * all->n / n];
    set->dir = open(all->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return set->dir >= 0
               ? STATUS_OK
               : status_fail(STATUS_IO, "cannot open folder '%s': %s", all->root, strerror(errno));
}

/* --- what has to come of an image --- */

/* By another way than the loader's. */
static enum status keep_bytes(const struct input_set *set, int64_t i, struct input_image *image)
{
    char path[8192], *bytes;
    TRY(path_format(path, sizeof path, "%s/%s", set->data.root, dataset_path(&set->data, i)));
    TRY(file_read(path, FILE_MAX, &bytes, &image->size));
    image->bytes = (uint8_t *)bytes;
    image->bytes_sum = input_sum(image->bytes, image->size);
    return STATUS_OK;
}

/* Decoded pixels that outlive the decoder's next image. */
static enum status keep_view(const struct input_set *set, struct sample_reader *reader, int64_t i,
                             struct input_image *image)
{
    struct rng rng = input_rng(i);
    struct region *region = &image->view.region;
    TRY(sample_decode(reader, &set->sample, image->bytes, image->size, &rng, &image->view));
    size_t line = (size_t)region->at.w * 3;
    image->pixels = malloc(line * (size_t)region->at.h);
    if (!image->pixels)
        return status_fail(STATUS_OOM, "no memory for %lld decoded images; give fewer --images",
                           (long long)set->data.n);
    for (int y = 0; y < region->at.h; y++)
        memcpy(image->pixels + (size_t)y * line, region->pixels + (size_t)y * region->stride, line);
    region->pixels = image->pixels;
    region->stride = line;
    return STATUS_OK;
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
    TRY(sample_read(reader, &set->sample, set->dir, dataset_path(&set->data, i), &rng, pixels,
                    &stats));
    image->pixels_sum = input_sum(pixels, 3 * size * size);
    set->bytes += stats.bytes;
    return keep_view(set, reader, i, image);
}

static enum status learn(struct input_set *set)
{
    struct sample_reader *reader;
    size_t size = (size_t)set->sample.image_size;
    TRY(sample_reader_open(&reader));
    uint8_t *pixels = malloc(3 * size * size);
    enum status st =
        pixels ? STATUS_OK : status_fail(STATUS_OOM, "no memory for an image of %zu pixels", size);
    for (int64_t i = 0; i < set->data.n && st == STATUS_OK; i++) {
        st = learn_one(set, reader, pixels, i);
        if (st == STATUS_DATA || st == STATUS_IO)
            st = status_context(st, "cannot measure with '%s/%s'", set->data.root,
                                dataset_path(&set->data, i));
    }
    free(pixels);
    sample_reader_close(reader);
    return st;
}

enum status input_set_open(const struct input_config *c, struct input_set *set)
{
    *set = (struct input_set){.dir = -1,
                              .sample = {.train = true,
                                         .image_size = c->image_size,
                                         .range = {0.08f, 1, 3.0f / 4, 4.0f / 3}}};
    if (!c->data)
        TRY(make_set(c, set));
    TRY(dataset_open(c->data ? c->data : set->made, "train", &set->all));
    TRY(choose_images(c, set));
    return learn(set);
}

enum status input_set_close(struct input_set *set)
{
    enum status st = STATUS_OK;
    for (int64_t i = 0; set->image && i < set->data.n; i++) {
        free(set->image[i].bytes);
        free(set->image[i].pixels);
    }
    free(set->image);
    free(set->data.sample);
    if (set->data.root[0] && set->dir >= 0)
        close(set->dir);
    dataset_free(set->all);
    if (set->made[0]) {
        st = dir_remove(set->made);
        close(set->held);
    }
    *set = (struct input_set){0};
    return st;
}

/* --- the page cache --- */

/* Calls `act` with each file, open. */
static enum status each_file(const struct input_set *set,
                             enum status (*act)(int fd, const struct stat *s, void *context),
                             void *context)
{
    for (int64_t i = 0; i < set->data.n; i++) {
        struct stat s;
        int fd = openat(set->dir, dataset_path(&set->data, i), O_RDONLY | O_CLOEXEC);
        enum status st = fd >= 0 && fstat(fd, &s) == 0
                             ? act(fd, &s, context)
                             : status_fail(STATUS_IO, "cannot open '%s/%s': %s", set->data.root,
                                           dataset_path(&set->data, i), strerror(errno));
        if (fd >= 0)
            close(fd);
        TRY(st);
    }
    return STATUS_OK;
}

/* Pages that are not yet on disk stay. Both calls are requests: what came of them is looked at. */
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
        p->cached += !known || (in[i] & 1); /* what cannot be told does not count as dropped */
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
