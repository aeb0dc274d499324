/* Tests the counters of a host: its load, and what its storage has read, in trees like /proc. */
#include "base/file.h"
#include "telemetry/load.h"
#include "telemetry/storage.h"
#include "tests/unit.h"

#include <math.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static bool near(double a, double b)
{
    return fabs(a - b) < 1e-9;
}

/* The process may use processors 0 and 2, but not 1. */
static struct load_meter meter_of(const char *root)
{
    struct load_meter m;
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(0, &cpus);
    CPU_SET(2, &cpus);
    load_open(&m, root, &cpus);
    return m;
}

static void test_load(void **state)
{
    const char *root = *state;
    double tick_s = 1.0 / (double)sysconf(_SC_CLK_TCK);
    struct load_meter m = meter_of(root);
    scratch_write_text(root, "loadavg", "0.25 0.50 0.75 1/234 5678\n");
    scratch_write_text(root, "stat",
                       "cpu  9 9 9 9 9 9 9 9 9 9\n"
                       "cpu0 100 10 20 1000 5 3 2 40 7 0\n"
                       "cpu1 9000 9000 9000 9000 9000 9000 9000 9000 0 0\n"
                       "cpu2 200 0 0 0 0 0 0 0 0 0\n"
                       "cpu5000 1 1 1 1 1 1 1 1 0 0\n"
                       "intr 12345\n");
    struct load a = load_read(&m);
    assert_true(near(a.average, 0.25));
    /* Busy ticks: 100 + 10 + 20 + 3 + 2 on processor 0, and 200 on processor 2. */
    assert_true(near(a.busy_s, 335 * tick_s));
    assert_true(near(a.steal_s, 40 * tick_s));
    assert_true(near(a.all_s, (335 + 40 + 1005) * tick_s));
    scratch_write_text(root, "loadavg", "3.5 0.50 0.75 1/234 5678\n");
    scratch_write_text(root, "stat",
                       "cpu0 140 10 20 1030 5 3 2 50 7 0\n"
                       "cpu2 210 0 0 10 0 0 0 0 0 0\n");
    struct load b = load_read(&m);
    /* Of 100 new ticks, 50 are busy, 10 stolen and 40 idle. This process used 20 of the busy
     * ticks. */
    a.own_s = 1;
    b.own_s = 1 + 20 * tick_s;
    a.wall_s = 5;
    b.wall_s = 15;
    a.preempted = 7;
    b.preempted = 27;
    struct host_noise n = load_between(&a, &b, true);
    assert_true(near(n.seconds, 10) && near(n.load_start, 0.25) && near(n.load_end, 3.5));
    assert_true(near(n.steal, 0.1) && near(n.others, 0.3) && near(n.preempted_per_s, 2));
    /* `others` is unknown if it would include other processes of the job */
    assert_true(isnan(load_between(&a, &b, false).others));
    b.own_s = 1 + 60 * tick_s; /* this process used more than the 50 busy ticks */
    assert_true(load_between(&a, &b, true).others == 0);
}

static void test_load_unknown(void **state)
{
    struct load_meter m = meter_of(*state);
    struct load a = load_read(&m);
    assert_true(isnan(a.average) && a.own_s >= 0 && a.preempted >= 0);
    struct host_noise n = load_between(&a, &a, true);
    assert_true(isnan(n.steal) && isnan(n.others) && isnan(n.load_start));
    scratch_write_text(*state, "loadavg", "many\n");
    scratch_write_text(*state, "stat", "cpu0 1 2 3\ncpu2\n");
    a = load_read(&m);
    assert_true(isnan(a.average) && a.all_s == 0);
}

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
        IN_FOLDER(test_load),
        IN_FOLDER(test_load_unknown),
        IN_FOLDER(test_storage),
        IN_FOLDER(test_storage_unknown),
        cmocka_unit_test(test_cached_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
