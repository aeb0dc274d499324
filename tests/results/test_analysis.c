/* Tests analysis.json: it is written, read back, and refused if it is invalid. */
#include "base/rng.h"
#include "results/analysis.h"
#include "scratch.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct analysis_measure measure(double median)
{
    return (struct analysis_measure){.median = median,
                                     .low = median / 2,
                                     .high = 2 * median,
                                     .n = 3,
                                     .values = {median, median / 2, 2 * median}};
}

/* Fills an analysis with three cells: one has one device, one has two devices, and one has no runs.
 */
static void sample(struct analysis *a)
{
    *a = (struct analysis){.study = "sample", .about = "for a test", .command = "ampscale"};
    a->machine = json_pack("{s:s}", "device", "cpu");
    a->thresholds = json_pack("{s:f}", "loader_bound", 0.25);
    a->cell = calloc(3, sizeof *a->cell);
    a->series = calloc(1, sizeof *a->series);
    assert_true(a->machine && a->thresholds && a->cell && a->series);
    a->n_cells = 3;
    for (int i = 0; i < 3; i++) {
        struct analysis_cell *c = &a->cell[i];
        *c = analysis_cell_unknown();
        snprintf(c->name, sizeof c->name, "cell-%d", i);
        snprintf(c->mode, sizeof c->mode, i ? "ddp" : "nd");
        c->scaling = i == 2 ? ANALYSIS_STRONG : ANALYSIS_WEAK;
        c->devices = c->ranks = i + 1;
        c->batch = 32 * (i + 1);
    }
    snprintf(a->cell[2].missing, sizeof a->cell[2].missing, "out of memory");
    for (int i = 0; i < 2; i++) {
        struct analysis_cell *c = &a->cell[i];
        c->images_per_s = c->wall = c->seconds = measure(100 * (i + 1));
        c->split[ANALYSIS_COMM] = 0.125;
        c->slowest_rank = i - 1;
        c->system = (struct analysis_system){1, i + 1, 64, 10, 2};
        c->real = i == 1;
        snprintf(c->verdict, sizeof c->verdict, "compute-bound");
        snprintf(c->evidence[c->n_evidence++], ANALYSIS_TEXT_SIZE, "so it is");
    }
    a->n_series = 1;
    a->series[0].n = 2;
    a->series[0].cell = calloc(2, sizeof(int64_t));
    assert_non_null(a->series[0].cell);
    a->series[0].cell[1] = 1;
}

static char *written(const char *dir, const struct analysis *a, size_t *size)
{
    char path[SCRATCH_MAX + 32];
    snprintf(path, sizeof path, "%s/" ANALYSIS_FILE, dir);
    assert_int_equal(analysis_write(a, path), STATUS_OK);
    return scratch_read(dir, ANALYSIS_FILE, size);
}

static void test_round_trip(void **state)
{
    struct analysis a, b;
    size_t first_size, second_size;
    sample(&a);
    char *first = written(*state, &a, &first_size);
    assert_int_equal(analysis_read(*state, &b), STATUS_OK);
    assert_int_equal(b.n_cells, 3);
    assert_string_equal(b.cell[2].missing, "out of memory");
    assert_true(isnan(b.cell[2].images_per_s.median) && isnan(b.cell[0].top1));
    assert_int_equal(b.cell[2].scaling, ANALYSIS_STRONG);
    assert_true(b.cell[1].images_per_s.values[2] == 400 && b.cell[1].wall.high == 400);
    assert_true(b.cell[1].split[ANALYSIS_COMM] == 0.125 && b.cell[1].real);
    const struct analysis_system *system = &b.cell[1].system;
    assert_true(system->hosts == 1 && system->ranks_per_host == 2 && system->image_size == 64);
    assert_true(system->classes == 10 && system->gradient_bytes == 2);
    assert_int_equal(b.cell[2].system.hosts, 0);
    assert_int_equal(b.cell[0].slowest_rank, -1);
    assert_int_equal(b.cell[1].slowest_rank, 0);
    assert_string_equal(b.cell[1].evidence[0], "so it is");
    assert_int_equal(b.series[0].n, 2);
    assert_int_equal(b.series[0].cell[1], 1);
    char *second = written(*state, &b, &second_size);
    assert_string_equal(first, second);
    analysis_free(&a);
    analysis_free(&b);
    free(first);
    free(second);
}

/* Replaces the first `from` in a valid file by `to`. Checks that reading the file fails with a
 * message that contains `says`. */
static void refused(const char *dir, const char *good, const char *from, const char *to,
                    const char *says)
{
    struct analysis a;
    const char *at = strstr(good, from);
    assert_non_null(at);
    char *bad = NULL;
    int n = asprintf(&bad, "%.*s%s%s", (int)(at - good), good, to, at + strlen(from));
    assert_true(n > 0);
    scratch_write(dir, ANALYSIS_FILE, bad, (size_t)n);
    assert_int_equal(analysis_read(dir, &a), STATUS_DATA);
    if (!strstr(status_message(), says))
        fail_msg("'%s' does not say '%s'", status_message(), says);
    free(bad);
}

static void test_refused(void **state)
{
    struct analysis a;
    size_t size;
    sample(&a);
    char *good = written(*state, &a, &size);
    refused(*state, good, "\"schema\": 1", "\"schema\": 2", "not an analysis of schema 1");
    refused(*state, good, "\"machine\"", "\"engine\"", "'machine'");
    refused(*state, good, "\"median\": 100.0", "\"median\": -1", "'median'");
    refused(*state, good, "\"median\": 100.0", "\"median\": null", "contradict each other");
    refused(*state, good, "\"n\": 3", "\"n\": 65", "contradict each other");
    refused(*state, good, "\"devices\": 1", "\"devices\": 0", "'devices', 'ranks' or 'batch' is 0");
    refused(*state, good, "\"devices\": 1", "\"devices\": 2", "not in ascending order");
    refused(*state, good, "\"hosts\": 1", "\"hosts\": 2", "more hosts than ranks");
    refused(*state, good, "\"ranks_per_host\": 1", "\"ranks_per_host\": 4611686018427387904",
            "'ranks_per_host'");
    refused(*state, good, "\"name\": \"cell-1\"", "\"name\": \"cell-9\"", "unknown cell");
    refused(*state, good, "\"weak\"", "\"wee\"", "must be weak or strong");
    refused(*state, good, "\"out of memory\"", "null", "a cell must have either");
    refused(*state, good, "\"missing\": null", "\"missing\": \"x\"", "a cell must have either");
    refused(*state, good, "{", "", "not valid JSON");
    analysis_free(&a);
    free(good);
}

/* Changes random bytes. The file must be read or refused, without an invalid memory access. */
static void test_mutated(void **state)
{
    struct analysis a, b;
    size_t size;
    sample(&a);
    char *good = written(*state, &a, &size);
    int read = 0;
    for (uint64_t i = 0; i < 500; i++) {
        struct rng rng = rng_at(0, RNG_TEST, i, 0);
        char *bad = malloc(size);
        assert_non_null(bad);
        memcpy(bad, good, size);
        for (int k = 0; k < 2; k++)
            bad[rng_below(&rng, (uint32_t)size)] = "0-9.e{}[]\",:x"[rng_below(&rng, 13)];
        scratch_write(*state, ANALYSIS_FILE, bad, size);
        enum status st = analysis_read(*state, &b);
        assert_true(st == STATUS_OK || st == STATUS_DATA);
        if (st == STATUS_OK) {
            read++;
            analysis_free(&b);
        }
        free(bad);
    }
    assert_in_range(read, 1, 499);
    analysis_free(&a);
    free(good);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_round_trip, scratch_set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(test_refused, scratch_set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(test_mutated, scratch_set_up, scratch_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
