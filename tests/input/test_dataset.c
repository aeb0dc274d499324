/* Tests the listing of valid and invalid folders. */
#include "tests/input/trees.h"
#include "tests/unit.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void put(void **state, const char *path)
{
    tree_put(*state, path, path, strlen(path));
}

/* Makes a symbolic link in the test's folder. */
static void link_to(void **state, const char *target, const char *path)
{
    char full[128];
    snprintf(full, sizeof full, "%s/%s", (char *)*state, path);
    assert_int_equal(symlink(target, full), 0);
}

static void test_order_is_imagefolders(void **state)
{
    static const char *const files[] = {
        "b/2.JPEG",         "b/10.jpg",      "B/x.PNG",     "a/z.jpeg", "a/sub/a.webp",
        "a/sub/deep/c.bmp", "a/sub-x/b.tif", "a/notes.txt", "a/jpg",    "a/.hidden.jpg",
        ".cache/x.jpg",     "README.jpg",    NULL};
    for (int i = 0; files[i]; i++) {
        char path[64];
        snprintf(path, sizeof path, "train/%s", files[i]);
        tree_put(*state, path, "x", 1);
    }
    tree_lists(*state, "train",
               (const char *const[]){"B B/x.PNG x", "a a/z.jpeg x", "a a/sub/a.webp x",
                                     "a a/sub-x/b.tif x", "a a/sub/deep/c.bmp x", "b b/10.jpg x",
                                     "b b/2.JPEG x", NULL});
}

static void test_links_are_followed(void **state)
{
    put(state, "elsewhere/1.jpg");
    put(state, "train/real/1.jpg");
    link_to(state, "../elsewhere", "train/linked");
    tree_lists(*state, "train",
               (const char *const[]){"linked linked/1.jpg elsewhere/1.jpg",
                                     "real real/1.jpg train/real/1.jpg", NULL});
    link_to(state, "../real", "train/real/again");
    tree_refused(*state, "train", STATUS_DATA, "links form a cycle");
}

/* A link that leads nowhere may be a missing image, class or folder. Only names of other files are
 * ignored in classes, as they are if the file exists. */
static void test_links_that_lead_nowhere(void **state)
{
    put(state, "train/a/1.jpg");
    put(state, "train/a/sub/1.jpg");
    put(state, "val/a/1.txt"); /* all images of the class are missing */
    link_to(state, "absent", "train/a/notes.txt");
    link_to(state, "absent", "train/.hidden");
    tree_lists(
        *state, "train",
        (const char *const[]){"a a/1.jpg train/a/1.jpg", "a a/sub/1.jpg train/a/sub/1.jpg", NULL});
    static const char *const cases[][3] = {{"train", "train/a/2.jpg", "/mnt/x"},
                                           {"train", "train/a/sub/2.PNG", "1.jpg/x"},
                                           {"train", "train/a/folder", "absent"},
                                           {"train", "train/c", "../elsewhere/c"},
                                           {"train", "train/c.d", "absent"},
                                           {"val", "val/a/1.jpg", "absent"},
                                           {"val", "val/b", "absent"}};
    for (int i = 0; i < COUNT(cases); i++) {
        char reason[512], path[256];
        link_to(state, cases[i][2], cases[i][1]);
        snprintf(path, sizeof path, "%s/%s", (char *)*state, cases[i][1]);
        snprintf(reason, sizeof reason, "lead nowhere: 1; the first is '%s' -> '%s'", path,
                 cases[i][2]);
        tree_refused(*state, cases[i][0], STATUS_DATA, reason);
        assert_int_equal(unlink(path), 0);
    }
    link_to(state, "absent", "train/b");
    link_to(state, "absent", "train/a/0.jpg");
    tree_refused(*state, "train", STATUS_DATA, "lead nowhere: 2; the first is '");
    assert_non_null(strstr(status_message(), "/train/a/0.jpg'"));
}

/* A link whose target cannot be examined is an error, because the target may be an image. */
static void test_links_in_a_circle(void **state)
{
    put(state, "train/a/1.jpg");
    link_to(state, "3.jpg", "train/a/3.jpg");
    tree_refused(*state, "train", STATUS_IO, "cannot examine '");
    link_to(state, "val", "val");
    tree_refused(*state, "val", STATUS_IO, "");
    link_to(state, "absent", "test");
    tree_refused(*state, "test", STATUS_DATA, "/test' is a link that leads nowhere");
}

static void test_missing_things(void **state)
{
    tree_refused(*state, "train", STATUS_DATA, "no folder");
    put(state, "train/file.jpg");
    tree_refused(*state, "train", STATUS_DATA, "no class folders");
    put(state, "train/a/1.jpg");
    put(state, "train/b/notes.txt");
    tree_refused(*state, "train", STATUS_DATA, "/train/b' has no images");
    put(state, "train/c/notes.txt");
    tree_refused(*state, "train", STATUS_DATA, "/train/b' and 1 more have no images");
}

static void test_pairs(void **state)
{
    struct dataset *train, *val, *more;
    put(state, "train/a/1.jpg");
    put(state, "train/b/1.jpg");
    put(state, "val/a/1.jpg");
    put(state, "val/b/1.jpg");
    assert_int_equal(dataset_open(*state, "train", &train), STATUS_OK);
    assert_int_equal(dataset_open(*state, "val", &val), STATUS_OK);
    put(state, "val/c/1.jpg");
    assert_int_equal(dataset_open(*state, "val", &more), STATUS_OK);
    assert_int_equal(dataset_check_pair(train, val), STATUS_OK);
    assert_int_equal(dataset_check_pair(train, more), STATUS_DATA);
    assert_non_null(strstr(status_message(), "class 'c' is in"));
    assert_int_equal(dataset_check_pair(more, train), STATUS_DATA);
    assert_non_null(strstr(status_message(), "class 'c' is in"));
    dataset_free(train);
    dataset_free(val);
    dataset_free(more);
}

/* The same name in two normal forms of Unicode looks the same. */
static void test_names_that_look_alike(void **state)
{
    struct dataset *train, *val;
    put(state, "train/caf\xc3\xa9/1.jpg");
    put(state, "val/cafe\xcc\x81/1.jpg");
    assert_int_equal(dataset_open(*state, "train", &train), STATUS_OK);
    assert_int_equal(dataset_open(*state, "val", &val), STATUS_OK);
    assert_int_equal(dataset_check_pair(train, val), STATUS_DATA);
    assert_non_null(strstr(status_message(), "Unicode's normal form"));
    dataset_free(val);
    put(state, "test/caf\xc3\xa8/1.jpg");
    assert_int_equal(dataset_open(*state, "test", &val), STATUS_OK);
    assert_int_equal(dataset_check_pair(train, val), STATUS_DATA);
    assert_null(strstr(status_message(), "Unicode"));
    dataset_free(train);
    dataset_free(val);
}

static void test_fingerprint(void **state)
{
    tree_put(*state, "train/a/1.jpg", "xx", 2);
    tree_put(*state, "train/b/1.jpg", "x", 1);
    uint64_t first = tree_fingerprint(*state);
    assert_true(first == tree_fingerprint(*state));
    tree_put(*state, "train/b/1.jpg", "xyz", 3); /* a file of another size */
    uint64_t second = tree_fingerprint(*state);
    tree_put(*state, "train/b/2.jpg", "x", 1); /* an additional file */
    assert_true(first != second && second != tree_fingerprint(*state));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_order_is_imagefolders),   IN_FOLDER(test_links_are_followed),
        IN_FOLDER(test_links_that_lead_nowhere), IN_FOLDER(test_links_in_a_circle),
        IN_FOLDER(test_missing_things),          IN_FOLDER(test_pairs),
        IN_FOLDER(test_names_that_look_alike),   IN_FOLDER(test_fingerprint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
