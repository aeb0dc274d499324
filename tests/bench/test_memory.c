/* Tests the number of bytes that STREAM's kernels and device copies move, the detection of a wrong
 * copy, and the sizes of caches. */
#include "../kernels/stream_backend.h"
#include "bench/memory.h"
#include "tests/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const struct harness_config quick = {.warmup = 1, .most = 3};

static void test_host(void **state)
{
    static const struct {
        const char *name;
        double bytes; /* bytes moved if each array has 640 bytes */
    } kernels[] = {{"copy", 1280}, {"scale", 1280}, {"add", 1920}, {"triad", 1920}};
    struct memory_result r = {.n = 0};
    for (int threads = 1; threads <= 3; threads += 2) {
        assert_int_equal(memory_measure_host(&quick, threads, 640, &r), STATUS_OK);
        assert_int_equal(r.n, 4);
        for (int i = 0; i < r.n; i++) {
            assert_string_equal(r.row[i].name, kernels[i].name);
            assert_true(r.row[i].bytes == kernels[i].bytes && r.row[i].wrong == 0);
        }
    }
    const struct memory_row row = {.bytes = 4e9, .time = {.min = 0.5, .median = 2}};
    assert_true(memory_best(&row) == 8 && memory_median(&row) == 2);
}

/* A copy that omits the last byte. */
static enum status short_copy(struct stream *s, void *dst, const void *src, size_t bytes)
{
    const struct stream_backend *b = (const struct stream_backend *)s->device->backend;
    return b->base.upload(s, dst, src, bytes - 1);
}

static void measure_device(struct stream_backend *b, struct memory_result *r)
{
    struct device *dev;
    *r = (struct memory_result){.n = 0};
    assert_int_equal(b->base.open(&b->base, 0, 1, &dev), STATUS_OK);
    assert_int_equal(memory_measure_device(&quick, dev, 640, r), STATUS_OK);
    device_close(dev);
}

static void test_device(void **state)
{
    struct stream_backend b;
    struct memory_result r;
    stream_backend_make(&b);
    measure_device(&b, &r);
    assert_int_equal(r.n, 3);
    assert_true(r.row[0].bytes == 640 && r.row[1].bytes == 640 && r.row[2].bytes == 1280);
    for (int i = 0; i < r.n; i++)
        assert_int_equal(r.row[i].wrong, 0);
    b.base.copy = short_copy;
    measure_device(&b, &r);
    assert_int_equal(r.row[1].wrong, 0);
    assert_int_equal(r.row[2].wrong, 1);
}

/* Copies between three devices. First all copies are right; later every copy omits one byte. */
static void test_peers(void **state)
{
    struct stream_backend b;
    struct device *dev[3];
    stream_backend_make(&b);
    struct memory_peers *p = calloc(1, sizeof *p);
    assert_non_null(p);
    p->n = 3;
    p->bytes = 640;
    for (int i = 0; i < 3; i++)
        assert_int_equal(b.base.open(&b.base, i, 1, &dev[i]), STATUS_OK);
    for (int short_by = 0; short_by < 2; short_by++) {
        if (short_by)
            b.base.copy = short_copy;
        assert_int_equal(memory_measure_peers(&quick, dev, p), STATUS_OK);
        for (int from = 0; from < 3; from++)
            for (int to = 0; to < 3; to++) {
                const struct memory_pair *w = &p->pair[from][to];
                assert_true(w->measured == (from != to) && !w->direct);
                assert_int_equal(w->wrong, from == to ? 0 : short_by);
            }
    }
    p->pair[0][1].time.median = 640e-9;
    assert_true(memory_pair_rate(p, 0, 1) == 1 && memory_pair_rate(p, 1, 1) == 0);
    for (int i = 0; i < 3; i++)
        device_close(dev[i]);
    free(p);
}

/* Writes the sysfs files of a cache of processor `cpu`. `shared` lists the processors that share
 * the cache. */
static void make_cache(const char *root, int cpu, int level, const char *size, const char *shared)
{
    char path[SCRATCH_MAX + 128];
    snprintf(path, sizeof path, "%s/devices/system/cpu/cpu%d/cache/index%d", root, cpu, level);
    for (char *slash = path + strlen(root); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
    mkdir(path, 0700);
    scratch_write(path, "size", size, strlen(size));
    scratch_write(path, "shared_cpu_list", shared, strlen(shared));
}

static void test_caches(void **state)
{
    char root[SCRATCH_MAX];
    scratch_make(root);
    assert_int_equal(memory_caches(root), 0);
    make_cache(root, 0, 1, "32K\n", "0\n");
    assert_int_equal(memory_caches(root), 32 << 10);
    make_cache(root, 0, 3, "4M\n", "0-1\n");
    assert_int_equal(memory_caches(root), 4 << 20);
    make_cache(root, 1, 3, "4M\n", "0-1\n"); /* the same cache, as processor 1 lists it */
    assert_int_equal(memory_caches(root), 4 << 20);
    make_cache(root, 0, 3, "nonsense\n", "0-1\n");
    assert_int_equal(memory_caches(root), 0);
    scratch_remove(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_host),
        cmocka_unit_test(test_device),
        cmocka_unit_test(test_peers),
        cmocka_unit_test(test_caches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
