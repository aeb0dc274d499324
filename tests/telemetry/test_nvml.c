/* Tests the sensors of GPUs with stand-ins for NVML. The argument says which stand-in is in
 * LD_LIBRARY_PATH: full, old, or none. */
#include "fake_nvml.h"
#include "telemetry/meter.h"
#include "telemetry/telemetry.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct fake_nvml *fake;

static int set_up(void **state)
{
    (void)state;
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

static struct telemetry_record sample(struct meter *m, int i)
{
    struct telemetry_record row = telemetry_nothing;
    m->sample(m, i, &row);
    return row;
}

static void test_sensors(void **state)
{
    (void)state;
    struct meter *m;
    const int index[] = {1};
    assert_int_equal(nvml_meter_open(index, 1, &m), STATUS_OK);
    fake->gpu[0].millijoules += 2500;
    struct telemetry_record r = sample(m, 0);
    /* CUDA's device 1 is the first GPU on the bus. */
    assert_true(r.clock_mhz == 1500);
    assert_true(r.memory_clock_mhz == 3000);
    assert_true(fabs(r.power_w - 650.5) < 1e-9);
    assert_true(fabs(r.energy_j - 2.5) < 1e-6);
    assert_true(r.temperature_c == 61);
    assert_true(r.throttle == THROTTLE_POWER_CAP);
    assert_true(r.ecc_corrected == 2 && r.ecc_uncorrected == 0);
    assert_true(r.memory_bytes == 300);
    assert_true(r.busy == 97 && r.memory_busy == 45);
    assert_true(r.pcie_sent == 10000 && r.pcie_received == 20000);
    m->close(m);
    assert_int_equal(fake->running, 0);
}

static void test_facts(void **state)
{
    (void)state;
    struct telemetry *t;
    const int index[] = {0, 1};
    struct telemetry_config c = {.seconds = 2, .gpu = true, .n = 2, .index = index};
    assert_int_equal(telemetry_open(&c, &t), STATUS_OK);
    json_t *o = telemetry_facts(t);
    char *text = json_dumps(o, JSON_SORT_KEYS);
    assert_non_null(strstr(text, "\"driver\": \"580.1\""));
    assert_non_null(strstr(text, "\"power_limit_w\": 700.0"));
    assert_non_null(strstr(text, "\"source\": \"nvml\""));
    assert_null(strstr(text, "secret")); /* identities only as hashes */
    /* Properties that the GPU does not report are left out. */
    assert_null(strstr(text, "pcie_generation"));
    const json_t *devices = json_object_get(o, "devices");
    const char *a = json_string_value(json_object_get(json_array_get(devices, 0), "uuid_hash"));
    const char *b = json_string_value(json_object_get(json_array_get(devices, 1), "uuid_hash"));
    assert_string_not_equal(a, b);
    free(text);
    json_decref(o);
    telemetry_close(t);
}

static void test_a_sensor_fails(void **state)
{
    (void)state;
    struct meter *m;
    const int index[] = {0};
    fake->gpu[1].energy_code = 3;
    assert_int_equal(nvml_meter_open(index, 1, &m), STATUS_OK);
    struct telemetry_record r = sample(m, 0);
    assert_true(isnan(r.energy_j));
    assert_true(isnan(m->joules(m, 0)));
    assert_true(r.clock_mhz == 1501);
    assert_string_equal(m->lost, "");
    m->close(m);
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

static struct telemetry *open_both(void)
{
    struct telemetry *t;
    static const int index[] = {0, 1};
    struct telemetry_config c = {.seconds = 3600, .gpu = true, .n = 2, .index = index};
    assert_int_equal(telemetry_open(&c, &t), STATUS_OK);
    return t;
}

static void test_a_gpu_vanishes(void **state)
{
    (void)state;
    struct taken taken = {.refuse_at = -1};
    struct telemetry *t = open_both();
    assert_true(telemetry_joules(t) == 0);
    assert_int_equal(telemetry_start(t, take, &taken), STATUS_OK);
    assert_int_equal(telemetry_stop(t), STATUS_OK); /* a sample at the start and one at the end */
    assert_int_equal(telemetry_stop(t), STATUS_OK);
    assert_int_equal(taken.n, 2);
    assert_true(taken.row[0][1].clock_mhz == 1500);
    assert_true(taken.row[1][0].clock_mhz == 1501);
    assert_true(taken.row[1][0].device == 0 && taken.row[1][1].device == 1);
    assert_true(isnan(taken.row[1][1].clock_mhz) && isnan(taken.row[1][1].energy_j));
    assert_string_equal(telemetry_lost(t), "GPU 1 stopped answering: GPU is lost");
    assert_true(isnan(telemetry_joules(t))); /* the sum over all devices is unknown */
    int calls = fake->calls;
    fake->gpu[1].code = 15;
    assert_true(isnan(telemetry_joules(t)));
    int calls_of_one = fake->calls - calls;
    assert_true(isnan(telemetry_joules(t)));
    assert_int_equal(fake->calls - calls, calls_of_one); /* a lost GPU is not queried again */
    telemetry_close(t);
}

static void test_nobody_takes(void **state)
{
    (void)state;
    struct taken taken = {.refuse_at = 0};
    struct telemetry *t = open_both();
    assert_int_equal(telemetry_start(t, take, &taken), STATUS_OK);
    assert_int_equal(telemetry_stop(t), STATUS_IO);
    assert_string_equal(status_message(), "no room for sample 0");
    telemetry_close(t);
}

/* Checks that the facts about missing sensors contain `why`, and that nothing is sampled. */
static void expect_missing(const char *why)
{
    static const int index[] = {0, 1, 5};
    struct taken taken = {0};
    struct telemetry *t;
    struct telemetry_config c = {.seconds = 1, .gpu = true, .n = 3, .index = index};
    assert_int_equal(telemetry_open(&c, &t), STATUS_OK);
    json_t *o = telemetry_facts(t);
    const char *said =
        json_string_value(json_object_get(json_object_get(o, "telemetry"), "missing"));
    if (!said || !strstr(said, why))
        fail_msg("'%s' does not say '%s'", said ? said : "", why);
    json_decref(o);
    assert_int_equal(telemetry_start(t, take, &taken), STATUS_OK);
    assert_int_equal(telemetry_stop(t), STATUS_OK);
    assert_int_equal(taken.n, 0);
    assert_true(isnan(telemetry_joules(t)));
    assert_null(telemetry_lost(t));
    telemetry_close(t);
}

static void test_no_driver(void **state)
{
    (void)state;
    fake->init_code = 9;
    expect_missing("cannot initialise NVML: Driver Not Loaded");
    assert_int_equal(fake->running, 0);
}

static void test_no_such_gpu(void **state)
{
    (void)state;
    expect_missing("no telemetry of GPU 5: another error");
    assert_int_equal(fake->running, 0);
}

static void test_old_library(void **state)
{
    (void)state;
    struct meter *m;
    const int index[] = {0, 1};
    assert_int_equal(nvml_meter_open(index, 2, &m), STATUS_OK);
    struct telemetry_record r = sample(m, 0);
    assert_true(fabs(r.power_w - 650.5) < 1e-9);
    assert_true(r.throttle == THROTTLE_POWER_CAP);
    assert_true(isnan(r.clock_mhz) && isnan(r.memory_clock_mhz) && isnan(r.energy_j));
    assert_true(isnan(r.temperature_c) && isnan(r.ecc_corrected) && isnan(r.ecc_uncorrected));
    assert_true(isnan(r.memory_bytes) && isnan(r.busy) && isnan(r.memory_busy));
    assert_true(isnan(r.pcie_sent) && isnan(r.pcie_received));
    json_t *o = m->facts(m, 0);
    assert_int_equal(json_object_size(o), 1); /* the only fact is its index */
    json_decref(o);
    fake->gpu[0].code = 15; /* this old library has no text for the code */
    r = sample(m, 0);
    assert_true(isnan(r.power_w));
    assert_string_equal(m->lost, "GPU 0 stopped answering: unknown error");
    m->close(m);
}

static void test_no_library(void **state)
{
    (void)state;
    expect_missing("cannot load libnvidia-ml.so.1, a part of NVIDIA's driver");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest full[] = {
        cmocka_unit_test_setup(test_sensors, set_up),
        cmocka_unit_test_setup(test_facts, set_up),
        cmocka_unit_test_setup(test_a_sensor_fails, set_up),
        cmocka_unit_test_setup(test_a_gpu_vanishes, set_up),
        cmocka_unit_test_setup(test_nobody_takes, set_up),
        cmocka_unit_test_setup(test_no_driver, set_up),
        cmocka_unit_test_setup(test_no_such_gpu, set_up),
    };
    const struct CMUnitTest old[] = {cmocka_unit_test_setup(test_old_library, set_up)};
    const struct CMUnitTest none[] = {cmocka_unit_test(test_no_library)};
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    fake = library ? dlsym(library, "fake_nvml") : NULL;
    if (argc == 2 && strcmp(argv[1], "none") == 0) {
        if (library) {
            printf("SKIPPED: this machine has NVIDIA's library\n");
            return 77;
        }
        return cmocka_run_group_tests(none, NULL, NULL);
    }
    if (!fake) {
        printf("FAILED: the library made for this test was not found\n");
        return 1;
    }
    if (argc == 2 && strcmp(argv[1], "old") == 0)
        return cmocka_run_group_tests(old, NULL, NULL);
    return cmocka_run_group_tests(full, NULL, NULL);
}
