/* Tests the sensors of GPUs with a stand-in for NVML. With an argument, the stand-in is an old one.
 */
#include "../results/scratch.h"
#include "fake_nvml.h"
#include "telemetry/meter.h"
#include "telemetry/telemetry.h"
#include "tests/suite.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct fake_nvml *fake;
static const int gpus[] = {0, 1, 5};

static int set_up(void **state)
{
    *fake = (struct fake_nvml){0};
    for (int i = 0; i < FAKE_GPUS; i++)
        fake->gpu[i] = (struct fake_gpu){.clock = 1500 + (unsigned)i,
                                         .memory_clock = 3000,
                                         .milliwatts = 650500,
                                         .celsius = 61,
                                         .millijoules = 5000000 + (unsigned)i,
                                         .throttle = THROTTLE_POWER_CAP,
                                         .corrected = 2,
                                         .bus = i == 0 ? "0000:01:00.0" : "0000:02:00.0"};
    return 0;
}

static struct meter *open_meter(int n)
{
    struct meter *m;
    expect_ok(nvml_meter_open(gpus, n, &m));
    return m;
}

static struct telemetry *open_telemetry(int n)
{
    struct telemetry *t;
    struct telemetry_config c = {.seconds = 3600, .gpu = true, .n = n, .index = gpus};
    expect_ok(telemetry_open(&c, &t));
    return t;
}

static struct telemetry_record sample(struct meter *m, int i)
{
    struct telemetry_record row = telemetry_nothing;
    m->sample(m, i, &row);
    return row;
}

/* CUDA's device 1 is the first GPU on the bus. The energy counter of the second GPU fails. */
static void test_sensors(void **state)
{
    fake->gpu[1].energy_code = 3;
    struct meter *m = open_meter(2);
    fake->gpu[0].millijoules += 2500;
    struct telemetry_record r = sample(m, 1);
    assert_true(r.clock_mhz == 1500 && r.memory_clock_mhz == 3000 && r.temperature_c == 61);
    assert_true(fabs(r.power_w - 650.5) < 1e-9 && fabs(r.energy_j - 2.5) < 1e-6);
    assert_true(r.throttle == THROTTLE_POWER_CAP);
    assert_true(r.ecc_corrected == 2 && r.ecc_uncorrected == 0);
    assert_true(r.memory_bytes == 300 && r.busy == 97 && r.memory_busy == 45);
    assert_true(r.pcie_sent == 10000 && r.pcie_received == 20000);
    r = sample(m, 0);
    assert_true(r.clock_mhz == 1501 && isnan(r.energy_j) && isnan(m->joules(m, 0)));
    assert_string_equal(m->lost, "");
    m->close(m);
    assert_int_equal(fake->running, 0);
}

/* Rows that telemetry passes to the test. */
struct taken {
    struct telemetry_record row[64][FAKE_GPUS];
    int n;
    int refuse_at;
};

static enum status take(void *context, struct telemetry_record *row, int n)
{
    struct taken *t = context;
    assert_int_equal(n, FAKE_GPUS);
    if (t->n == t->refuse_at)
        return status_fail(STATUS_IO, "no room for sample %d", t->n);
    memcpy(t->row[t->n], row, sizeof t->row[0]);
    t->n++;
    if (t->n == 1) /* from now on, the first GPU on the bus is lost */
        fake->gpu[0].code = 15;
    return STATUS_OK;
}

/* There is a sample at the start and one at the end. Once a GPU is lost, the sum over all devices
 * is unknown. */
static void test_a_gpu_vanishes(void **state)
{
    struct taken taken = {.refuse_at = -1};
    struct telemetry *t = open_telemetry(2);
    assert_true(telemetry_joules(t) == 0);
    expect_ok(telemetry_start(t, take, &taken));
    expect_ok(telemetry_stop(t));
    expect_ok(telemetry_stop(t));
    assert_int_equal(taken.n, 2);
    assert_true(taken.row[0][1].clock_mhz == 1500 && taken.row[1][0].clock_mhz == 1501);
    assert_true(taken.row[1][0].device == 0 && taken.row[1][1].device == 1);
    assert_true(isnan(taken.row[1][1].clock_mhz) && isnan(taken.row[1][1].energy_j));
    assert_string_equal(telemetry_lost(t), "GPU 1 stopped answering: GPU is lost");
    assert_true(isnan(telemetry_joules(t)));
    telemetry_close(t);
    taken = (struct taken){.refuse_at = 0}; /* the failure of a call of `take` is returned */
    t = open_telemetry(2);
    expect_ok(telemetry_start(t, take, &taken));
    assert_int_equal(telemetry_stop(t), STATUS_IO);
    assert_string_equal(status_message(), "no room for sample 0");
    telemetry_close(t);
}

/* What the library says of a GPU for as long as it runs. */
static void test_facts(void **state)
{
    static const struct {
        const char *key;
        double value;
    } rows[] = {{"max_clock_mhz", 1980}, {"pcie_width", 16},    {"max_pcie_generation", 5},
                {"max_pcie_width", 16},  {"remapped_rows", 3},  {"remapping_pending", 1},
                {"remapping_failed", 0}, {"power_limit_w", 700}};
    struct meter *m;
    assert_int_equal(nvml_meter_open((int[]){0}, 1, &m), STATUS_OK);
    json_t *o = m->facts(m, 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_true(json_number_value(json_object_get(o, rows[i].key)) == rows[i].value);
    json_decref(o);
    m->close(m);
}

/* Checks that the facts about missing sensors contain `why`, and that nothing is sampled. */
static void expect_missing(const char *why)
{
    struct taken taken = {0};
    struct telemetry *t = open_telemetry(3);
    json_t *o = telemetry_facts(t);
    const json_t *missing = json_object_get(json_object_get(o, "telemetry"), "missing");
    if (!json_is_string(missing) || !strstr(json_string_value(missing), why))
        fail_msg("the facts do not say '%s'", why);
    json_decref(o);
    expect_ok(telemetry_start(t, take, &taken));
    expect_ok(telemetry_stop(t));
    assert_int_equal(taken.n, 0);
    assert_true(isnan(telemetry_joules(t)));
    assert_null(telemetry_lost(t));
    telemetry_close(t);
}

static void test_no_driver_or_gpu(void **state)
{
    expect_missing("no telemetry of GPU 5: another error");
    fake->init_code = 9;
    expect_missing("cannot initialise NVML: Driver Not Loaded");
    assert_int_equal(fake->running, 0);
}

/* An old library has only the power and the reasons of throttling. The only fact is the index. */
static void test_old_library(void **state)
{
    struct meter *m = open_meter(2);
    struct telemetry_record r = sample(m, 0);
    int measured = 0;
    for (int i = 0; i < telemetry_schema.n; i++) {
        const struct field *f = &telemetry_schema.field[i];
        measured += f->type == FIELD_SENSOR && !isnan(*(double *)((char *)&r + f->offset));
    }
    assert_int_equal(measured, 2);
    assert_true(fabs(r.power_w - 650.5) < 1e-9 && r.throttle == THROTTLE_POWER_CAP);
    json_t *o = m->facts(m, 0);
    assert_int_equal(json_object_size(o), 1);
    json_decref(o);
    fake->gpu[0].code = 15; /* this old library has no text for the code */
    r = sample(m, 0);
    assert_true(isnan(r.power_w));
    assert_string_equal(m->lost, "GPU 0 stopped answering: unknown error");
    m->close(m);
}

int main(void)
{
    const struct CMUnitTest full[] = {
        cmocka_unit_test_setup(test_sensors, set_up),
        cmocka_unit_test_setup(test_facts, set_up),
        cmocka_unit_test_setup(test_a_gpu_vanishes, set_up),
        cmocka_unit_test_setup(test_no_driver_or_gpu, set_up),
    };
    const struct CMUnitTest old[] = {cmocka_unit_test_setup(test_old_library, set_up)};
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    fake = library ? dlsym(library, "fake_nvml") : NULL;
    if (!fake) {
        printf("FAILED: the library made for this test was not found\n");
        return 1;
    }
    return suite_argc > 1 ? cmocka_run_group_tests(old, NULL, NULL)
                          : cmocka_run_group_tests(full, NULL, NULL);
}
