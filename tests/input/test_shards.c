/* Tests data sets in tar archives: classes, order, and archives that are damaged or made to attack
 * the reader. */
#include "input/image_files.h"
#include "tests/input/trees.h"
#include "tests/unit.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCK = 512, SIZE_AT = 124, SUM_AT = 148, TYPE_AT = 156, MAGIC_AT = 257, PREFIX_AT = 345 };

/* An archive under construction. */
static char archive[1 << 17];
static size_t size;

static void set_sum(char *header)
{
    unsigned sum = 0;
    memset(header + SUM_AT, ' ', 8);
    for (int i = 0; i < BLOCK; i++)
        sum += (unsigned char)header[i];
    snprintf(header + SUM_AT, 8, "%06o", sum);
}

/* Appends a member to the archive, and returns its header. */
static char *member(char type, const char *name, const void *bytes, size_t n)
{
    char *header = archive + size;
    memset(header, 0, BLOCK);
    memcpy(header, name, strlen(name) < 100 ? strlen(name) : 100);
    snprintf(header + SIZE_AT, 12, "%011o", (unsigned)n);
    memcpy(header + MAGIC_AT, "ustar\0" /* and the version: */ "00", 8);
    header[TYPE_AT] = type;
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

/* Overwrites a field of the last member's header. */
static void patch(char *header, int at, const char *field, size_t n)
{
    memcpy(header + at, field, n);
    set_sum(header);
}

/* Appends the end marker, writes the archive to a file, and begins a new archive. */
static const char *finish(void **state, const char *name)
{
    static char path[256];
    memset(archive + size, 0, 2 * BLOCK);
    tree_put(*state, name, archive, size + 2 * BLOCK);
    snprintf(path, sizeof path, "%s/%s", (char *)*state, name);
    size = 0;
    return path;
}

static void test_class_folders(void **state)
{
    member('5', "./train/", "", 0);
    text("./train/b/2.JPEG", "b2");
    text("./train/b/._2.JPEG", "hidden");
    text("./train/b/notes.txt", "no image");
    text("./train/a-b/x.png", "a-bx");
    finish(state, "train-1.tar");
    text("./train/a/sub/1.webp", "a1");
    text("./train/a/z.jpg", "az");
    text("./train/b/10.jpg", "b10");
    finish(state, "train-0.tar");
    text("a/v.jpg", "");
    finish(state, "my-val.tar");
    tree_lists(*state, "train",
               (const char *const[]){
                   "a train-0.tar/train/a/z.jpg az", "a train-0.tar/train/a/sub/1.webp a1",
                   "a-b train-1.tar/train/a-b/x.png a-bx", "b train-0.tar/train/b/10.jpg b10",
                   "b train-1.tar/train/b/2.JPEG b2", NULL});
    tree_lists(*state, "val", (const char *const[]){"a my-val.tar/a/v.jpg ", NULL});
    assert_true(dataset_has_split(*state, "val"));
    assert_false(dataset_has_split(*state, "test"));
    tree_refused(*state, "test", STATUS_DATA, "no folder");
}

static void test_class_numbers(void **state)
{
    text("0001.jpg", "one");
    text("0001.cls", "1\n");
    text("0001.seg.png", "a mask");
    text("0002.cls", " 0");
    text("0002.png", "two");
    finish(state, "train-a.tar");
    text("0003.JPG", "three");
    text("0003.json", "{}");
    text("0003.cls", "1");
    finish(state, "train-b.tar");
    tree_lists(*state, "train",
               (const char *const[]){"000000 train-a.tar/0002.png two",
                                     "000001 train-a.tar/0001.jpg one",
                                     "000001 train-b.tar/0003.JPG three", NULL});
    static const char *const wrong[][2] = {
        {"3", "class 2 of"},
        {"", "'0004.cls' does not contain a class number"},
        {"1000000", "'0004.cls' does not contain a class number"},
    };
    for (int i = 0; i < COUNT(wrong); i++) {
        text("0004.jpg", "");
        text("0004.cls", wrong[i][0]);
        finish(state, "train-c.tar");
        tree_refused(*state, "train", STATUS_DATA, wrong[i][1]);
    }
    text("0004.jpg", "");
    finish(state, "train-c.tar");
    tree_refused(*state, "train", STATUS_DATA, "'0004.jpg' has no class");
}

/* Appends members: words "NAME" or "NAME=CONTENT". Without CONTENT, a member is of the class that
 * is the last digit in its name. */
static void members(const char *words)
{
    char all[512], *rest = all;
    snprintf(all, sizeof all, "%s", words);
    for (char *name; (name = strtok_r(rest, " ", &rest)) != NULL;) {
        char *content = strchr(name, '='), number[32], *digit = name + strlen(name) - 1;
        while (!isdigit((unsigned char)*digit))
            digit--;
        snprintf(number, sizeof number, strstr(name, ".json") ? "{\"label\": %c}" : "%c", *digit);
        if (content)
            *content++ = '\0';
        text(name, content ? content : number);
    }
}

/* Checks that each image is of the class that its content names, and that there are `n`. */
static void check_classes(const char *from, int64_t n)
{
    struct dataset *d;
    struct image_files files;
    expect_ok(dataset_open(from, "train", &d));
    assert_int_equal(image_files_open(d, &files), STATUS_OK);
    assert_int_equal(d->classes, 2);
    assert_int_equal(d->n, n);
    for (int64_t i = 0; i < n; i++) {
        char digit;
        struct image_file f = image_files_at(&files, i);
        assert_int_equal(pread(f.fd, &digit, 1, f.offset), 1);
        assert_int_equal(dataset_label(d, i), digit - '0');
    }
    image_files_close(&files);
    dataset_free(d);
}

/* Each layout is tried in one archive, in archives of train, and in archives of a folder train,
 * where an archive's name must not become the class of images whose labels are not found. */
static void test_labels(void **state)
{
    static const struct {
        const char *members, *reason; /* NULL: there are two images, of class 0 and 1 */
    } cases[] = {
        {"s/0.jpg s/0.cls s/1.jpg s/1.cls", NULL},
        {"s/0.cls s/0.jpg s/1.cls s/1.jpg", NULL},
        {"s/0.jpg s/1.jpg s/0.cls s/1.cls", NULL},
        {"1.cls 0.cls 0.jpg 1.jpg", NULL},
        {"im.0.jpg im.0.cls im.1.jpg im.1.cls", NULL},
        {"v1.2/0.jpg v1.2/1.jpg v1.2/0.cls v1.2/1.cls", NULL},
        {"0.JPG 0.CLS 1.Jpeg 1.cLs", NULL},
        {"s/0.jpg s/0.json s/1.jpg s/1.JSON={\"label\":1}", NULL},
        {"0.jpg 0.json={\"cls\":0,\"class\":\"cat\"} 1.jpg 1.json={\"cls\":7,\"label\":1}", NULL},
        {"0.txt 0.jpg 1.txt=1\n 1.jpg", NULL},
        {"0.jpg 0.txt=caption 0.json 1.jpg 1.txt=caption 1.json", NULL},
        {"0.jpg 0.cls 0.json={\"label\":\"cat\"} 1.jpg 1.cls 1.json=damaged 1.txt=text", NULL},
        {"0.jpg 0.cls 0.seg.png 0.b.c.png 1.seg.png 1.jpg 1.cls 1-x.txt=2 1.x.cls", NULL},
        {"a.0.jpg a.0.cls a.0.seg.png a.1.jpg a.1.cls a.1.txt", NULL},
        {"k0.jpg k0.cls k0-1.jpg k0-1.cls k0.seg.png k0.seg.cls=word", NULL},
        {"s/0.jpg s/0.cls s/1.jpg s/1.cls README.txt meta.json={\"classes\":2} s/notes.txt=1",
         NULL},
        {"s/0.jpg s/1.jpg t/0.cls t/1.cls", "label 't/0.cls' has no image"},
        {"s/0.jpg s/1.jpg t/0.json t/1.json", "label 't/0.json' has no image"},
        {"0.jpg 0.cls 1.cls", "label '1.cls' has no image"},
        {"0.jpg 0.txt 1.txt", "label '1.txt' has no image"},
        {"0.jpg 0.cls 1.gif 1.cls", "label '1.cls' has no image"},
        {"0.jpg 0.cls 1.left.jpg 1.right.jpg 1.cls", "label '1.cls' has no image"},
        {"0.jpg 0.cls 1.jpg", "'1.jpg' has no class: other images have one in KEY.cls or"},
        {"0.jpg 0.cls 1.jpg 1.txt", "'1.jpg' has no class: other images have one in KEY.cls or"},
        {"0.jpg 0.cls 1.jpg 1.json={\"label\":[1]}", "'1.jpg' has no class: other images"},
        {"0.jpg 0.txt 1.jpg", "'1.jpg' has no class: other images have one in KEY.txt"},
        {"s/0.jpg s/0.txt s/1.jpg s/1.txt=word", "'s/1.txt' does not contain a class number"},
        {"s/0.jpg s/0.txt=word s/1.jpg s/1.txt=2x", "'s/0.txt' does not contain a class number"},
        {"a/0.jpg b/1.jpg b/1.txt=word", "'b/1.txt' does not contain a class number"},
        {"a/0.jpg b/1.jpg b/1.json={\"name\":1}", "(tar --exclude='*.json')"},
        {"a/0.jpg b/1.jpg b/1.json={\"label\":-1}", "'b/1.json' does not contain a class number"},
        {"s/0.jpg s/0.cls=cat s/1.jpg s/1.cls=dog", "'s/0.cls' does not contain a class number"},
        {"0.jpg 0.cls 0.json={\"label\":1} 1.jpg 1.cls", "'0.json' says class 1"},
        {"0.jpg 0.txt=1 0.cls 1.jpg 1.cls", "'0.txt' says class 1, but '0.cls' says class 0"},
        {"0.jpg 0.cls 1.jpg 1.cls 1.CLS=0", "'1.CLS' says class 0"},
    };
    for (int i = 0; i < COUNT(cases); i++)
        for (int place = 0; place < 3; place++) {
            static const char *const names[][2] = {{"set.tar", "set.tar"},
                                                   {"train-0.tar", "x_train.tar"},
                                                   {"train/0.tar", "train/1.tar"}};
            char dir[SCRATCH_MAX + 8], from[SCRATCH_MAX + 16];
            snprintf(dir, sizeof dir, "%s/%d.%d", (char *)*state, i, place);
            snprintf(from, sizeof from, "%s%s", dir, place == 0 ? "/set.tar" : "");
            for (int k = 0; k < 2; k++) {
                char *at = dir;
                members(cases[i].members);
                finish((void **)&at, names[place][k]);
            }
            if (cases[i].reason)
                tree_refused(from, "train", STATUS_DATA, cases[i].reason);
            else
                check_classes(from, place == 0 ? 2 : 4);
        }
}

/* An archive must not be in both splits: validation images would be trained on. */
static void test_names_of_both_splits(void **state)
{
    static const char *const names[] = {"val2017-train-0.tar", "train-val-0.tar",
                                        "a_val-train.tar"};
    for (int i = 0; i < COUNT(names); i++) {
        char dir[SCRATCH_MAX + 8], reason[64], *at = dir;
        snprintf(dir, sizeof dir, "%s/%d", (char *)*state, i);
        snprintf(reason, sizeof reason, "%s' is named for both 'train' and 'val'; rename",
                 names[i]);
        text("a/0.jpg", "0");
        finish((void **)&at, "train-0.tar");
        text("a/1.jpg", "1");
        finish((void **)&at, "val-0.tar");
        tree_lists(dir, "val", (const char *const[]){"a val-0.tar/a/1.jpg 1", NULL});
        text("a/2.jpg", "2");
        finish((void **)&at, names[i]);
        tree_refused(dir, "train", STATUS_DATA, reason);
        tree_refused(dir, "val", STATUS_DATA, reason);
    }
    text("a/0.jpg", "0");
    finish(state, "train/train-val.tar"); /* the folder says the split */
    tree_lists(*state, "train", (const char *const[]){"a train-val.tar/a/0.jpg 0", NULL});
}

/* Zeros may follow the end marker, other bytes must not: archives joined by 'cat' would lose the
 * images of all but the first. */
static void test_after_the_end(void **state)
{
    static const size_t padding[] = {0, 2 * BLOCK, 19 * BLOCK, 4096};
    for (int i = 0; i < COUNT(padding); i++) {
        char reason[64];
        text("a/1.jpg", "1");
        size_t end = size;
        memset(archive + size, 0, padding[i] + BLOCK);
        size += padding[i] + BLOCK;
        const char *path = finish(state, "set.tar");
        tree_lists(path, "train", (const char *const[]){"a a/1.jpg 1", NULL});
        size = end + padding[i] + BLOCK;
        snprintf(reason, sizeof reason, "data at byte %zu follow the end-of-archive marker", size);
        text("a/2.jpg", "2");
        tree_refused(finish(state, "set.tar"), "train", STATUS_DATA, reason);
    }
}

/* ImageNet's original form: one archive for each class, without folders. */
static void test_class_archives(void **state)
{
    text("n1_2.JPEG", "12");
    text("n1_1.JPEG", "11");
    finish(state, "train/n1.tar");
    text("n2_1.JPEG", "21");
    finish(state, "train/n2.tar");
    tree_lists(*state, "train",
               (const char *const[]){"n1 n1.tar/n1_1.JPEG 11", "n1 n1.tar/n1_2.JPEG 12",
                                     "n2 n2.tar/n2_1.JPEG 21", NULL});
    text("n1_2.JPEG", "12");
    finish(state, "val.tar");
    tree_refused(*state, "val", STATUS_DATA, "neither a file KEY.cls nor a class folder");
}

static void test_one_archive(void **state)
{
    text("set/train/a/1.jpg", "a1");
    text("set/val/a/2.jpg", "a2");
    const char *path = finish(state, "set.tar");
    tree_lists(path, "train", (const char *const[]){"a set/train/a/1.jpg a1", NULL});
    tree_lists(path, "val", (const char *const[]){"a set/val/a/2.jpg a2", NULL});
    uint64_t first = tree_fingerprint(path);
    assert_true(first == tree_fingerprint(path));
    text("a/1.jpg", "a1");
    text("b/1.jpg", "b1");
    path = finish(state, "set.tar");
    tree_lists(path, "train", (const char *const[]){"a a/1.jpg a1", "b b/1.jpg b1", NULL});
    tree_refused(path, "val", STATUS_DATA, "no images in a folder 'val'");
    assert_true(first != tree_fingerprint(path));
}

static void test_long_names(void **state)
{
    char name[307] = "a/", record[400], gnu[400], pax[400];
    memset(name + 2, 'x', 300);
    strcpy(name + 302, ".jpg");
    snprintf(gnu, sizeof gnu, "a %s gnu", name);
    member('L', "././@LongLink", name, sizeof name);
    text("a/cut.jpg", "gnu");
    name[2] = 'y';
    snprintf(pax, sizeof pax, "a %s pax", name);
    snprintf(record, sizeof record, "316 path=%s\n", name);
    member('x', "x", record, strlen(record));
    text("a/cut.jpg", "pax");
    patch(member('0', "z.jpg", "ustar", 5), PREFIX_AT, "a/prefix", 8);
    char *header = member('0', "a/zz.jpg", "old", 3);
    memset(header + MAGIC_AT, 0, 8); /* without the magic number, the prefix field is ignored */
    patch(header, PREFIX_AT, "junk", 4);
    member('x', "x", "10 size=3\n", 10); /* the size in the pax header overrides the header's */
    patch(member('0', "b/big.jpg", "big", 3), SIZE_AT, "77777777777", 11);
    patch(member('0', "b/binary.jpg", "bin", 3), SIZE_AT, "\x80\0\0\0\0\0\0\0\0\0\0\3", 12);
    tree_lists(finish(state, "long.tar"), "train",
               (const char *const[]){gnu, pax, "a a/zz.jpg old", "a a/prefix/z.jpg ustar",
                                     "b b/big.jpg big", "b b/binary.jpg bin", NULL});
}

static void test_hostile(void **state)
{
    static const char many[] = "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff";
    static char name[6001];
    static const struct {
        char type;
        const char *name, *contents, *size, *reason; /* `size` overwrites the header's */
    } cases[] = {
        {'0', "a/../../etc/1.jpg", "", NULL, "'a/../../etc/1.jpg' has '..' in its name"},
        {'0', "../1.jpg", "", NULL, "'../1.jpg' has '..' in its name"},
        {'2', "a/1.jpg", "", NULL, "'a/1.jpg' is a link"},
        {'S', "a/1.jpg", "", NULL, "'a/1.jpg' is a sparse file"},
        {'x', "x", "22 GNU.sparse.major=1\n", NULL, "'a/2.jpg' is a sparse file"},
        {'0', "a/1.jpg", "x", many, "damaged: an invalid size at byte 0"},
        {'0', "a/1.jpg", "x", "77777777777", "truncated: 'a/1.jpg' has 8589934591 bytes"},
        {'x', "x", "28 size=9223372036854775807\n", NULL, "an invalid size in the pax header"},
        {'x', "x", "11 size=-1\n", NULL, "an invalid size in the pax header"},
        {'x', "x", "x", "00010000000", "truncated: 'a header' has 2097152 bytes"},
        {'x', "x", "9999999999999999999999 path=x\n", NULL, "an invalid pax header"},
        {'x', "x", "7 path\n", NULL, "an invalid pax header"},
        {'x', "x", "12 path=xxxx", NULL, "an invalid pax header"},
        {'x', "x", " path=x\n", NULL, "an invalid pax header"},
        {'x', "x", "8 path=\n", NULL, "an invalid name of 0 bytes"},
        {'L', "x", name, NULL, "an invalid name of 6000 bytes"},
    };
    memset(name, 'x', sizeof name - 1);
    tree_refused(finish(state, "odd.tar"), "train", STATUS_DATA, "holds 0 images");
    for (int i = 0; i < COUNT(cases); i++) {
        size_t n = strlen(cases[i].contents);
        char *header = member(cases[i].type, cases[i].name, cases[i].contents, n);
        if (cases[i].size)
            patch(header, SIZE_AT, cases[i].size, strlen(cases[i].size));
        if (cases[i].type == 'x' || cases[i].type == 'L')
            text("a/2.jpg", "x");
        tree_refused(finish(state, "odd.tar"), "train", STATUS_DATA, cases[i].reason);
    }
    static const struct {
        size_t at;
        const char *bytes, *reason;
    } damage[] = {{0, "b", "not a tar archive"},
                  {2 * BLOCK, "b", "damaged: no header at byte 1024"},
                  {0, "\x1f\x8b", "compressed by gzip"}};
    for (int i = 0; i < COUNT(damage); i++) {
        text("a/1.jpg", "x");
        text("a/2.jpg", "x");
        memcpy(archive + damage[i].at, damage[i].bytes, strlen(damage[i].bytes));
        tree_refused(finish(state, "odd.tar"), "train", STATUS_DATA, damage[i].reason);
    }
}

static void test_truncated(void **state)
{
    char path[SCRATCH_MAX + 16];
    for (int i = 0; i < 3; i++)
        text("a/1.jpg", "some bytes");
    memset(archive + size, 0, BLOCK);
    snprintf(path, sizeof path, "%s/odd.tar", (char *)*state);
    for (size_t cut = 0; cut < size + BLOCK; cut += 100) {
        tree_put(*state, "odd.tar", archive, cut);
        tree_refused(path, "train", STATUS_DATA, "truncated");
    }
    size = 0;
    snprintf(path, sizeof path, "%s/pipe.tar", (char *)*state);
    assert_int_equal(mkfifo(path, 0600), 0);
    tree_refused(path, "train", STATUS_DATA, "not a regular file");
}

/* Opens a data set with more archives than the process's limit of open files allows.
 * image_files_open must raise the limit. */
static void test_limit(void **state)
{
    struct rlimit before, limit;
    struct dataset *d;
    struct image_files files;
    for (int i = 0; i < 40; i++) {
        char name[32];
        snprintf(name, sizeof name, "train-%d.tar", i);
        text("a/1.jpg", "x");
        finish(state, name);
    }
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    limit = before;
    limit.rlim_cur = 30;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(dataset_open(*state, "train", &d), STATUS_OK);
    assert_int_equal(image_files_open(d, &files), STATUS_OK);
    image_files_close(&files);
    dataset_free(d);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_class_folders), IN_FOLDER(test_class_numbers),
        IN_FOLDER(test_labels),        IN_FOLDER(test_names_of_both_splits),
        IN_FOLDER(test_after_the_end), IN_FOLDER(test_class_archives),
        IN_FOLDER(test_one_archive),   IN_FOLDER(test_long_names),
        IN_FOLDER(test_hostile),       IN_FOLDER(test_truncated),
        IN_FOLDER(test_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
