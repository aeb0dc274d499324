/* Reads the record of `ampscale bench overlap --json` from standard input, and checks that its
 * members agree with each other, whatever the times are. Usage: overlap_record SIZES [< record],
 * where SIZES is the expected number of bucket sizes, which ascend after a last 0; or
 * overlap_record version, which prints the MPI of this build. */
#include "comm/comm.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 2 };

/* Records have numbers of nine digits. */
static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-7 * (fabs(a) + fabs(b)) + 1e-9;
}

/* The tolerance of 1 - part / all, if both are differences of numbers up to `busy`. */
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
    expect(near(gradients, backward + wait), "gradients are not backward + wait", i);
    expect(sample(size, "step_s", round) > gradients, "a step is shorter than its gradients", i);
    expect(exposed <= busy, "more is exposed than there is", i);
    expect(exposed <= wait, "more is exposed than was waited for", i);
    double late = sample(size, "late_s", round);
    expect(late >= 0 && late <= exposed, "the wait for slower ranks is none", i);
    expect(hidden >= 0 && hidden <= 1, "the hidden share is none", i);
    expect(near_share(sample(size, "hidden_even", round), exposed - late, busy - late, busy),
           "the hidden share of even ranks is another", i);
    expect(near_share(hidden, exposed, busy, busy), "the hidden share is another", i);
    expect(near(sample(size, "cost_s", round), gradients - sample(alone, "backward_s", round)),
           "the cost is another", i);
}

static void check_speed(const json_t *variant, double images, size_t i)
{
    double speed = json_number_value(json_object_get(variant, "images_per_s"));
    expect(near(speed, images / median(variant, "step_s")), "the speed is another", i);
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
    expect(json_array_size(sizes) == want, "another number of sizes", 0);
    check_speed(alone, images, 0);
    json_array_foreach(sizes, i, size)
    {
        json_int_t buckets = json_integer_value(json_object_get(size, "buckets"));
        expect(buckets < before, "a larger size does not make fewer buckets", i);
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
    expect(before == 1, "a size of 0 is not one bucket", i);
    expect(marked == 1 && near(lowest, least), "the lowest is not the one that is marked", 0);
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
