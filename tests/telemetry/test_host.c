/* Tests the sensors of processors, in trees like /sys. */
#include "base/file.h"
#include "telemetry/meter.h"
#include "telemetry/telemetry.h"
#include "tests/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put(const char *root, const char *dir, const char *file, const char *text)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", root, dir);
    expect_ok(dir_make(path));
    scratch_write_text(path, file, text);
}

static void put_package(const char *root, const char *dir, const char *name, const char *energy)
{
    put(root, dir, "name", name);
    put(root, dir, "energy_uj", energy);
    put(root, dir, "max_energy_range_uj", "262143328850\n");
}

static struct telemetry_record sample(struct meter *m)
{
    struct telemetry_record row = telemetry_nothing;
    m->sample(m, 0, &row);
    return row;
}

static void test_energy(void **state)
{
    struct meter *m;
    const char *root = *state;
    put_package(root, "class/powercap/intel-rapl:0", "package-0\n", "262143000000\n");
    put_package(root, "class/powercap/intel-rapl:1", "package-1\n", "1000000\n");
    /* The sensors of a part of a package and of the whole machine are ignored. Otherwise energy
     * would be counted twice. */
    put_package(root, "class/powercap/intel-rapl:0:0", "core\n", "1000000\n");
    put_package(root, "class/powercap/intel-rapl:2", "psys\n", "1000000\n");
    put(root, "class/powercap/intel-rapl", "enabled", "1\n");
    expect_ok(host_meter_open(root, &m));
    assert_true(m->joules(m, 0) == 0);
    assert_true(isnan(sample(m).power_w)); /* no time has passed since the meter was opened */
    /* the counter has wrapped around once */
    put_package(root, "class/powercap/intel-rapl:0", "package-0\n", "671150\n");
    put_package(root, "class/powercap/intel-rapl:1", "package-1\n", "5000000\n");
    put_package(root, "class/powercap/intel-rapl:0:0", "core\n", "9000000\n");
    struct telemetry_record r = sample(m);
    assert_true(fabs(r.energy_j - 5) < 1e-6);
    assert_true(r.power_w > 0);
    assert_true(isnan(r.clock_mhz) && isnan(r.temperature_c) && isnan(r.throttle));
    put(root, "class/powercap/intel-rapl:0", "energy_uj", "-1\n");
    assert_true(isnan(m->joules(m, 0)));
    m->close(m);
}

static void test_temperature_and_clock(void **state)
{
    struct meter *m;
    const char *root = *state;
    put(root, "class/hwmon/hwmon0", "name", "nvme\n");
    put(root, "class/hwmon/hwmon0", "temp1_input", "99000\n");
    put(root, "class/hwmon/hwmon1", "name", "coretemp\n");
    put(root, "class/hwmon/hwmon1", "temp1_input", "45000\n");
    put(root, "class/hwmon/hwmon2", "name", "coretemp\n");
    put(root, "class/hwmon/hwmon2", "temp1_input", "51500\n");
    put(root, "devices/system/cpu/cpu0/cpufreq", "scaling_cur_freq", "2000000\n");
    put(root, "devices/system/cpu/cpu1/cpufreq", "scaling_cur_freq", "3000000\n");
    put(root, "devices/system/cpu/cpu2", "online", "0\n");
    expect_ok(host_meter_open(root, &m));
    struct telemetry_record r = sample(m);
    assert_true(fabs(r.temperature_c - 51.5) < 1e-9);
    assert_true(fabs(r.clock_mhz - 2500) < 1e-9);
    assert_true(isnan(r.energy_j) && isnan(r.power_w) && isnan(m->joules(m, 0)));
    m->close(m);
}

/* Invalid files are ignored, as if they were missing. */
static void test_nonsense(void **state)
{
    struct meter *m;
    const char *root = *state;
    put(root, "class/powercap/intel-rapl:0", "name", "package-0\n");
    put(root, "class/powercap/intel-rapl:0", "energy_uj", "12 joules\n");
    put(root, "class/powercap/intel-rapl:1", "name", "");
    put(root, "class/hwmon/hwmon0", "name", "coretemp\n");
    put(root, "class/hwmon/hwmon0", "temp1_input", "99999999999999999999999999\n");
    put(root, "devices/system/cpu/cpu0/cpufreq", "scaling_cur_freq", "<unknown>\n");
    assert_int_equal(host_meter_open(root, &m), STATUS_UNSUPPORTED);
    assert_non_null(strstr(status_message(), "no energy, temperature or clock"));
    assert_int_equal(host_meter_open("/nonexistent", &m), STATUS_UNSUPPORTED);
}

/* The facts name the sensors, or say why there are none. */
static void test_facts(void **state)
{
    static const char *const want[] = {"\"missing\": ", "\"packages_with_energy\": 1"};
    struct telemetry_config c = {.seconds = 1, .sysfs = *state};
    for (int i = 0; i < 2; i++) {
        struct telemetry *t;
        expect_ok(telemetry_open(&c, &t));
        json_t *o = telemetry_facts(t);
        char *text = json_dumps(o, 0);
        assert_non_null(strstr(text, want[i]));
        free(text);
        json_decref(o);
        telemetry_close(t);
        put_package(*state, "class/powercap/intel-rapl:0", "package-0-die-0\n", "5\n");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {IN_FOLDER(test_energy),
                                       IN_FOLDER(test_temperature_and_clock),
                                       IN_FOLDER(test_nonsense), IN_FOLDER(test_facts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
