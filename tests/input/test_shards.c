/* Tests data sets in tar archives: classes, order, and archives that are damaged or made to attack
 * the reader. */
#include "base/file.h"
#include "input/image_files.h"
#include "tests/input/jpegs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { BLOCK = 512 };

static char dir[64];

/* An archive under construction. */
static char archive[1 << 20];
static size_t size;

static int set_up(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/ampscale-shards-XXXXXX");
    size = 0;
    return mkdtemp(dir) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    tree_remove(dir);
    return 0;
}

static void set_sum(char *header)
{
    unsigned sum = 0;
    memset(header + 148, ' ', 8);
    for (int i = 0; i < BLOCK; i++)
        sum += (unsigned char)header[i];
    snprintf(header + 148, 8, "%06o", sum);
}

/* Appends a member to the archive, and returns its header. */
static char *member(char type, const char *name, const void *bytes, size_t n)
{
    char *header = archive + size;
    memset(header, 0, BLOCK);
    memcpy(header, name, strlen(name) < 100 ? strlen(name) : 100);
    snprintf(header + 124, 12, "%011zo", n);
    memcpy(header + 257,
           "ustar\0"
           "00",
           8);
    header[156] = type;
    set_sum(header);
    size += BLOCK;
    size_t padded = (n + BLOCK - 1) / BLOCK * BLOCK;
    memset(archive + size, 0, padded);
    memcpy(archive + size, bytes, n);
    size += padded;
    return header;
}

static void text(const char *name, const char *contents)
{
    member('0', name, contents, strlen(contents));
}

static void pax(const char *key, const char *value)
{
    char record[8192], body[8300];
    int n = snprintf(body, sizeof body, " %s=%s\n", key, value), length = n + 1;
    while (snprintf(record, sizeof record, "%d%s", length, body) != length)
        length++;
    member('x', "PaxHeaders/x", record, (size_t)length);
}

/* Appends the end marker, writes the archive to a file, and begins a new archive. */
static const char *finish(const char *name)
{
    static char path[256];
    memset(archive + size, 0, 2 * BLOCK);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    char folder[256];
    snprintf(folder, sizeof folder, "%s", path);
    *strrchr(folder, '/') = '\0';
    assert_int_equal(dir_make(folder), STATUS_OK);
    file_write(path, archive, size + 2 * BLOCK);
    size = 0;
    return path;
}

static void expect_set(const char *from, const char *split, const char *const *want)
{
    struct dataset *d;
    struct image_files files;
    char line[512], bytes[64];
    if (dataset_open(from, split, &d) != STATUS_OK)
        fail_msg("%s", status_message());
    assert_int_equal(image_files_open(d, &files), STATUS_OK);
    int64_t i = 0;
    for (; i < d->n && want[i]; i++) {
        struct image_file f = image_files_at(&files, i);
        ssize_t n = pread(f.fd, bytes, (size_t)f.bytes, f.offset);
        snprintf(line, sizeof line, "%s %s %.*s", d->class_name[dataset_label(d, i)],
                 dataset_path(d, i), (int)n, bytes);
        assert_string_equal(line, want[i]);
    }
    assert_int_equal(i, d->n);
    assert_null(want[i]);
    image_files_close(&files);
    dataset_free(d);
}

static void refuse(const char *from, const char *split, const char *reason)
{
    struct dataset *d;
    enum status st = dataset_open(from, split, &d);
    assert_int_equal(st, STATUS_DATA);
    if (!strstr(status_message(), reason))
        fail_msg("'%s' does not say '%s'", status_message(), reason);
}

/* Finishes the archive and checks that it is refused. */
static void refuse_archive(const char *reason)
{
    refuse(finish("odd.tar"), "train", reason);
}

static void test_class_folders(void **state)
{
    (void)state;
    member('5', "./train/", "", 0);
    text("./train/b/2.JPEG", "b2");
    text("./train/b/._2.JPEG", "hidden");
    text("./train/b/notes.txt", "no image");
    text("./train/a-b/x.png", "a-bx");
    finish("train-1.tar");
    text("./train/a/sub/1.webp", "a1");
    text("./train/a/z.jpg", "az");
    text("./train/b/10.jpg", "b10");
    finish("train-0.tar");
    text("a/v.jpg", "");
    finish("my-val.tar");
    expect_set(dir, "train",
               (const char *const[]){
                   "a train-0.tar/train/a/z.jpg az", "a train-0.tar/train/a/sub/1.webp a1",
                   "a-b train-1.tar/train/a-b/x.png a-bx", "b train-0.tar/train/b/10.jpg b10",
                   "b train-1.tar/train/b/2.JPEG b2", NULL});
    expect_set(dir, "val", (const char *const[]){"a my-val.tar/a/v.jpg ", NULL});
    assert_true(dataset_has_split(dir, "val"));
    assert_false(dataset_has_split(dir, "test"));
    refuse(dir, "test", "no folder");
}

static void test_class_numbers(void **state)
{
    (void)state;
    text("0001.jpg", "one");
    text("0001.cls", "1\n");
    text("0001.seg.png", "a mask");
    text("0002.cls", " 0");
    text("0002.png", "two");
    finish("train-a.tar");
    text("0003.JPG", "three");
    text("0003.json", "{}");
    text("0003.cls", "1");
    finish("train-b.tar");
    expect_set(dir, "train",
               (const char *const[]){"000000 train-a.tar/0002.png two",
                                     "000001 train-a.tar/0001.jpg one",
                                     "000001 train-b.tar/0003.JPG three", NULL});
    text("0004.jpg", "");
    text("0004.cls", "3");
    finish("train-c.tar");
    refuse(dir, "train", "class 2 of");
    text("0004.jpg", "");
    finish("train-c.tar");
    refuse(dir, "train", "'0004.jpg' has no class");
    static const char *const wrong[] = {"", "x", "-1", "1 2", "1000000", "123456789012345678"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        text("0004.cls", wrong[i]);
        finish("train-c.tar");
        refuse(dir, "train", "'0004.cls' does not contain a class number");
    }
}

/* ImageNet's original form: one archive for each class, without folders. */
static void test_class_archives(void **state)
{
    (void)state;
    text("n1_2.JPEG", "12");
    text("n1_1.JPEG", "11");
    finish("train/n1.tar");
    text("n2_1.JPEG", "21");
    finish("train/n2.tar");
    expect_set(dir, "train",
               (const char *const[]){"n1 n1.tar/n1_1.JPEG 11", "n1 n1.tar/n1_2.JPEG 12",
                                     "n2 n2.tar/n2_1.JPEG 21", NULL});
    text("n1_2.JPEG", "12");
    finish("val.tar");
    refuse(dir, "val", "neither a file KEY.cls nor a class folder");
}

static void test_one_archive(void **state)
{
    (void)state;
    text("set/train/a/1.jpg", "a1");
    text("set/val/a/2.jpg", "a2");
    const char *path = finish("set.tar");
    char want[512];
    struct dataset *d;
    expect_set(path, "train", (const char *const[]){"a set/train/a/1.jpg a1", NULL});
    expect_set(path, "val", (const char *const[]){"a set/val/a/2.jpg a2", NULL});
    text("a/1.jpg", "a1");
    text("b/1.jpg", "b1");
    path = finish("set.tar");
    expect_set(path, "train", (const char *const[]){"a a/1.jpg a1", "b b/1.jpg b1", NULL});
    refuse(path, "val", "no images in a folder 'val'");
    assert_int_equal(dataset_open(path, "train", &d), STATUS_OK);
    snprintf(want, sizeof want, "%s", path);
    assert_string_equal(d->name, want);
    dataset_free(d);
}

static void test_long_names(void **state)
{
    (void)state;
    char name[600] = "a/", want[4][800];
    memset(name + 2, 'x', 300);
    strcpy(name + 302, ".jpg");
    member('L', "././@LongLink", name, strlen(name) + 1);
    text("a/cut.jpg", "gnu");
    name[2] = 'y';
    pax("path", name);
    text("a/cut.jpg", "pax");
    char *header = member('0', "z.jpg", "ustar", 5);
    memcpy(header + 345, "a/prefix", 8);
    set_sum(header);
    header = member('0', "a/zz.jpg", "old", 3);
    memset(header + 257, 0, 8); /* without the magic number, a reader ignores the prefix field */
    memcpy(header + 345, "junk", 4);
    set_sum(header);
    const char *path = finish("long.tar");
    name[2] = 'x';
    snprintf(want[0], sizeof want[0], "a %s gnu", name);
    name[2] = 'y';
    snprintf(want[1], sizeof want[1], "a %s pax", name);
    expect_set(
        path, "train",
        (const char *const[]){want[0], want[1], "a a/zz.jpg old", "a a/prefix/z.jpg ustar", NULL});
    pax("size", "3");
    header = member('0', "a/big.jpg", "big", 3);
    memset(header + 124, '7', 11); /* the pax header has another size, which overrides this one */
    set_sum(header);
    header = member('0', "a/binary.jpg", "bin", 3);
    memset(header + 124, 0, 12);
    header[124] = (char)0x80;
    header[135] = 3;
    set_sum(header);
    expect_set(finish("long.tar"), "train",
               (const char *const[]){"a a/big.jpg big", "a a/binary.jpg bin", NULL});
}

static void test_hostile(void **state)
{
    (void)state;
    refuse_archive("holds 0 images");
    text("a/../../etc/1.jpg", "");
    text("../1.jpg", "");
    text("/.jpg", "");
    refuse_archive("holds 0 images");
    member('2', "a/1.jpg", "", 0);
    refuse_archive("'a/1.jpg' is a link");
    member('S', "a/1.jpg", "", 0);
    refuse_archive("'a/1.jpg' is a sparse file");
    pax("GNU.sparse.major", "1");
    text("a/1.jpg", "");
    refuse_archive("'a/1.jpg' is a sparse file");
    char *header = member('0', "a/1.jpg", "x", 1);
    memset(header + 124, 0xff, 12);
    set_sum(header);
    refuse_archive("damaged: an invalid size at byte 0");
    header = member('0', "a/1.jpg", "x", 1);
    memcpy(header + 124, "77777777777", 12);
    set_sum(header);
    refuse_archive("truncated: 'a/1.jpg' has 8589934591 bytes");
    pax("size", "9223372036854775807");
    text("a/1.jpg", "x");
    refuse_archive("damaged: an invalid size in the pax header");
    pax("size", "-1");
    text("a/1.jpg", "x");
    refuse_archive("damaged: an invalid size in the pax header");
    header = member('x', "x", "x", 1);
    memcpy(header + 124, "00010000000", 12); /* the header states a size of 2 MiB */
    set_sum(header);
    refuse_archive("truncated: 'a header' has 2097152 bytes");
    static const char *const records[] = {"9999999999999999999999 path=x\n",
                                          "7 path\n",
                                          "3 \n",
                                          "12 path=xxxx",
                                          " path=x\n",
                                          "0 path=x\n"};
    for (size_t i = 0; i < sizeof records / sizeof *records; i++) {
        member('x', "x", records[i], strlen(records[i]));
        refuse_archive("damaged: an invalid pax header");
    }
    pax("path", "");
    refuse_archive("damaged: an invalid name of 0 bytes");
    char name[6000];
    memset(name, 'x', sizeof name);
    member('L', "x", name, sizeof name);
    refuse_archive("damaged: an invalid name of 6000 bytes");
    text("a/1.jpg", "x");
    archive[0] = 'b';
    refuse_archive("not a tar archive");
    text("a/1.jpg", "x");
    text("a/2.jpg", "x");
    archive[2 * BLOCK] = 'b';
    refuse_archive("damaged: no header at byte 1024");
    text("a/1.jpg", "x");
    memcpy(archive, "\x1f\x8b", 2);
    refuse_archive("compressed by gzip");
}

static void test_truncated(void **state)
{
    (void)state;
    char path[256];
    for (int i = 0; i < 3; i++)
        text("a/1.jpg", "some bytes");
    size_t whole = size;
    finish("odd.tar");
    snprintf(path, sizeof path, "%s/odd.tar", dir);
    for (size_t cut = 0; cut < whole + BLOCK; cut += 100) {
        assert_int_equal(truncate(path, (off_t)whole + BLOCK), STATUS_OK);
        file_write(path, archive, cut);
        refuse(path, "train", "truncated");
    }
    char other[256];
    snprintf(other, sizeof other, "%s/pipe.tar", dir);
    assert_int_equal(mkfifo(other, 0600), 0);
    refuse(other, "train", "not a regular file");
}

/* Opens a data set with more archives than the process's limit of open files allows.
 * image_files_open must raise the limit. */
static void test_limit(void **state)
{
    (void)state;
    struct rlimit before, limit;
    struct dataset *d;
    struct image_files files;
    for (int i = 0; i < 40; i++) {
        char name[32];
        snprintf(name, sizeof name, "train-%d.tar", i);
        text("a/1.jpg", "x");
        finish(name);
    }
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    limit = before;
    limit.rlim_cur = 30;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(dataset_open(dir, "train", &d), STATUS_OK);
    assert_int_equal(image_files_open(d, &files), STATUS_OK);
    image_files_close(&files);
    dataset_free(d);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_true(limit.rlim_cur > 40);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

static void test_fingerprint(void **state)
{
    (void)state;
    uint64_t hash[3];
    static const char *const contents[] = {"some", "some", "more bytes"};
    for (int i = 0; i < 3; i++) {
        struct dataset *d;
        text("a/1.jpg", contents[i]);
        finish("train.tar");
        assert_int_equal(dataset_open(dir, "train", &d), STATUS_OK);
        assert_int_equal(dataset_fingerprint(d, &hash[i]), STATUS_OK);
        dataset_free(d);
    }
    assert_true(hash[0] == hash[1] && hash[0] != hash[2]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_class_folders, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_class_numbers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_class_archives, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_one_archive, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_long_names, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_hostile, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_truncated, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_limit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_fingerprint, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("input_shards", tests, NULL, NULL);
}
