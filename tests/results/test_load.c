/* Tests the counters of a host's load, in trees like /proc. */
#include "results/load.h"
#include "tests/unit.h"

#include <math.h>
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
    b.wall_s = 5 + 50 * tick_s;
    a.throttled_s = 3;
    b.throttled_s = 3 + 5 * tick_s;
    a.preempted = 7;
    b.preempted = 27;
    struct host_noise n = load_between(&a, &b);
    assert_true(near(n.seconds, 50 * tick_s) && n.processors == 2 && near(n.load_start, 0.25) &&
                near(n.load_end, 3.5));
    assert_true(near(n.steal, 0.1) && near(n.others, 0.3) && near(n.throttled, 0.05));
    assert_true(near(n.preempted_per_s, 20 / (50 * tick_s)));
    b.own_s = 1 + 60 * tick_s; /* this process used more than the 50 busy ticks */
    assert_true(load_between(&a, &b).others == 0);
}

static void test_load_unknown(void **state)
{
    struct load_meter m = meter_of(*state);
    struct load a = load_read(&m);
    assert_true(isnan(a.average) && a.own_s >= 0 && a.preempted >= 0);
    struct host_noise n = load_between(&a, &a);
    assert_true(isnan(n.steal) && isnan(n.others) && isnan(n.load_start));
    scratch_write_text(*state, "loadavg", "many\n");
    scratch_write_text(*state, "stat", "cpu0 1 2 3\ncpu2\n");
    a = load_read(&m);
    assert_true(isnan(a.average) && a.all_s == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {IN_FOLDER(test_load), IN_FOLDER(test_load_unknown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
