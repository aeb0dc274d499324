/* Tests the counters of what a host's storage has read, in trees like /proc. */
#include "base/file.h"
#include "telemetry/storage.h"
#include "tests/unit.h"

#include <math.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static void put(const char *root, const char *file, const char *text)
{
    expect_ok(dir_make(scratch_path(root, "self")));
    scratch_write_text(root, file, text);
}

/* Writes /proc/diskstats: a line for each of `others` loop devices, then a line of the device on
 * which `root` is. With 700 loop devices, the file does not fit into one read. */
static void put_device(const char *root, int others, unsigned long long sectors)
{
    static char text[64 << 10];
    struct stat folder;
    int n = 0;
    assert_int_equal(stat(root, &folder), 0);
    for (int i = 0; i < others; i++)
        n +=
            snprintf(text + n, sizeof text - (size_t)n, " 4095 %7d loop%d 1 2 3 4 5 6 7 8\n", i, i);
    snprintf(text + n, sizeof text - (size_t)n, " %u %u vdz9 10 20 %llu 40 50 60 70 80\n",
             major(folder.st_dev), minor(folder.st_dev), sectors);
    put(root, "diskstats", text);
}

static void test_storage(void **state)
{
    const char *root = *state;
    struct storage_meter m;
    put_device(root, 700, 1000);
    put(root, "self/io", "rchar: 9000\nwchar: 1\nread_bytes: 4096\nwrite_bytes: 7\n");
    storage_open(&m, root, root);
    assert_string_equal(m.device, "vdz9");
    struct storage_bytes before = storage_read(&m);
    assert_true(before.process == 4096 && before.device == 512000);
    put_device(root, 700, 1100);
    put(root, "self/io", "rchar: 19000\nread_bytes: 8192\n");
    struct storage_bytes spent = storage_since(&m, before);
    assert_true(spent.process == 4096 && spent.device == 51200);
    put(root, "self/io", "rchar: 19000\n"); /* a kernel without accounting */
    put(root, "diskstats", "");             /* the block device is not listed any more */
    spent = storage_since(&m, before);
    assert_true(isnan(spent.process) && isnan(spent.device));
}

/* Nothing is measured if there is no data folder, if the folder is on no block device, or if there
 * is no /proc. */
static void test_storage_unknown(void **state)
{
    const char *root = *state;
    struct storage_meter m;
    struct storage_bytes r;
    put_device(root, 0, 1);
    put(root, "self/io", "read_bytes: 4096\n");
    storage_open(&m, NULL, root);
    assert_string_equal(m.device, "");
    r = storage_read(&m);
    assert_true(isnan(r.process) && isnan(r.device));
    put(root, "diskstats", " 4095 1 other 1 2 3 4\n");
    put(root, "self/mountinfo", "27 1 4095:7 / /mnt rw - nfs4 server:/x rw\n");
    storage_open(&m, root, root);
    assert_string_equal(m.device, "");
    storage_open(&m, root, "/proc/none");
    assert_string_equal(m.device, "");
}

static void test_cached_share(void **state)
{
    assert_true(storage_cached_percent(0, 100) == 100);
    assert_true(storage_cached_percent(25, 100) == 75);
    assert_true(storage_cached_percent(130, 100) == 0); /* read-ahead */
    assert_true(isnan(storage_cached_percent(NAN, 100)) && isnan(storage_cached_percent(0, 0)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_storage),
        IN_FOLDER(test_storage_unknown),
        cmocka_unit_test(test_cached_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
