/* Tests the generator of synthetic data sets. The files must always have the same bytes, and all
 * images must be valid. */
#include "base/file.h"
#include "input/scan.h"
#include "input/synth.h"
#include "input/synth_draw.h"
#include "input/synth_kind.h"
#include "tests/input/jpegs.h"
#include "tests/input/trees.h"
#include "tests/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct synth_config config(void **state, const char *name, char out[128])
{
    snprintf(out, 128, "%s/%s", (char *)*state, name);
    return (struct synth_config){
        .out = out, .classes = 13, .train = 6, .val = 2, .size = 48, .seed = 1, .workers = 1};
}

/* Returns a hash of the names and bytes of all images of a split. */
static uint64_t hash_split(const char *out, const char *split)
{
    struct dataset *d;
    assert_int_equal(dataset_open(out, split, &d), STATUS_OK);
    uint64_t hash = 0;
    for (int64_t i = 0; i < d->n; i++) {
        char path[5000], *bytes;
        size_t size;
        snprintf(path, sizeof path, "%s/%s", d->root, dataset_path(d, i));
        assert_int_equal(file_read(path, 1 << 20, &bytes, &size), STATUS_OK);
        hash = hash_bytes(hash ^ hash_fnv1a64(dataset_path(d, i)), bytes, size);
        free(bytes);
    }
    dataset_free(d);
    return hash;
}

static void test_same_bytes(void **state)
{
    char a[128], b[128];
    struct synth_config one = config(state, "one", a), two = config(state, "two", b);
    two.workers = 3;
    assert_int_equal(synth_write(&one), STATUS_OK);
    assert_int_equal(synth_write(&two), STATUS_OK);
    uint64_t train = hash_split(a, "train"), val = hash_split(a, "val");
    assert_true(train == hash_split(b, "train") && val == hash_split(b, "val"));
    assert_true(train != val);
    struct synth_config other = config(state, "other", b);
    other.seed = 2;
    assert_int_equal(synth_write(&other), STATUS_OK);
    assert_true(train != hash_split(b, "train"));
}

/* Hashes pictures before they are encoded. If this hash changes, new results are not comparable
 * with recorded ones. In that case, increase the format number of the manifest. */
static void test_known_pictures(void **state)
{
    struct canvas canvas = {0};
    uint64_t hash = 0;
    for (int label = 0; label < SYNTH_MAX_CLASSES; label += 7) {
        struct rng rng = rng_at(5, RNG_SYNTH, (uint64_t)label, 3);
        assert_int_equal(synth_draw(&canvas, label, 40, &rng), STATUS_OK);
        for (int i = 0; i < canvas.width * canvas.height * 3; i++)
            hash = (hash ^ canvas.pixels[i]) * 0x100000001b3u;
    }
    canvas_free(&canvas);
    if (hash != UINT64_C(0xa251dfb5dec88a29))
        fail_msg("the hash of the pictures is 0x%016llx", (unsigned long long)hash);
}

static void test_refuses_other_folders(void **state)
{
    char out[128];
    struct synth_config c = config(state, "set", out);
    assert_int_equal(synth_write(&c), STATUS_OK);
    c.classes++;
    c.force = true; /* --force is not enough: old and new classes would be mixed */
    assert_int_equal(synth_write(&c), STATUS_USAGE);
    assert_non_null(strstr(status_message(), "with other settings (--classes 13 --train 6"));

    c = config(state, "mine", out);
    tree_put(*state, "mine/thesis.tex", "x", 1);
    assert_int_equal(synth_write(&c), STATUS_USAGE);
    assert_non_null(strstr(status_message(), "not empty"));
    c.force = true;
    assert_int_equal(synth_write(&c), STATUS_OK);

    c = config(state, "json", out);
    c.force = true;
    tree_put(*state, "json/dataset.json", "[1]", 3);
    assert_int_equal(synth_write(&c), STATUS_USAGE);
    assert_non_null(strstr(status_message(), "was not written by"));

    c = config(state, "mine/thesis.tex", out);
    c.force = true;
    assert_int_equal(synth_write(&c), STATUS_IO);
}

static void test_scan(void **state)
{
    char out[128];
    struct synth_config c = config(state, "set", out);
    struct dataset *d;
    struct scan_report *r;
    size_t size;
    c.classes = 4;
    c.train = 60;
    c.workers = 2;
    assert_int_equal(synth_write(&c), STATUS_OK);
    assert_int_equal(dataset_open(out, "train", &d), STATUS_OK);
    assert_int_equal(scan_run(d, 2, NULL, &r), STATUS_OK);
    assert_true(r->images == 240 && r->n_bad == 0 && r->per_class.min == 60);
    assert_true(r->width.min >= 20 && r->width.min < r->width.median);
    assert_true(r->width.median < r->width.max && r->width.max <= 100);
    assert_true(r->gray > 0 && r->gray < 24 && r->progressive > 0 && r->progressive < 24);
    scan_free(r);

    uint8_t *cmyk = jpeg_make(&(struct jpeg_spec){8, 8, JPEG_CMYK}, &size);
    tree_put(d->root, dataset_path(d, 7), cmyk, size);
    free(cmyk);
    assert_int_equal(scan_run(d, 3, NULL, &r), STATUS_OK);
    assert_int_equal(r->cmyk, 1);
    scan_free(r);
    dataset_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_same_bytes),
        cmocka_unit_test(test_known_pictures),
        IN_FOLDER(test_refuses_other_folders),
        IN_FOLDER(test_scan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
