/* Tests a loader that decodes on a device. It must return the same images in the same order as a
 * loader that decodes on the CPU, also if the device refuses files, skips pictures or fails. The
 * CPU's decoder simulates the device. */
#include "base/array.h"
#include "base/file.h"
#include "input/loader.h"
#include "tests/input/jpegs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* Pictures are smaller than twice the output. The CPU therefore decodes them at full size. */
enum { N = 40, SIZE = 32, BATCH = 8, IMAGE_BYTES = SIZE * SIZE * 3, DAMAGED = 7, TRUNCATED = 11 };

static char dir[64];
static struct dataset *data;

/* What the device does. */
static struct {
    bool fails;   /* every call fails */
    bool skips;   /* skips the first picture of each call */
    bool refuses; /* refuses every file */
    bool closed;  /* fails to open a queue */
    atomic_int open, calls, pictures, failed, bytes_held;
} device;

struct device_queue {
    struct decoder *decoder;
    pthread_t owner;
};

static enum status device_alloc(const struct device_decoder *d, size_t bytes, void **mem)
{
    (void)d;
    *mem = malloc(bytes);
    atomic_fetch_add(&device.bytes_held, 1);
    return *mem ? STATUS_OK : status_fail(STATUS_OOM, "no memory");
}

static void device_free(const struct device_decoder *d, void *mem)
{
    (void)d;
    atomic_fetch_sub(&device.bytes_held, mem != NULL);
    free(mem);
}

static enum status device_open(const struct device_decoder *d, struct device_queue **q)
{
    (void)d;
    *q = NULL;
    if (device.closed)
        return status_fail(STATUS_LIBRARY, "no queue");
    TRY(array_new(q, 1));
    atomic_fetch_add(&device.open, 1);
    return decoder_open(&(*q)->decoder);
}

static void device_close(struct device_queue *q)
{
    if (!q)
        return;
    decoder_close(q->decoder);
    free(q);
    atomic_fetch_sub(&device.open, 1);
}

static bool device_takes(struct device_queue *q, const uint8_t *bytes, size_t size)
{
    struct image_info info;
    return !device.refuses && decoder_begin(q->decoder, bytes, size, &info) == STATUS_OK &&
           !info.progressive;
}

static uint8_t pixel(const struct device_picture *p, const struct region *r, int row, int at)
{
    const struct resize_table *x = p->x, *y = p->y;
    int column = at / 3;
    double sum = 0;
    for (int i = 0; i < y->count[row]; i++)
        for (int k = 0; k < x->count[column]; k++)
            sum += (double)y->weight[row * y->taps + i] * x->weight[column * x->taps + k] *
                   r->pixels[(size_t)(y->begin[row] + i) * r->stride +
                             (size_t)(x->begin[column] + k) * 3 + (size_t)(at % 3)];
    return (uint8_t)(sum / (1 << 28) + 0.5);
}

static enum status decode_one(struct device_queue *q, struct device_picture *p)
{
    struct image_info info;
    struct region r;
    TRY(decoder_begin(q->decoder, p->bytes, p->size, &info));
    assert_int_equal(info.width, p->width);
    assert_int_equal(info.height, p->height);
    TRY(decoder_read(q->decoder, 1, (struct rect){0, 0, info.width, info.height}, &r));
    for (int row = 0; row < p->side; row++)
        for (int at = 0; at < p->side * 3; at++)
            p->out[row * p->side * 3 + at] = pixel(p, &r, row, at);
    p->done = true;
    return STATUS_OK;
}

static enum status device_decode(struct device_queue *q, struct device_picture *p, int n)
{
    assert_in_range(n, 1, DEVICE_FILES_MAX);
    atomic_fetch_add(&device.calls, 1);
    for (int i = 0; i < n; i++)
        p[i].done = false;
    if (device.fails) {
        atomic_fetch_add(&device.failed, 1);
        return status_fail(STATUS_LIBRARY, "engine on fire");
    }
    for (int i = device.skips; i < n; i++) {
        atomic_fetch_add(&device.pictures, 1);
        /* The call ends at a damaged picture. The pictures after it are not decoded. */
        TRY(decode_one(q, &p[i]));
    }
    return STATUS_OK;
}

static const struct device_decoder decoder = {.name = "a device",
                                              .alloc = device_alloc,
                                              .free = device_free,
                                              .open = device_open,
                                              .close = device_close,
                                              .takes = device_takes,
                                              .decode = device_decode};

static int set_up(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/ampscale-device-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    for (int i = 0; i < N; i++) {
        char path[256];
        snprintf(path, sizeof path, "%s/train/c%d", dir, i % 2);
        if (dir_make(path) != STATUS_OK)
            return -1;
        struct jpeg_spec spec = {.width = 34 + i % 20,
                                 .height = 33 + 7 * i % 23,
                                 .kind = i % 9 == 3   ? JPEG_CMYK
                                         : i % 4 == 3 ? JPEG_GRAY
                                                      : JPEG_COLOR,
                                 .progressive = i % 5 == 4};
        size_t size;
        uint8_t *bytes = jpeg_make(&spec, &size);
        if (i == DAMAGED)
            memset(bytes + size / 2, 0xff, size / 4);
        if (i == TRUNCATED)
            size /= 2;
        snprintf(path, sizeof path, "%s/train/c%d/%02d.jpg", dir, i % 2, i);
        file_write(path, bytes, size);
        free(bytes);
    }
    return dataset_open(dir, "train", &data) == STATUS_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    dataset_free(data);
    data = NULL;
    tree_remove(dir);
    return 0;
}

struct epoch {
    int rows;
    int64_t bad, on_device, files;
    uint64_t seen;
    int32_t label[N];
    uint8_t pixels[N][IMAGE_BYTES];
};

static struct loader_config config(bool train, int workers, bool on_device)
{
    return (struct loader_config){.data = data,
                                  .train = train,
                                  .image_size = SIZE,
                                  .batch = BATCH,
                                  .workers = workers,
                                  .prefetch = 2,
                                  .seed = 42,
                                  .world = 1,
                                  .max_bad_images = N,
                                  .decoder = on_device ? &decoder : NULL};
}

static void collect(const struct loader_config *c, int64_t first, struct epoch *e)
{
    struct loader *l;
    struct batch *b;
    if (loader_open(c, &l) != STATUS_OK)
        fail_msg("%s", status_message());
    assert_int_equal(loader_start(l, 1, 0), STATUS_OK); /* the next call abandons this epoch */
    assert_int_equal(loader_start(l, 3, first), STATUS_OK);
    memset(e, 0, sizeof *e);
    for (;;) {
        assert_int_equal(loader_next(l, &b), STATUS_OK);
        if (!b)
            break;
        for (int i = 0; i < b->count; i++, e->rows++) {
            e->label[e->rows] = b->label[i];
            memcpy(e->pixels[e->rows], b->pixels + (size_t)i * IMAGE_BYTES, IMAGE_BYTES);
        }
        e->bad += b->stats.bad;
        e->on_device += b->stats.on_device;
        e->files += b->stats.files;
        e->seen += b->seen;
        loader_release(l, b);
    }
    loader_close(l);
    assert_int_equal(device.open, 0);
    assert_int_equal(device.bytes_held, 0);
}

/* Compares the rows of `b` with the rows of `a` that begin at row `from`. Pixel values may differ
 * by 1. */
static void assert_same(const struct epoch *a, int from, const struct epoch *b)
{
    assert_int_equal(a->rows - from, b->rows);
    assert_memory_equal(a->label + from, b->label, (size_t)b->rows * sizeof *b->label);
    for (int row = 0; row < b->rows; row++)
        for (int i = 0; i < IMAGE_BYTES; i++)
            if (abs(a->pixels[row + from][i] - b->pixels[row][i]) > 1)
                fail_msg("row %d, value %d is %d instead of %d (allowed difference: 1)", row, i,
                         b->pixels[row][i], a->pixels[row + from][i]);
}

static struct epoch want, got;

static void reset(void)
{
    memset(&device, 0, sizeof device);
}

static void test_same_as_cpu(void **state)
{
    (void)state;
    for (int train = 0; train < 2; train++)
        for (int workers = 1; workers < 6; workers += 2) {
            reset();
            struct loader_config cpu = config(train, 2, false), c = config(train, workers, true);
            collect(&cpu, 0, &want);
            assert_int_equal(want.on_device, 0);
            assert_int_equal(want.bad, 2);
            collect(&c, 0, &got);
            assert_same(&want, 0, &got);
            assert_int_equal(got.bad, 2);
            assert_int_equal(got.files, want.files);
            assert_int_equal(got.seen, want.seen);
            /* If a picture is damaged, the CPU decodes the pictures after it in the same call. How
             * many these are depends on the order in which threads run. */
            assert_true(got.on_device > 0 && got.on_device < N - N / 5);
            assert_true(workers > 1 || device.calls < device.pictures);
            collect(&c, 2, &got); /* starts at batch 2, as a resumed run does */
            assert_same(&want, 2 * BATCH, &got);
        }
}

static void test_what_the_device_leaves(void **state)
{
    (void)state;
    struct loader_config cpu = config(true, 2, false), c = config(true, 2, true);
    collect(&cpu, 0, &want);
    reset();
    device.skips = true;
    collect(&c, 0, &got);
    assert_same(&want, 0, &got);
    assert_true(got.on_device > 0);
    reset();
    device.refuses = true;
    collect(&c, 0, &got);
    assert_same(&want, 0, &got);
    assert_int_equal(got.on_device, 0);
    assert_int_equal(device.calls, 0);
}

/* Every call of the device fails. The CPU decodes all pictures, and after eight failures the loader
 * does not call the device again. */
static void test_broken_device(void **state)
{
    (void)state;
    struct loader_config cpu = config(false, 2, false), c = config(false, 1, true);
    c.batch = cpu.batch = 1; /* each call has one or two pictures */
    collect(&cpu, 0, &want);
    reset();
    device.fails = true;
    collect(&c, 0, &got);
    assert_same(&want, 0, &got);
    assert_int_equal(got.on_device, 0);
    assert_int_equal(got.bad, 2);
    assert_int_equal(device.failed, 8);
}

static void test_no_queue(void **state)
{
    (void)state;
    struct loader_config c = config(true, 2, true);
    struct loader *l;
    reset();
    device.closed = true;
    assert_int_equal(loader_open(&c, &l), STATUS_LIBRARY);
    assert_null(l);
}

/* If more files are damaged than allowed, the run ends, as with the CPU's decoder. */
static void test_too_many_bad(void **state)
{
    (void)state;
    struct loader_config c = config(true, 2, true);
    struct loader *l;
    struct batch *b = NULL;
    enum status st;
    reset();
    c.max_bad_images = 1;
    assert_int_equal(loader_open(&c, &l), STATUS_OK);
    assert_int_equal(loader_start(l, 0, 0), STATUS_OK);
    while ((st = loader_next(l, &b)) == STATUS_OK && b)
        loader_release(l, b);
    assert_int_equal(st, STATUS_DATA);
    assert_non_null(strstr(status_message(), "2 bad images"));
    loader_close(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_as_cpu),   cmocka_unit_test(test_what_the_device_leaves),
        cmocka_unit_test(test_broken_device), cmocka_unit_test(test_no_queue),
        cmocka_unit_test(test_too_many_bad),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
