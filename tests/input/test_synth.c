/* Tests the generator of synthetic data sets. The files must always have the same bytes, all images
 * must be valid, and a linear classifier must not be able to learn the classes. */
#include "base/file.h"
#include "base/rng.h"
#include "input/loader.h"
#include "input/scan.h"
#include "input/synth.h"
#include "tests/input/jpegs.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[64];

static int set_up(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/ampscale-synth-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    tree_remove(dir);
    return 0;
}

static struct synth_config config(const char *name, char out[256])
{
    snprintf(out, 256, "%s/%s", dir, name);
    return (struct synth_config){
        .out = out, .classes = 13, .train = 12, .val = 4, .size = 48, .seed = 1, .workers = 1};
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
        hash = hash_splitmix64(hash ^ hash_fnv1a64(dataset_path(d, i)));
        for (size_t k = 0; k < size; k++)
            hash = (hash ^ (uint8_t)bytes[k]) * 0x100000001b3u;
        free(bytes);
    }
    dataset_free(d);
    return hash;
}

static void test_same_bytes(void **state)
{
    (void)state;
    char a[256], b[256];
    struct synth_config one = config("one", a), two = config("two", b);
    two.workers = 3;
    assert_int_equal(synth_write(&one), STATUS_OK);
    assert_int_equal(synth_write(&two), STATUS_OK);
    uint64_t train = hash_split(a, "train"), val = hash_split(a, "val");
    assert_true(train == hash_split(b, "train") && val == hash_split(b, "val"));
    assert_true(train != val);
    struct synth_config other = config("other", b);
    other.seed = 2;
    assert_int_equal(synth_write(&other), STATUS_OK);
    assert_true(train != hash_split(b, "train"));
}

/* Hashes pictures before they are encoded. If this hash changes, new results are not comparable
 * with recorded ones. In that case, increase the format number of the manifest. */
static void test_known_pictures(void **state)
{
    (void)state;
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

static void test_class_names_sort(void **state)
{
    (void)state;
    char before[64] = "", name[64];
    for (int label = 0; label < SYNTH_MAX_CLASSES; label++) {
        synth_class_name(label, name, sizeof name);
        assert_true(strcmp(before, name) < 0);
        /* The text after the number must differ as well. */
        for (int other = 0; other < label; other += 5) {
            char earlier[64];
            synth_class_name(other, earlier, sizeof earlier);
            assert_string_not_equal(earlier + 5, name + 5);
        }
        strcpy(before, name);
    }
}

static void test_interrupted_and_made_again(void **state)
{
    (void)state;
    char out[256], path[512];
    struct synth_config c = config("set", out);
    assert_int_equal(synth_write(&c), STATUS_OK);
    assert_int_equal(synth_check_complete(out), STATUS_OK);
    uint64_t hash = hash_split(out, "train");

    /* Imitates a killed generator: the manifest says that the data set is incomplete, and one image
     * file is incomplete. */
    char *text, *place;
    size_t size;
    snprintf(path, sizeof path, "%s/dataset.json", out);
    assert_int_equal(file_read(path, 4096, &text, &size), STATUS_OK);
    place = strstr(text, "\"complete\": true");
    assert_non_null(place);
    memcpy(place, "\"complete\":false", 16);
    file_write(path, text, size);
    free(text);
    struct dataset *d;
    assert_int_equal(dataset_open(out, "train", &d), STATUS_OK);
    snprintf(path, sizeof path, "%s/train/%s", out, dataset_path(d, 3));
    assert_int_equal(unlink(path), 0);
    strcat(path, ".part");
    file_write(path, "half", 4);
    dataset_free(d);
    assert_int_equal(synth_check_complete(out), STATUS_DATA);

    assert_int_equal(synth_write(&c), STATUS_OK);
    assert_int_equal(synth_check_complete(out), STATUS_OK);
    assert_true(hash == hash_split(out, "train"));
    assert_int_equal(access(path, F_OK), -1); /* the generator has replaced the incomplete file */
}

static void test_refuses_other_folders(void **state)
{
    (void)state;
    char out[256], path[512];
    struct synth_config c = config("set", out);
    assert_int_equal(synth_write(&c), STATUS_OK);
    c.classes++;
    c.force = true; /* --force is not enough: old and new classes would be mixed */
    assert_int_equal(synth_write(&c), STATUS_USAGE);
    assert_non_null(strstr(status_message(),
                           "a synthetic data set with other settings (--classes 13 --train 12"));

    c = config("mine", out);
    assert_int_equal(dir_make(out), STATUS_OK);
    snprintf(path, sizeof path, "%s/thesis.tex", out);
    file_write(path, "x", 1);
    assert_int_equal(synth_write(&c), STATUS_USAGE);
    assert_non_null(strstr(status_message(), "not empty"));
    c.force = true;
    assert_int_equal(synth_write(&c), STATUS_OK);
    assert_int_equal(access(path, F_OK), 0);

    c = config("json", out);
    c.force = true;
    assert_int_equal(dir_make(out), STATUS_OK);
    snprintf(path, sizeof path, "%s/dataset.json", out);
    file_write(path, "[1]", 3);
    assert_int_equal(synth_write(&c), STATUS_USAGE);
    assert_non_null(strstr(status_message(), "was not written by"));
}

static void test_unwritable_folder(void **state)
{
    (void)state;
    char out[256];
    struct synth_config c = config("file", out);
    file_write(out, "x", 1);
    c.force = true;
    assert_int_equal(synth_write(&c), STATUS_IO);
}

static void test_scan(void **state)
{
    (void)state;
    char out[256], path[5000];
    struct synth_config c = config("set", out);
    c.classes = 4;
    c.train = 60;
    c.workers = 2;
    assert_int_equal(synth_write(&c), STATUS_OK);
    struct dataset *d;
    struct scan_report *r;
    assert_int_equal(dataset_open(out, "train", &d), STATUS_OK);
    assert_int_equal(scan_run(d, 2, NULL, &r), STATUS_OK);
    assert_int_equal(r->images, 240);
    assert_int_equal(r->n_bad, 0);
    assert_int_equal(r->per_class.min, 60);
    assert_true(r->width.min >= 20 && r->width.min < r->width.median);
    assert_true(r->width.median < r->width.max && r->width.max <= 100);
    assert_true(r->gray > 0 && r->gray < 24 && r->progressive > 0 && r->progressive < 24);
    assert_int_equal(r->cmyk, 0);
    scan_free(r);

    size_t size;
    uint8_t *cmyk =
        jpeg_make(&(struct jpeg_spec){.width = 8, .height = 8, .kind = JPEG_CMYK}, &size);
    snprintf(path, sizeof path, "%s/%s", d->root, dataset_path(d, 7));
    file_write(path, cmyk, size);
    snprintf(path, sizeof path, "%s/%s", d->root, dataset_path(d, 11));
    file_write(path, cmyk, size / 2);
    snprintf(path, sizeof path, "%s/%s", d->root, dataset_path(d, 200));
    file_write(path, "GIF89a", 6);
    free(cmyk);
    assert_int_equal(scan_run(d, 3, NULL, &r), STATUS_OK);
    assert_int_equal(r->cmyk, 1);
    assert_int_equal(r->n_bad, 2);
    assert_int_equal(r->format[IMAGE_JPEG], d->n - 1);
    assert_int_equal(r->format[IMAGE_OTHER], 1);
    assert_int_equal(r->bad[0].sample, 11);
    assert_int_equal(r->bad[1].sample, 200);
    assert_string_equal(r->bad[1].reason, "a GIF file, not a JPEG or PNG");
    scan_free(r);
    dataset_free(d);
}

/* ---- a linear classifier ---- */

enum { SIDE = 32, FEATURES = SIDE * SIDE * 3, KINDS = 10 };

struct matrix {
    int rows;
    float *x; /* (rows, FEATURES) */
    int32_t *label;
};

static struct matrix load(const char *out, const char *split)
{
    struct dataset *d;
    struct loader *l;
    struct batch *b;
    assert_int_equal(dataset_open(out, split, &d), STATUS_OK);
    struct loader_config c = {
        .data = d, .image_size = SIDE, .batch = 50, .workers = 2, .prefetch = 2, .world = 1};
    assert_int_equal(loader_open(&c, &l), STATUS_OK);
    assert_int_equal(loader_start(l, 0, 0), STATUS_OK);
    struct matrix m = {0, malloc((size_t)d->n * FEATURES * sizeof(float)),
                       malloc((size_t)d->n * sizeof(int32_t))};
    assert_true(m.x && m.label);
    while (loader_next(l, &b) == STATUS_OK && b) {
        for (int i = 0; i < b->count; i++, m.rows++) {
            m.label[m.rows] = b->label[i];
            for (int k = 0; k < FEATURES; k++)
                m.x[m.rows * FEATURES + k] = (float)b->pixels[i * FEATURES + k] / 64 - 2;
        }
        loader_release(l, b);
    }
    loader_close(l);
    dataset_free(d);
    return m;
}

static void logits(const float *weight, const float *x, float out[KINDS])
{
    for (int c = 0; c < KINDS; c++) {
        float sum = 0;
        for (int k = 0; k < FEATURES; k++)
            sum += weight[c * FEATURES + k] * x[k];
        out[c] = sum;
    }
}

/* One step of stochastic gradient descent with one image and the cross-entropy loss. */
static void learn(float *weight, const float *x, int label, float rate)
{
    float z[KINDS], top = -INFINITY, total = 0;
    logits(weight, x, z);
    for (int c = 0; c < KINDS; c++)
        top = fmaxf(top, z[c]);
    for (int c = 0; c < KINDS; c++)
        total += z[c] = expf(z[c] - top);
    for (int c = 0; c < KINDS; c++) {
        float step = rate * (z[c] / total - (c == label));
        for (int k = 0; k < FEATURES; k++)
            weight[c * FEATURES + k] -= step * x[k];
    }
}

static double accuracy(const float *weight, const struct matrix *m)
{
    int right = 0;
    for (int i = 0; i < m->rows; i++) {
        float z[KINDS];
        int best = 0;
        logits(weight, m->x + (size_t)i * FEATURES, z);
        for (int c = 1; c < KINDS; c++)
            best = z[c] > z[best] ? c : best;
        right += best == m->label[i];
    }
    return (double)right / m->rows;
}

static void test_linear_classifier_fails(void **state)
{
    (void)state;
    char out[256];
    struct synth_config c = config("set", out);
    c.classes = KINDS;
    c.train = 100;
    c.val = 50;
    c.size = 64;
    c.workers = 2;
    assert_int_equal(synth_write(&c), STATUS_OK);
    struct matrix train = load(out, "train"), val = load(out, "val");
    float *weight = calloc(KINDS * FEATURES, sizeof *weight);
    assert_non_null(weight);
    double best = 0;
    for (int epoch = 0; epoch < 8; epoch++) {
        struct rng rng = rng_at(1, RNG_TEST, (uint64_t)epoch, 0);
        for (int i = 0; i < train.rows; i++) {
            uint32_t row = rng_below(&rng, (uint32_t)train.rows);
            learn(weight, train.x + (size_t)row * FEATURES, train.label[row],
                  2e-4f / (float)(1 + epoch));
        }
        best = fmax(best, accuracy(weight, &val));
    }
    double fit = accuracy(weight, &train);
    print_message("linear classifier: top-1 %.1f %% on train, at best %.1f %% on val\n", 100 * fit,
                  100 * best);
    assert_true(fit > 0.35); /* the classifier learns the training images only */
    assert_true(best < 0.3);
    free(weight);
    free(train.x);
    free(train.label);
    free(val.x);
    free(val.label);
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_same_bytes),
        cmocka_unit_test(test_known_pictures),
        cmocka_unit_test(test_class_names_sort),
        IN_FOLDER(test_interrupted_and_made_again),
        IN_FOLDER(test_refuses_other_folders),
        IN_FOLDER(test_unwritable_folder),
        IN_FOLDER(test_scan),
        IN_FOLDER(test_linear_classifier_fails),
    };
    return cmocka_run_group_tests_name("input_synth", tests, NULL, NULL);
}
