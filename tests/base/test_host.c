/* Reads the CPU limits of control groups from folders like those of the system. */
#include "base/host.h"
#include "tests/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct group {
    const char *file, *text; /* below sys/fs/cgroup */
};

static void test_quota(void **state)
{
    static const struct {
        const char *lines; /* of /proc/self/cgroup */
        double quota;
        struct group group[5];
        double throttled_s;
    } cases[] = {
        {"0::/\n",
         0.5,
         {{"cpu.max", "50000 100000\n"},
          {"cpu.stat", "usage_usec 7\nnr_periods 9\nnr_throttled 3\nthrottled_usec 2500000\n"}},
         2.5},
        {"0::/\n", INFINITY, {{"cpu.max", "max 100000\n"}}},
        {"0::/\n", INFINITY, {{"cpu.max", "50000 0\n"}}},
        {"0::/\n", INFINITY, {{NULL, NULL}}},
        /* the lowest limit counts, whichever group has it */
        {"0::/a/b\n", 1.5, {{"a/b/cpu.max", "max 100000\n"}, {"a/cpu.max", "150000 100000\n"}}},
        {"0::/a/b\n", 1, {{"a/b/cpu.max", "10000 10000\n"}, {"a/cpu.max", "150000 100000\n"}}},
        {"0::/a\n", INFINITY, {{"b/cpu.max", "50000 100000\n"}}},
        {"3:cpuset:/b\n2:cpuacct,cpu:/a\n1:name=systemd:/b\n0::/b\n",
         0.75,
         {{"cpu/a/cpu.cfs_quota_us", "75000\n"},
          {"cpu/a/cpu.cfs_period_us", "100000\n"},
          {"cpu/a/cpu.stat", "nr_periods 70\nnr_throttled 12\nthrottled_time 250000000\n"},
          {"cpu/b/cpu.cfs_quota_us", "1000\n"},
          {"cpu/b/cpu.cfs_period_us", "100000\n"}},
         0.25},
        {"1:cpu:/\n",
         INFINITY,
         {{"cpu/cpu.cfs_quota_us", "-1\n"}, {"cpu/cpu.cfs_period_us", "100000\n"}}},
        /* a container: the group's path is the host's, the mounted folder is the group's own */
        {"1:cpu:/docker/1f\n",
         2,
         {{"cpu/cpu.cfs_quota_us", "20000\n"}, {"cpu/cpu.cfs_period_us", "10000\n"}}},
        {"1:cpuset:/a,cpu,b\nnonsense\n:\n",
         INFINITY,
         {{"cpu/cpu.cfs_quota_us", "1\n"}, {"cpu/cpu.cfs_period_us", "1\n"}}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char root[512], path[1024], command[2048];
        snprintf(root, sizeof root, "%s/%zu", (const char *)*state, i);
        snprintf(command, sizeof command,
                 "mkdir -p '%s/proc/self' && cd '%s' && mkdir -p sys/fs/cgroup/cpu/a "
                 "sys/fs/cgroup/cpu/b sys/fs/cgroup/a/b sys/fs/cgroup/b",
                 root, root);
        assert_int_equal(system(command), 0);
        snprintf(path, sizeof path, "%zu/proc/self/cgroup", i);
        scratch_write_text(*state, path, cases[i].lines);
        for (const struct group *g = cases[i].group; g < cases[i].group + 5 && g->file; g++) {
            snprintf(path, sizeof path, "%zu/sys/fs/cgroup/%s", i, g->file);
            scratch_write_text(*state, path, g->text);
        }
        assert_true(host_quota(root) == cases[i].quota);
        assert_true(fabs(host_throttled_s(root) - cases[i].throttled_s) < 1e-9);
        int most = cases[i].quota <= 1 ? 1 : cases[i].quota <= 2 ? 2 : host_affinity();
        assert_int_equal(host_cores_within(root), most < host_affinity() ? most : host_affinity());
    }
    assert_true(host_quota("/nowhere") == INFINITY);
}

static void test_oversubscribed(void **state)
{
    (void)state;
    char text[128] = "", start[64];
    int cores = host_cores();
    assert_false(host_oversubscribed(cores, text, sizeof text));
    assert_true(host_oversubscribed(cores + 1, text, sizeof text));
    bool quota = host_quota("") < host_affinity();
    snprintf(start, sizeof start, "%d threads on %g ", cores + 1,
             quota ? host_quota("") : (double)cores);
    assert_int_equal(strncmp(text, start, strlen(start)), 0);
    assert_non_null(strstr(text, quota ? "quota" : "usable core"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {IN_FOLDER(test_quota),
                                       cmocka_unit_test(test_oversubscribed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
