/* Reads the record of `ampscale bench overlap --json` from standard input. Checks that its members
 * agree with each other, whatever the times are.
 *
 *     overlap_record SIZES [< record]    SIZES: the expected number of bucket sizes. They must
 *                                        ascend and end with 0.
 *     overlap_record version             prints the MPI of this build */
#include "comm/comm.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 2 };

/* The tolerance allows for numbers that the record rounds to nine significant digits. */
static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-7 * (fabs(a) + fabs(b)) + 1e-9;
}

/* Compares `share` with 1 - part / all. `part` and `all` are differences of numbers up to `busy`.
 * The rounding errors of these numbers set the tolerance. */
static bool near_share(double share, double part, double all, double busy)
{
    return fabs(share - (1 - part / all)) <= 1e-8 * (1 + busy / all);
}

static int failures;

static void expect(bool good, const char *what, size_t size)
{
    if (good)
        return;
    printf("FAILED: size %zu: %s\n", size, what);
    failures++;
}

static double sample(const json_t *variant, const char *part, size_t round)
{
    const json_t *samples = json_object_get(json_object_get(variant, part), "samples");
    const json_t *value = json_array_get(samples, round);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static double median(const json_t *variant, const char *part)
{
    const json_t *value = json_object_get(json_object_get(variant, part), "median");
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static void check_round(const json_t *size, size_t i, size_t round, const json_t *alone)
{
    double backward = sample(size, "backward_s", round), wait = sample(size, "wait_s", round);
    double gradients = sample(size, "gradients_s", round);
    double busy = sample(size, "busy_s", round), exposed = sample(size, "exposed_s", round);
    double hidden = sample(size, "hidden", round);
    expect(backward > 0 && wait > 0 && busy > 0 && exposed >= 0, "a time is missing", i);
    expect(near(gradients, backward + wait), "gradients_s is not backward_s + wait_s", i);
    expect(sample(size, "step_s", round) > gradients, "step_s is not above gradients_s", i);
    expect(exposed <= busy, "exposed_s is above busy_s", i);
    expect(exposed <= wait, "exposed_s is above wait_s", i);
    double late = sample(size, "late_s", round);
    expect(late >= 0 && late <= exposed, "late_s is not between 0 and exposed_s", i);
    expect(hidden >= 0 && hidden <= 1, "hidden is not between 0 and 1", i);
    expect(near_share(sample(size, "hidden_even", round), exposed - late, busy - late, busy),
           "hidden_even does not match the times", i);
    expect(near_share(hidden, exposed, busy, busy), "hidden does not match the times", i);
    expect(near(sample(size, "cost_s", round), gradients - sample(alone, "backward_s", round)),
           "cost_s does not match the times", i);
}

static void check_speed(const json_t *variant, double images, size_t i)
{
    double speed = json_number_value(json_object_get(variant, "images_per_s"));
    expect(near(speed, images / median(variant, "step_s")), "images_per_s does not match step_s",
           i);
}

static void check_sizes(const json_t *record, size_t want)
{
    const json_t *config = json_object_get(record, "config");
    const json_t *sizes = json_object_get(record, "sizes"), *size;
    const json_t *alone = json_object_get(record, "alone");
    size_t rounds = (size_t)json_integer_value(json_object_get(config, "rounds")), i, marked = 0;
    double images = RANKS * json_number_value(json_object_get(config, "batch_size"));
    double least = INFINITY, lowest = NAN;
    json_int_t before = INT64_MAX;
    expect(json_array_size(sizes) == want, "the number of bucket sizes is wrong", 0);
    check_speed(alone, images, 0);
    json_array_foreach(sizes, i, size)
    {
        json_int_t buckets = json_integer_value(json_object_get(size, "buckets"));
        expect(buckets < before, "a larger bucket size does not give fewer buckets", i);
        before = buckets;
        for (size_t round = 0; round < rounds; round++)
            check_round(size, i, round, alone);
        check_speed(size, images, i);
        least = fmin(least, median(size, "gradients_s"));
        if (json_is_true(json_object_get(size, "lowest"))) {
            lowest = median(size, "gradients_s");
            marked++;
        }
    }
    expect(rounds > 0, "no rounds", 0);
    expect(before == 1, "a bucket size of 0 does not give one bucket", i);
    expect(marked == 1 && near(lowest, least),
           "the marked size is not the one with the lowest gradients_s", 0);
}

static void check_circumstances(const json_t *record)
{
    static const char *const texts[] = {"bench", "measured", "version", "build", "device"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        expect(json_is_string(json_object_get(record, texts[i])), texts[i], 0);
    expect(json_array_size(json_object_get(record, "ranks")) == RANKS, "ranks", 0);
    expect(json_is_object(json_object_get(record, "host")), "host", 0);
    expect(json_object_get(json_object_get(record, "libraries"), "MPI") != NULL, "MPI", 0);
    expect(json_integer_value(json_object_get(record, "gradient_bytes")) > 0, "gradient_bytes", 0);
}

int main(int argc, char **argv)
{
    json_error_t e;
    if (argc == 2 && strcmp(argv[1], "version") == 0) {
        puts(comm_mpi_version());
        return 0;
    }
    json_t *record = json_loadf(stdin, JSON_REJECT_DUPLICATES, &e);
    if (argc != 2 || !record) {
        printf("FAILED: no record: %s\n", e.text);
        return 1;
    }
    check_circumstances(record);
    check_sizes(record, (size_t)atoi(argv[1]));
    json_decref(record);
    return failures > 0;
}
