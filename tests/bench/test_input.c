/* Tests the stages of the input pipeline: a wrong image is detected in each stage. */
#include "base/file.h"
#include "bench/input.h"
#include "tests/unit.h"

#include <stdlib.h>
#include <string.h>

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
    struct input_config c = small();
    struct input_set set;
    char made[4096];
    assert_int_equal(input_set_open(&c, &set), STATUS_OK);
    snprintf(made, sizeof made, "%s", set.made.path);
    assert_true(path_exists(made));
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

static void test_bad_image(void **state)
{
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
    assert_true(path_exists(set.made.path)); /* the user's data set is not removed */
    c.data = "/nonexistent";
    assert_int_equal(input_set_open(&c, &bad), STATUS_DATA);
    assert_int_equal(input_set_close(&bad), STATUS_OK);
    assert_int_equal(input_set_close(&set), STATUS_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stages),
        cmocka_unit_test(test_bad_image),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
