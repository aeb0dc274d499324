/* Tests a loader that decodes on a device. It must return the same images in the same order as a
 * loader that decodes on the CPU, also if the device refuses files, skips pictures or fails. The
 * CPU's decoder simulates the device. */
#include "base/array.h"
#include "tests/input/loading.h"
#include "tests/unit.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { DAMAGED = 7, TRUNCATED = 11 };

/* What the device does. */
static struct {
    bool fails;   /* every call fails */
    bool skips;   /* skips the first picture of each call */
    bool refuses; /* refuses every file */
    atomic_int calls, pictures;
} device;

struct device_queue {
    struct decoder *decoder;
};

static enum status device_alloc(const struct device_decoder *d, size_t bytes, void **mem)
{
    (void)d;
    *mem = malloc(bytes);
    return *mem ? STATUS_OK : status_fail(STATUS_OOM, "no memory");
}

static void device_free(const struct device_decoder *d, void *mem)
{
    (void)d;
    free(mem);
}

static enum status device_open(const struct device_decoder *d, struct device_queue **q)
{
    (void)d;
    TRY(array_new(q, 1));
    return decoder_open(&(*q)->decoder);
}

static void device_close(struct device_queue *q)
{
    if (!q)
        return;
    decoder_close(q->decoder);
    free(q);
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
    assert_true(info.width == p->width && info.height == p->height);
    TRY(decoder_read(q->decoder, 1, (struct rect){0, 0, info.width, info.height}, &r));
    for (int row = 0; row < p->side; row++)
        for (int at = 0; at < p->side * 3; at++)
            p->out[row * p->side * 3 + at] = pixel(p, &r, row, at);
    p->done = true;
    return STATUS_OK;
}

/* The call ends at a damaged picture. The pictures after it are not decoded. */
static enum status device_decode(struct device_queue *q, struct device_picture *p, int n)
{
    assert_in_range(n, 1, DEVICE_FILES_MAX);
    atomic_fetch_add(&device.calls, 1);
    atomic_fetch_add(&device.pictures, n);
    for (int i = 0; i < n; i++)
        p[i].done = false;
    if (device.fails)
        return status_fail(STATUS_LIBRARY, "engine on fire");
    for (int i = device.skips; i < n; i++)
        TRY(decode_one(q, &p[i]));
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
    memset(&device, 0, sizeof device);
    if (images_set_up(state) != 0)
        return -1;
    for (int i = DAMAGED; i <= TRUNCATED; i += TRUNCATED - DAMAGED) {
        size_t size;
        struct jpeg_spec spec = image_spec(i);
        uint8_t *bytes = jpeg_make(&spec, &size);
        memset(bytes + size / 2, 0xff, size / 4);
        image_put(i, bytes, i == DAMAGED ? size : size / 2);
        free(bytes);
    }
    return 0;
}

static struct epoch want, got;

/* Reads epoch 3 from a batch on, after an epoch that is aborted. */
static void collect(struct loader_config c, int workers, bool on_device, int64_t first,
                    struct epoch *e)
{
    c.max_bad_images = N;
    c.workers = workers;
    c.decoder = on_device ? &decoder : NULL;
    struct loader *l = loader_of(&c);
    assert_int_equal(loader_start(l, 1, 0), STATUS_OK);
    epoch_read(l, 3, first, e);
    loader_close(l);
}

static void test_same_as_cpu(void **state)
{
    for (int train = 0; train < 2; train++)
        for (int workers = 1; workers < 6; workers += 2) {
            struct loader_config c = loading();
            c.train = train;
            device.calls = device.pictures = 0;
            collect(c, 2, false, 0, &want);
            assert_true(want.stats.on_device == 0 && want.stats.bad == 2);
            collect(c, workers, true, 0, &got);
            epoch_same(&want, 0, &got, 1);
            assert_true(got.stats.bad == 2 && got.stats.files == want.stats.files);
            assert_true(got.seen == want.seen);
            /* If a picture is damaged, the CPU decodes the pictures after it in the same call. How
             * many these are depends on the order in which threads run. */
            assert_true(got.stats.on_device > 0 && got.stats.on_device < N - N / 5);
            assert_true(workers > 1 || device.calls < device.pictures);
            collect(c, workers, true, 2, &got); /* as a resumed run does */
            epoch_same(&want, 2 * BATCH, &got, 1);
        }
}

/* The CPU decodes what the device leaves. After eight failures the loader does not call the device
 * again. */
static void test_what_the_device_leaves(void **state)
{
    struct loader_config c = loading();
    c.batch = 1; /* each call has one or two pictures */
    c.train = false;
    collect(c, 2, false, 0, &want);
    device.skips = true;
    collect(c, 1, true, 0, &got);
    epoch_same(&want, 0, &got, 1);
    assert_true(got.stats.on_device > 0);
    device.fails = true;
    device.calls = 0;
    collect(c, 1, true, 0, &got);
    epoch_same(&want, 0, &got, 0);
    assert_true(got.stats.on_device == 0 && got.stats.bad == 2 && device.calls == 8);
    device.refuses = true;
    collect(c, 1, true, 0, &got);
    epoch_same(&want, 0, &got, 0);
    assert_true(got.stats.on_device == 0 && device.calls == 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_same_as_cpu, set_up, images_tear_down),
        cmocka_unit_test_setup_teardown(test_what_the_device_leaves, set_up, images_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
