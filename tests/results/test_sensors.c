/* Tests what is computed from telemetry, for instance energy per image. */
#include "results/sensors.h"
#include "results/summary.h"
#include "run_rig.h"

#include <math.h>
#include <string.h>

/* Two steps of 10 images: from 1 s to 2 s, and from 3 s to 4 s. */
static struct step_record step[] = {{.images = 10, .total_s = 1, .elapsed = 2},
                                    {.step = 1, .images = 10, .total_s = 1, .elapsed = 4}};
static struct telemetry_record sample[32];
static struct run run;

static int set_up(void **state)
{
    run = (struct run){.dir = "a run", .n_steps = 2, .step = step, .telemetry = sample};
    return 0;
}

static struct telemetry_record *add_sample(int i, int device, double elapsed, double joules)
{
    struct telemetry_record *r = &sample[run.n_telemetry++];
    *r = telemetry_nothing;
    r->sample = i;
    r->device = device;
    r->elapsed = elapsed;
    r->energy_j = joules;
    return r;
}

/* Adds 11 samples, one every half second. The first device has a power of 100 W. The second device
 * has 50 W, and is lost before sample `lost`. */
static void add_samples(int devices, int lost)
{
    for (int i = 0; i <= 10; i++) {
        add_sample(i, 0, 0.5 * i, 50 * i);
        if (devices > 1)
            add_sample(i, 1, 0.5 * i, i < lost ? 25 * i : NAN);
    }
}

static void expect_energy(double joules, double images)
{
    struct energy e = energy_of(&run);
    assert_close(e.joules, joules);
    assert_close(e.images, images);
    assert_close(e.joules_per_image, joules / images);
}

static void test_energy_of_steps_alone(void **state)
{
    add_samples(1, 0);
    expect_energy(200, 20);
}

/* There is only one sampling interval. Its energy is distributed evenly over its time. It contains
 * half of the first step, and the whole second step. */
static void test_energy_between_samples(void **state)
{
    add_sample(0, 0, 1.5, 0);
    add_sample(1, 0, 5.5, 400);
    expect_energy(150, 15);
}

/* The energy of two devices adds up while both are measured. If one device does not measure its
 * energy, the total energy is unknown. */
static void test_energy_of_devices(void **state)
{
    add_samples(2, 6);
    assert_close(energy_of(&run).joules_per_image, 15);
    run.n_telemetry = 0;
    add_samples(2, 0);
    assert_true(isnan(energy_of(&run).joules_per_image));
}

/* The energy of a job of several ranks is the sum over all epochs whose energy was recorded. Rank
 * 0's own samples are not used, because they do not include the other ranks. */
static void test_energy_of_several_ranks(void **state)
{
    struct epoch_record epoch[] = {
        {.train_images = 100},
        {.epoch = 1, .train_images = 100, .energy_j = 100, .joules_per_image = 1},
        {.epoch = 2, .train_images = 100, .energy_j = 200, .joules_per_image = 2}};
    add_samples(1, 0);
    run.attempts = json_pack("[[{s:s}, {s:s}]]", "host", "a", "host", "b");
    assert_true(isnan(energy_of(&run).joules_per_image));
    run.epoch = epoch;
    run.n_epochs = 3;
    expect_energy(300, 200);
    json_decref(run.attempts);
}

/* Energy is computed only from samples of the same attempt: the counter may have another value when
 * the next attempt begins. */
static void test_energy_over_attempts(void **state)
{
    add_sample(0, 0, 0, 7000);
    add_sample(1, 0, 2.5, 7250);
    add_sample(2, 0, 3.25, 9000)->attempt = 1;
    add_sample(3, 0, 4.5, 9125)->attempt = 1;
    assert_close(energy_of(&run).joules, 175);
}

static void test_summary(void **state)
{
    static const struct {
        const char *key;
        double want;
    } numbers[] = {
        {"samples", 5}, {"temperature_c", 54}, {"clock_mhz", 1002}, {"ecc_corrected", 1}};
    for (int i = 0; i <= 4; i++) {
        struct telemetry_record *r = add_sample(i, 0, i, 100 * i);
        r->temperature_c = 50 + i;
        r->clock_mhz = 1000 + i;
        r->ecc_corrected = 7 + (i > 2);
        r->throttle = i == 4 ? THROTTLE_POWER_CAP | THROTTLE_HEAT : 0;
    }
    json_t *o = json_object();
    expect_ok(summary_add(&run, o));
    const json_t *e = json_object_get(o, "energy");
    assert_close(json_number_value(json_object_get(e, "joules_per_image")), 10);
    const json_t *d = json_array_get(json_object_get(o, "telemetry"), 0);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        assert_close(json_number_value(json_object_get(d, numbers[i].key)), numbers[i].want);
    assert_close(json_number_value(json_object_get(json_object_get(d, "throttled"), "power cap")),
                 0.2);
    assert_null(json_object_get(o, "ranks")); /* one rank has no such summary */
    json_decref(o);
}

static void test_throttle_words(void **state)
{
    char words[THROTTLE_WORDS_MAX];
    throttle_words(0, words);
    assert_string_equal(words, "none");
    throttle_words(THROTTLE_POWER_CAP | THROTTLE_HARDWARE_HEAT | 1u << 20, words);
    assert_string_equal(words, "power cap, hardware heat, other");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_energy_of_steps_alone, set_up),
        cmocka_unit_test_setup(test_energy_between_samples, set_up),
        cmocka_unit_test_setup(test_energy_of_devices, set_up),
        cmocka_unit_test_setup(test_energy_of_several_ranks, set_up),
        cmocka_unit_test_setup(test_energy_over_attempts, set_up),
        cmocka_unit_test_setup(test_summary, set_up),
        cmocka_unit_test(test_throttle_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
