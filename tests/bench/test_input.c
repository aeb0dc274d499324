/* Tests the stages of the input pipeline: the detection of a wrong image in each stage, and the
 * printed lines. */
#include "base/file.h"
#include "bench/input.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct input_config small(void)
{
    return (struct input_config){.options = {.image_size = 32,
                                             .batch = 6, /* the last batch is not full */
                                             .timing = {.most = 1}},
                                 .images = 20, /* uses 20 of the 24 images of the generated set */
                                 .size = 40};
}

static int64_t wrong_of(const struct input_config *c, const struct input_set *set,
                        enum input_stage stage, int threads)
{
    struct input_row row;
    assert_int_equal(input_measure(c, set, stage, stage == INPUT_READ, threads, &row), STATUS_OK);
    assert_int_equal(row.time.n, 1);
    assert_int_equal(row.images, set->data.n);
    return row.wrong;
}

/* Checks the number of wrong images at each stage. */
static void assert_wrong(const struct input_config *c, const struct input_set *set, int64_t read,
                         int64_t decode, int64_t resample, int64_t loader)
{
    const int64_t want[INPUT_GPU] = {read, decode, resample, loader};
    for (int stage = 0; stage < INPUT_GPU; stage++)
        assert_int_equal(wrong_of(c, set, (enum input_stage)stage, 1 + stage % 2 * 2), want[stage]);
}

static void path_of(const struct input_set *set, int i, char path[8192])
{
    snprintf(path, 8192, "%s/%s", set->data.root, dataset_path(&set->data, i));
}

static void test_stages(void **state)
{
    (void)state;
    struct input_config c = small();
    struct input_set set;
    char made[4096];
    assert_int_equal(input_set_open(&c, &set), STATUS_OK);
    snprintf(made, sizeof made, "%s", set.made.path);
    assert_true(path_is_dir(made));
    assert_int_equal(set.data.n, 20);
    assert_int_equal(set.data.sample[0].label, 0);
    assert_int_equal(set.data.sample[19].label, 7); /* the 20 images are from all classes */
    assert_wrong(&c, &set, 0, 0, 0, 0);

    set.image[3].pixels_sum ^= 1;
    assert_wrong(&c, &set, 0, 1, 1, 1);
    set.image[3].pixels_sum ^= 1;
    set.image[5].bytes_sum ^= 1;
    assert_wrong(&c, &set, 1, 0, 0, 0);
    set.image[5].bytes_sum ^= 1;

    size_t n = set.image[7].view.region.stride * (size_t)set.image[7].view.region.at.h;
    memset(set.image[7].pixels, 9, n);
    assert_wrong(&c, &set, 0, 0, 1, 0);

    /* The file of image 9 gets the bytes of image 0. */
    char path[8192];
    path_of(&set, 9, path);
    assert_int_equal(file_replace(path, set.image[0].bytes, set.image[0].size), STATUS_OK);
    assert_wrong(&c, &set, 1, 0, 1, 1);

    assert_int_equal(input_set_close(&set), STATUS_OK);
    assert_false(path_exists(made));
}

/* The file system chooses which pages leave the cache, so the test expects only a share between 0
 * and 1. */
static void test_cache(void **state)
{
    (void)state;
    struct input_config c = small();
    struct input_set set;
    double share = -1;
    assert_int_equal(input_set_open(&c, &set), STATUS_OK);
    assert_int_equal(input_set_cached(&set, &share), STATUS_OK);
    assert_true(share == 1); /* the page cache still has the files, which have just been read */
    assert_int_equal(input_set_drop(&set), STATUS_OK);
    assert_int_equal(input_set_cached(&set, &share), STATUS_OK);
    assert_true(share >= 0 && share <= 1);
    assert_int_equal(input_set_close(&set), STATUS_OK);
}

static void test_bad_image(void **state)
{
    (void)state;
    struct input_config c = small();
    struct input_set set, bad;
    char path[8192];
    assert_int_equal(input_set_open(&c, &set), STATUS_OK);
    path_of(&set, 4, path);
    assert_int_equal(file_replace(path, "no picture", 10), STATUS_OK);
    c.data = set.made.path;
    assert_int_equal(input_set_open(&c, &bad), STATUS_DATA);
    assert_non_null(strstr(status_message(), dataset_path(&set.data, 4)));
    assert_int_equal(input_set_close(&bad), STATUS_OK);
    assert_true(path_is_dir(set.made.path)); /* the user's data set is not removed */
    c.data = "/nonexistent";
    assert_int_equal(input_set_open(&c, &bad), STATUS_DATA);
    assert_int_equal(input_set_close(&bad), STATUS_OK);
    assert_int_equal(input_set_close(&set), STATUS_OK);
}

static char *print(struct input_config c, bool cold)
{
    char *text;
    size_t size;
    struct input_set set = {.data.n = 100, .bytes = 2000000};
    const struct input_row row[] = {
        {.stage = INPUT_READ,
         .threads = 1,
         .files = true,
         .cold = true,
         .images = 100,
         .bytes = 2000000,
         .time = {.n = 3, .median = 0.5}},
        {.stage = INPUT_READ,
         .threads = 4,
         .files = true,
         .images = 100,
         .bytes = 2000000,
         .time = {.n = 3, .median = 0.25}},
        {.stage = INPUT_READ,
         .threads = 4,
         .files = true,
         .cold = true,
         .images = 100,
         .bytes = 2000000,
         .time = {.n = 3, .median = 0.25},
         .wrong = 2},
        {.stage = INPUT_DECODE,
         .threads = 1,
         .images = 100,
         .bytes = 2000000,
         .time = {.n = 3, .median = 0.25}},
    };
    c.options.out = open_memstream(&text, &size);
    const struct input_report r = {
        .config = &c, .set = &set, .cores = 2, .cached = 0.75, .cold = cold, .row = row, .rows = 4};
    assert_int_equal(input_report_print(&r), STATUS_OK);
    fclose(c.options.out);
    return text;
}

/* If four threads run on two cores, the throughput per core is half of the total. */
static void test_report(void **state)
{
    (void)state;
    struct input_config c = small();
    char *text = print(c, true);
    assert_non_null(strstr(text, "dropped from the page cache before each pass"));
    assert_non_null(
        strstr(text, "      4 read      cold        400.0      200.0     400.0      8.00     0.000"
                     "   250.000     0.000     3     2.00      2\n"));
    assert_non_null(strstr(text, "      1 decode    memory      400.0      400.0       n/a "));
    free(text);
    text = print(c, false);
    assert_non_null(strstr(text, "cold: n/a, because 75 % of the files stay"));
    free(text);
    c.options.format = BENCH_CSV;
    text = print(c, true);
    assert_non_null(strstr(text, "\nread,warm,4,100,2000000,3,0.25,0,0,400,200,8000000,1,0\n"));
    free(text);
    c.options.format = BENCH_JSON;
    text = print(c, true);
    json_t *o = json_loads(text, 0, NULL);
    assert_int_equal(json_integer_value(json_object_get(o, "schema")), INPUT_SCHEMA);
    const json_t *row = json_array_get(json_object_get(o, "rows"), 2);
    assert_string_equal(json_string_value(json_object_get(row, "from")), "cold");
    assert_true(json_real_value(json_object_get(row, "speedup")) == 2);
    assert_int_equal(json_integer_value(json_object_get(row, "wrong")), 2);
    json_decref(o);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stages),
        cmocka_unit_test(test_cache),
        cmocka_unit_test(test_bad_image),
        cmocka_unit_test(test_report),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
