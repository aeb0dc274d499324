/* Tests telemetry: it is written, read back and summarized, for instance as energy per image. */
#include "results/record.h"
#include "results/sensors.h"
#include "results/summary.h"
#include "scratch.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char run_text[] = "{\"schema\":1,\"config\":{\"arch\":\"resnet18\"}}";

static int set_up(void **state)
{
    scratch_set_up(state);
    scratch_write(*state, "run.json", run_text, strlen(run_text));
    return 0;
}

static void add_step(const char *dir, int step, double elapsed, double total, int images)
{
    char line[SCHEMA_LINE_MAX];
    struct step_record s = {.step = step, .images = images, .total_s = total, .elapsed = elapsed};
    scratch_append(dir, "steps.jsonl", line, schema_format(&step_schema, &s, line));
}

static void add_sample(const char *dir, struct telemetry_record row)
{
    char line[SCHEMA_LINE_MAX];
    scratch_append(dir, "telemetry.jsonl", line, schema_format(&telemetry_schema, &row, line));
}

static struct telemetry_record row_of(int sample, int device, double elapsed, double joules)
{
    struct telemetry_record r = telemetry_nothing;
    r.sample = sample;
    r.device = device;
    r.elapsed = elapsed;
    r.energy_j = joules;
    return r;
}

static struct run *load(const char *dir)
{
    struct run *run;
    if (run_load(dir, &run) != STATUS_OK)
        fail_msg("%s", status_message());
    return run;
}

static struct energy energy(const char *dir)
{
    struct run *run = load(dir);
    struct energy e = energy_of(run);
    run_free(run);
    return e;
}

/* Adds two steps of 10 images. The first step runs from 1 s to 2 s, and the second from 3 s to 4 s.
 */
static void add_two_steps(const char *dir)
{
    add_step(dir, 0, 2, 1, 10);
    add_step(dir, 1, 4, 1, 10);
}

static void test_energy_of_steps_alone(void **state)
{
    add_two_steps(*state);
    /* The power is 100 W, so each second of training uses 100 J. */
    for (int i = 0; i <= 10; i++)
        add_sample(*state, row_of(i, 0, 0.5 * i, 50 * i));
    struct energy e = energy(*state);
    assert_true(fabs(e.joules - 200) < 1e-9);
    assert_true(fabs(e.images - 20) < 1e-9);
    assert_true(fabs(e.joules_per_image - 10) < 1e-9);
}

static void test_energy_between_samples(void **state)
{
    add_two_steps(*state);
    /* There is only one sampling interval. Its energy is distributed evenly over its time. */
    add_sample(*state, row_of(0, 0, 1.5, 0));
    add_sample(*state, row_of(1, 0, 5.5, 400));
    struct energy e = energy(*state);
    /* The interval contains half of the first step, and the whole second step. */
    assert_true(fabs(e.joules - 150) < 1e-9);
    assert_true(fabs(e.images - 15) < 1e-9);
}

static void test_energy_of_devices_adds_up(void **state)
{
    add_two_steps(*state);
    for (int i = 0; i <= 10; i++) {
        add_sample(*state, row_of(i, 0, 0.5 * i, 50 * i));
        /* the second device is lost during the run */
        add_sample(*state, row_of(i, 1, 0.5 * i, i < 6 ? 25 * i : NAN));
    }
    assert_true(fabs(energy(*state).joules_per_image - 15) < 1e-9);
}

/* If one device does not measure its energy, the total energy is unknown. */
static void test_energy_unknown(void **state)
{
    add_two_steps(*state);
    for (int i = 0; i <= 10; i++) {
        add_sample(*state, row_of(i, 0, 0.5 * i, 50 * i));
        add_sample(*state, row_of(i, 1, 0.5 * i, NAN));
    }
    assert_true(isnan(energy(*state).joules_per_image));
}

/* The energy of a job of several ranks is the sum over all epochs whose energy was recorded. Rank
 * 0's own samples are not used, because they do not include the other ranks. */
static void test_energy_of_several_ranks(void **state)
{
    static const char text[] = "{\"schema\":1,\"ranks\":[{\"rank\":0,\"host\":\"a\",\"pid\":1},"
                               "{\"rank\":1,\"host\":\"b\",\"pid\":1}]}";
    add_two_steps(*state);
    for (int i = 0; i <= 10; i++)
        add_sample(*state, row_of(i, 0, 0.5 * i, 50 * i));
    assert_false(isnan(energy(*state).joules_per_image));
    scratch_write(*state, "run.json", text, strlen(text));
    assert_true(isnan(energy(*state).joules_per_image));
    for (int i = 0; i < 3; i++) {
        char line[SCHEMA_LINE_MAX];
        struct epoch_record e = {.epoch = i, .steps = i + 1, .train_images = 100};
        if (i > 0) {
            e.energy_j = 100 * i;
            e.joules_per_image = i;
        }
        scratch_append(*state, "epochs.jsonl", line, schema_format(&epoch_schema, &e, line));
    }
    struct energy e = energy(*state);
    assert_true(fabs(e.joules - 300) < 1e-9 && fabs(e.images - 200) < 1e-9);
    assert_true(fabs(e.joules_per_image - 1.5) < 1e-9);
}

/* Energy is computed only from samples of the same attempt: the counter may have another value when
 * the next attempt begins. */
static void test_energy_over_attempts(void **state)
{
    add_two_steps(*state);
    add_sample(*state, row_of(0, 0, 0, 7000));
    add_sample(*state, row_of(1, 0, 2.5, 7250));
    struct telemetry_record r = row_of(2, 0, 3.25, 9000);
    r.attempt = 1;
    add_sample(*state, r);
    r = row_of(3, 0, 4.5, 9125);
    r.attempt = 1;
    add_sample(*state, r);
    assert_true(fabs(energy(*state).joules - 175) < 1e-9);
}

static double number(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    if (!json_is_number(v))
        fail_msg("no number '%s'", key);
    return json_number_value(v);
}

static void test_summary(void **state)
{
    add_two_steps(*state);
    for (int i = 0; i <= 4; i++) {
        struct telemetry_record r = row_of(i, 0, i, 100 * i);
        r.temperature_c = 50 + i;
        r.clock_mhz = 1000 + i;
        r.ecc_corrected = 7 + (i > 2);
        r.throttle = i == 4 ? THROTTLE_POWER_CAP | THROTTLE_HEAT : 0;
        add_sample(*state, r);
    }
    struct run *run = load(*state);
    json_t *o = json_object();
    assert_int_equal(summary_add(run, o), STATUS_OK);
    const json_t *e = json_object_get(o, "energy");
    assert_true(fabs(number(e, "joules_per_image") - 10) < 1e-9);
    assert_true(fabs(number(e, "images_per_joule") - 0.1) < 1e-9);
    const json_t *d = json_array_get(json_object_get(o, "telemetry"), 0);
    assert_true(number(d, "samples") == 5);
    assert_true(number(d, "temperature_c") == 54);
    assert_true(number(d, "clock_mhz") == 1002);
    assert_true(number(d, "ecc_corrected") == 1);
    assert_true(fabs(number(json_object_get(d, "throttled"), "power cap") - 0.2) < 1e-9);
    assert_null(json_object_get(d, "power_w"));
    json_decref(o);
    run_free(run);
}

static void test_words(void **state)
{
    char words[THROTTLE_WORDS_MAX];
    (void)state;
    throttle_words(0, words);
    assert_string_equal(words, "none");
    throttle_words(THROTTLE_POWER_CAP | THROTTLE_HARDWARE_HEAT, words);
    assert_string_equal(words, "power cap, hardware heat");
    throttle_words(1u << 20, words);
    assert_string_equal(words, "other");
    throttle_words(UINT32_MAX, words);
    assert_non_null(strstr(words, "display clocks, other"));
    assert_null(throttle_word(3));
}

static void test_hostile_lines(void **state)
{
    static const struct {
        const char *text, *say;
    } cases[] = {
        {"{\"sample\":0,\"device\":64,\"elapsed\":1}\n", "'device' is out of range"},
        {"{\"sample\":0,\"device\":-1,\"elapsed\":1}\n", "'device' is out of range"},
        {"{\"device\":0,\"elapsed\":1}\n", "'sample' is missing"},
        {"{\"sample\":0,\"device\":0,\"elapsed\":1,\"power_w\":-5}\n", "'power_w' is out of range"},
        {"{\"sample\":0,\"device\":0,\"elapsed\":1,\"busy\":101}\n", "'busy' is out of range"},
        {"{\"sample\":0,\"device\":0,\"elapsed\":1,\"throttle\":1e300}\n", "'throttle' is out of"},
        {"{\"sample\":0,\"device\":0,\"elapsed\":1,\"energy_j\":\"7\"}\n", "is not a number"},
        {"{\"sample\":1e3,\"device\":0,\"elapsed\":1}\n", "'sample' is not a whole number"},
        {"[]\n", "not an object"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct run *run;
        scratch_write(*state, "telemetry.jsonl", cases[i].text, strlen(cases[i].text));
        assert_int_equal(run_load(*state, &run), STATUS_DATA);
        if (!strstr(status_message(), cases[i].say))
            fail_msg("'%s' does not say '%s'", status_message(), cases[i].say);
    }
}

/* A missing value and a null mean that the value was not measured. An incomplete last line is
 * ignored. */
static void test_absent_and_torn(void **state)
{
    static const char text[] = "{\"sample\":0,\"device\":0,\"elapsed\":1,\"power_w\":null}\n"
                               "{\"sample\":1,\"device\":0,\"elap";
    scratch_write(*state, "telemetry.jsonl", text, strlen(text));
    struct run *run = load(*state);
    assert_int_equal(run->n_telemetry, 1);
    assert_true(isnan(run->telemetry[0].power_w) && isnan(run->telemetry[0].throttle));
    assert_true(run->elapsed == 1);
    run_free(run);
}

/* Records two attempts. The first attempt ends with an incomplete line. The second attempt
 * continues the sample numbers. */
static void test_record(void **state)
{
    char dir[SCRATCH_MAX + 8];
    struct record *r;
    struct telemetry_record rows[2] = {row_of(0, 0, 0, 1), row_of(0, 1, 0, NAN)};
    json_t *config = json_object(), *hardware = json_pack("{s:s}", "telemetry", "fake");
    struct run_info info = {.config = config, .device = "x", .hardware = hardware};
    snprintf(dir, sizeof dir, "%s/run", (char *)*state);
    assert_int_equal(record_create(dir, &info, &r), STATUS_OK);
    assert_int_equal(record_telemetry(r, rows, 2), STATUS_OK);
    assert_int_equal(record_telemetry(r, rows, 2), STATUS_OK);
    assert_int_equal(record_close(r), STATUS_OK);
    scratch_append(dir, "telemetry.jsonl", "{\"sample\":2,", 12);
    assert_int_equal(record_resume(dir, &info, 0, 0, &r), STATUS_OK);
    assert_int_equal(record_telemetry(r, rows, 2), STATUS_OK);
    assert_int_equal(record_close(r), STATUS_OK);
    struct run *run = load(dir);
    assert_int_equal(run->n_telemetry, 6);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(run->telemetry[i].sample, i / 2);
        assert_int_equal(run->telemetry[i].device, i % 2);
        assert_int_equal(run->telemetry[i].attempt, i >= 4);
        assert_true(i == 0 || run->telemetry[i].elapsed >= run->telemetry[i - 1].elapsed);
        assert_true(i % 2 ? isnan(run->telemetry[i].energy_j) : run->telemetry[i].energy_j == 1);
    }
    const json_t *host = json_object_get(run->info, "host");
    assert_string_equal(json_string_value(json_object_get(host, "telemetry")), "fake");
    run_free(run);
    json_decref(config);
    json_decref(hardware);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_energy_of_steps_alone, set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(test_energy_between_samples, set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(test_energy_of_devices_adds_up, set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(test_energy_unknown, set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(test_energy_of_several_ranks, set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(test_energy_over_attempts, set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(test_summary, set_up, scratch_tear_down),
        cmocka_unit_test(test_words),
        cmocka_unit_test_setup_teardown(test_hostile_lines, set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(test_absent_and_torn, set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(test_record, set_up, scratch_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
