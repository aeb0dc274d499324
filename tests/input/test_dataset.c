/* Tests the listing of valid and invalid folders. */
#include "base/file.h"
#include "input/dataset.h"
#include "tests/input/jpegs.h"

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
    strcpy(dir, "/tmp/ampscale-dataset-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    tree_remove(dir);
    return 0;
}

/* Writes a file in the test's folder, and creates the folders of its path. */
static void put(const char *path, const char *bytes)
{
    char full[512];
    snprintf(full, sizeof full, "%s/%s", dir, path);
    *strrchr(full, '/') = '\0';
    assert_int_equal(dir_make(full), STATUS_OK);
    full[strlen(full)] = '/';
    file_write(full, bytes, strlen(bytes));
}

static void refuse(const char *split, const char *reason)
{
    struct dataset *d;
    assert_int_equal(dataset_open(dir, split, &d), STATUS_DATA);
    assert_null(d);
    if (!strstr(status_message(), reason))
        fail_msg("'%s' does not say '%s'", status_message(), reason);
}

static void test_order_is_imagefolders(void **state)
{
    (void)state;
    put("train/b/2.JPEG", "");
    put("train/b/10.jpg", "");
    put("train/B/x.PNG", "");
    put("train/a/z.jpeg", "");
    put("train/a/sub/a.webp", "");
    put("train/a/sub/deep/c.bmp", "");
    put("train/a/sub-x/b.tif", "");
    put("train/a/notes.txt", "");
    put("train/a/jpg", "");
    put("train/a/.hidden.jpg", "");
    put("train/.cache/x.jpg", "");
    put("train/README.jpg", "");
    static const char *const want[] = {"B/x.PNG",       "a/z.jpeg",         "a/sub/a.webp",
                                       "a/sub-x/b.tif", "a/sub/deep/c.bmp", "b/10.jpg",
                                       "b/2.JPEG"};
    static const int label[] = {0, 1, 1, 1, 1, 2, 2};
    struct dataset *d;
    assert_int_equal(dataset_open(dir, "train", &d), STATUS_OK);
    assert_int_equal(d->classes, 3);
    assert_string_equal(d->class_name[0], "B");
    assert_int_equal(d->n, 7);
    for (int i = 0; i < 7; i++) {
        assert_string_equal(dataset_path(d, i), want[i]);
        assert_int_equal(dataset_label(d, i), label[i]);
    }
    dataset_free(d);
}

static void test_links_are_followed(void **state)
{
    (void)state;
    char from[128], to[128];
    put("elsewhere/1.jpg", "");
    put("train/real/1.jpg", "");
    snprintf(from, sizeof from, "%s/elsewhere", dir);
    snprintf(to, sizeof to, "%s/train/linked", dir);
    assert_int_equal(symlink(from, to), 0);
    struct dataset *d;
    assert_int_equal(dataset_open(dir, "train", &d), STATUS_OK);
    assert_int_equal(d->n, 2);
    assert_string_equal(dataset_path(d, 0), "linked/1.jpg");
    dataset_free(d);

    snprintf(from, sizeof from, "%s/train/real", dir);
    snprintf(to, sizeof to, "%s/train/real/again", dir);
    assert_int_equal(symlink(from, to), 0);
    refuse("train", "links form a cycle");
}

/* A link to a file that does not exist is skipped. Any other link that cannot be resolved is an
 * error, because its target may be an image. */
static void test_links_that_lead_nowhere(void **state)
{
    (void)state;
    char to[128];
    struct dataset *d;
    put("train/a/1.jpg", "");
    snprintf(to, sizeof to, "%s/train/a/2.jpg", dir);
    assert_int_equal(symlink("absent", to), 0);
    assert_int_equal(dataset_open(dir, "train", &d), STATUS_OK);
    assert_int_equal(d->n, 1);
    dataset_free(d);

    snprintf(to, sizeof to, "%s/train/a/3.jpg", dir);
    assert_int_equal(symlink("3.jpg", to), 0);
    assert_int_equal(dataset_open(dir, "train", &d), STATUS_IO);
    assert_null(d);
    assert_non_null(strstr(status_message(), "cannot examine '"));
    snprintf(to, sizeof to, "%s/val", dir);
    assert_int_equal(symlink("val", to), 0);
    assert_int_equal(dataset_open(dir, "val", &d), STATUS_IO);
    assert_null(d);
}

static void test_missing_things(void **state)
{
    (void)state;
    refuse("train", "no folder");
    assert_non_null(strstr(status_message(), "ampscale data synth --out"));
    put("train/file.jpg", "");
    refuse("train", "no class folders");
    put("train/a/1.jpg", "");
    put("train/b/notes.txt", "");
    refuse("train", "/train/b' has no images");
    put("train/c/notes.txt", "");
    refuse("train", "/train/b' and 1 more have no images");
}

static void test_pairs(void **state)
{
    (void)state;
    put("train/a/1.jpg", "");
    put("train/b/1.jpg", "");
    put("val/a/1.jpg", "");
    put("val/b/1.jpg", "");
    struct dataset *train, *val;
    assert_int_equal(dataset_open(dir, "train", &train), STATUS_OK);
    assert_int_equal(dataset_open(dir, "val", &val), STATUS_OK);
    assert_int_equal(dataset_check_pair(train, val), STATUS_OK);
    dataset_free(val);

    put("val/c/1.jpg", "");
    assert_int_equal(dataset_open(dir, "val", &val), STATUS_OK);
    assert_int_equal(dataset_check_pair(train, val), STATUS_DATA);
    assert_non_null(strstr(status_message(), "class 'c' is in"));
    assert_int_equal(dataset_check_pair(val, train), STATUS_DATA);
    assert_non_null(strstr(status_message(), "class 'c' is in"));
    dataset_free(train);
    dataset_free(val);
}

static uint64_t fingerprint(void)
{
    struct dataset *d;
    assert_int_equal(dataset_open(dir, "train", &d), STATUS_OK);
    uint64_t hash;
    assert_int_equal(dataset_fingerprint(d, &hash), STATUS_OK);
    dataset_free(d);
    return hash;
}

static void test_fingerprint(void **state)
{
    (void)state;
    put("train/a/1.jpg", "xx");
    put("train/b/1.jpg", "x");
    uint64_t first = fingerprint();
    assert_true(first == fingerprint());
    put("train/b/1.jpg", "xyz"); /* a file of another size */
    uint64_t second = fingerprint();
    assert_true(first != second);
    put("train/b/2.jpg", "x"); /* an additional file */
    uint64_t third = fingerprint();
    assert_true(second != third);
}

static void test_dummy(void **state)
{
    (void)state;
    struct dataset *d;
    assert_int_equal(dataset_dummy(1000, 10, &d), STATUS_OK);
    int count[10] = {0};
    for (int i = 0; i < 1000; i++)
        count[dataset_label(d, i)]++;
    for (int c = 0; c < 10; c++)
        assert_true(count[c] > 50 && count[c] < 150);
    uint64_t hash = 0;
    assert_int_equal(dataset_fingerprint(d, &hash), STATUS_OK);
    assert_true(hash != 0);
    dataset_free(d);
    assert_int_equal(dataset_dummy(0, 10, &d), STATUS_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_order_is_imagefolders, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_links_are_followed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_links_that_lead_nowhere, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_missing_things, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_pairs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_fingerprint, set_up, tear_down),
        cmocka_unit_test(test_dummy),
    };
    return cmocka_run_group_tests_name("input_dataset", tests, NULL, NULL);
}
