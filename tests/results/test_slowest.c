/* Tests which rank is reported as the slowest, from the records of ranks and of communication. */
#include "rank_run.h"
#include "results/ranks.h"
#include "results/summary.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void assert_close(double got, double want)
{
    if (!(fabs(got - want) <= 1e-12 * fmax(1, fabs(want))))
        fail_msg("%.17g instead of %.17g", got, want);
}

/* Records two epochs of four ranks. Rank 3 is slightly slow in its backward passes. In the second
 * epoch, rank 2 also waits for data. The other ranks wait in communication: an epoch takes the same
 * time on all ranks. */
static void add_slow_epochs(struct record *r)
{
    for (int epoch = 0; epoch < 2; epoch++) {
        for (int i = 0; i < 4; i++) {
            struct rank_record rank = rank_run_row(epoch, i);
            double late = epoch == 1 && i == 2 ? 0.375 : 0;
            rank.data_s += late;
            rank.backward_s += i == 3 ? 0.0625 : 0;
            rank.comm_s -= late + (i == 3 ? 0.0625 : 0);
            assert_int_equal(record_rank(r, &rank), STATUS_OK);
        }
        struct epoch_record e = {.epoch = epoch};
        assert_int_equal(record_epoch(r, &e), STATUS_OK);
    }
}

static void test_slowest(void **state)
{
    struct rank_run *f = *state;
    struct ranks ranks;
    struct record *r = rank_run_open(f, 4, "node", 0);
    add_slow_epochs(r);
    /* Only rank 0 recorded epoch 2 before the job was killed. */
    struct rank_record lone = rank_run_row(2, 0);
    lone.forward_s = 100;
    assert_int_equal(record_rank(r, &lone), STATUS_OK);
    assert_int_equal(record_close(r), STATUS_OK);

    struct run *run = rank_run_load(f);
    assert_int_equal(ranks_of(run, &ranks), STATUS_OK);
    assert_int_equal(ranks.n, 4);
    assert_int_equal(ranks.slowest, 2);
    assert_string_equal(ranks.rank[2].host, "node1");
    assert_close(ranks.rank[0].own_s, 0.375);
    assert_close(ranks.rank[2].own_s, 0.39375);
    assert_close(ranks.rank[3].own_s, 0.38125);
    assert_close(ranks.median_own_s, 0.375);
    assert_close(ranks.behind, 0.39375 / 0.375 - 1);
    assert_int_equal(ranks.part, RANK_DATA);
    assert_string_equal(rank_part_str(ranks.part), "data");
    assert_close(ranks.part_s, 0.01875);
    assert_close(ranks.rank[2].images_per_s, 32 / 0.39375);
    assert_close(ranks.rank[2].part[RANK_COMM], 0.03125);
    assert_close(ranks.rank[2].part[RANK_OTHER], 0.025);
    ranks_free(&ranks);
    run_free(run);
}

/* Records one epoch of `n` ranks. The median step time of a rank is 10 ms, but the last rank's
 * median is longer by the fraction `late`. Returns whether the last rank is reported as a
 * straggler. */
static bool is_slow(struct rank_run *f, int n, double late, double mad, int64_t steps,
                    double *noise)
{
    struct ranks ranks;
    struct record *r = rank_run_open(f, n, "node", 0);
    for (int i = 0; i < n; i++) {
        struct rank_record rank = rank_run_row(0, i);
        rank.steps = steps;
        rank.own_median_s = 0.01 * (1 + (i == n - 1 ? late : 0));
        rank.own_mad_s = mad * rank.own_median_s;
        rank.data_s = 1e3 * (n - i); /* changes only sums; stragglers are found by medians */
        assert_int_equal(record_rank(r, &rank), STATUS_OK);
    }
    assert_int_equal(record_epoch(r, &(struct epoch_record){0}), STATUS_OK);
    assert_int_equal(record_close(r), STATUS_OK);
    struct run *run = rank_run_load(f);
    assert_int_equal(ranks_of(run, &ranks), STATUS_OK);
    assert_int_equal(ranks.slowest, n - 1);
    assert_close(ranks.behind, late);
    bool slow = ranks.slow;
    *noise = ranks.noise;
    ranks_free(&ranks);
    run_free(run);
    scratch_remove(f->dir);
    scratch_make(f->dir);
    return slow;
}

/* A rank that is 20 % slower is a straggler if step times vary little. If they vary much, many
 * steps are needed to detect it. */
static void test_slow_or_chance(void **state)
{
    struct rank_run *f = *state;
    double noise;
    for (int n = 2; n < 5; n++) {
        assert_true(is_slow(f, n, 0.2, 0.01, 20, &noise));
        assert_true(noise > 0 && noise < 0.03);
        assert_false(is_slow(f, n, 0.09, 0.01, 1000, &noise));
        assert_false(is_slow(f, n, 0.2, 0.2, 20, &noise));
        assert_true(noise > 0.2);
        assert_true(is_slow(f, n, 0.2, 0.2, 2000, &noise));
        assert_true(is_slow(f, n, 0.11, 0, 5, &noise) && noise == 0);
    }
}

/* The last of three ranks is slow in its forward passes. It also waited for data in a few steps,
 * and this waiting is the largest part of its total time. */
static void test_part_by_medians(void **state)
{
    struct rank_run *f = *state;
    struct ranks ranks;
    struct record *r = rank_run_open(f, 3, "node", 0);
    for (int i = 0; i < 3; i++) {
        struct rank_record rank = rank_run_row(0, i);
        bool late = i == 2;
        rank.steps = 16;
        rank.data_s = late ? 8 : 0.5;
        rank.data_median_s = 0.03125;
        rank.forward_median_s = late ? 0.25 : 0.125;
        rank.own_median_s = late ? 0.28125 : 0.15625;
        assert_int_equal(record_rank(r, &rank), STATUS_OK);
    }
    assert_int_equal(record_epoch(r, &(struct epoch_record){0}), STATUS_OK);
    assert_int_equal(record_close(r), STATUS_OK);
    struct run *run = rank_run_load(f);
    assert_int_equal(ranks_of(run, &ranks), STATUS_OK);
    assert_int_equal(ranks.slowest, 2);
    assert_string_equal(rank_part_str(ranks.part), "forward");
    assert_close(ranks.part_s, 0.125);
    assert_close(ranks.rank[2].part[RANK_DATA], 0.5);
    ranks_free(&ranks);
    run_free(run);
}

/* If several attempts recorded an epoch, the record and the hosts of the latest attempt are used.
 */
static void test_slowest_of_the_latest_attempt(void **state)
{
    struct rank_run *f = *state;
    struct ranks ranks;
    struct record *r = rank_run_open(f, 4, "node", 0);
    add_slow_epochs(r);
    assert_int_equal(record_close(r), STATUS_OK);
    r = rank_run_open(f, 3, "late", 1);
    struct run *run = rank_run_load(f);
    assert_int_equal(ranks_of(run, &ranks), STATUS_OK);
    assert_int_equal(ranks.n, 4);
    assert_int_equal(ranks.slowest, 3);
    assert_string_equal(ranks.rank[3].host, "node1");
    assert_int_equal(ranks.part, RANK_BACKWARD);
    ranks_free(&ranks);
    run_free(run);

    rank_run_add_epoch(r, 1, 3);
    assert_int_equal(record_close(r), STATUS_OK);
    run = rank_run_load(f);
    assert_int_equal(ranks_of(run, &ranks), STATUS_OK);
    assert_int_equal(ranks.n, 3);
    assert_int_equal(ranks.slowest, 0);
    assert_true(ranks.behind == 0 && ranks.part_s == 0);
    assert_string_equal(ranks.rank[2].host, "late1");
    ranks_free(&ranks);
    run_free(run);
}

/* Records with impossible numbers must not result in a straggler. */
static void test_absurd_times(void **state)
{
    struct rank_run *f = *state;
    struct ranks ranks;
    struct record *r = rank_run_open(f, 2, "node", 0);
    rank_run_add_epoch(r, 0, 2);
    assert_int_equal(record_close(r), STATUS_OK);
    struct run *run = rank_run_load(f);
    run->rank[1].forward_s = NAN;
    assert_int_equal(ranks_of(run, &ranks), STATUS_OK);
    assert_int_equal(ranks.n, 0);
    run->rank[1] = rank_run_row(0, 1);
    run->rank[1].steps = 0;
    assert_int_equal(ranks_of(run, &ranks), STATUS_OK);
    assert_int_equal(ranks.n, 0);
    run->rank[1] = (struct rank_record){.rank = 1, .steps = 1, .images = 1, .data_s = 1e-309};
    assert_int_equal(ranks_of(run, &ranks), STATUS_DATA);
    assert_non_null(strstr(status_message(), "/ranks.jsonl' has times out of range"));
    run_free(run);
}

static double number_in(const json_t *object, const char *part, const char *key)
{
    const json_t *value = json_object_get(json_object_get(object, part), key);
    if (!json_is_number(value))
        fail_msg("no number %s.%s", part, key);
    return json_number_value(value);
}

static void test_summary(void **state)
{
    struct rank_run *f = *state;
    struct record *r = rank_run_open(f, 4, "node\x1b", 0);
    /* The summary uses the last five of ten steps. The hidden fraction of communication is 0.75, 0,
     * 0 and 0.5 in four of them (negative values become 0). In the last step, there was no
     * communication. */
    static const double exposed[] = {9, 9, 9, 9, 9, 0.25, 3, 3, 0.5, 0};
    static const double busy[] = {9, 9, 9, 9, 9, 1, 2, 2, 1, 0};
    for (int i = 0; i < 10; i++) {
        struct step_record s = {.step = i, .comm_s = exposed[i], .comm_busy_s = busy[i]};
        assert_int_equal(record_step(r, &s), STATUS_OK);
    }
    add_slow_epochs(r);
    assert_int_equal(record_close(r), STATUS_OK);
    struct run *run = rank_run_load(f);
    json_t *summary = json_object();
    assert_int_equal(summary_add(run, summary), STATUS_OK);
    assert_close(number_in(summary, "step_s", "comm"), 0.5);
    assert_close(number_in(summary, "step_s", "comm_busy"), 1);
    assert_close(number_in(summary, "step_s", "comm_hidden"), 0.25);
    assert_close(number_in(summary, "ranks", "count"), 4);
    assert_close(number_in(summary, "ranks", "slowest"), 2);
    assert_close(number_in(summary, "ranks", "own_s"), 0.39375);
    assert_close(number_in(summary, "ranks", "median_own_s"), 0.375);
    assert_close(number_in(summary, "ranks", "behind"), 0.39375 / 0.375 - 1);
    assert_close(number_in(summary, "ranks", "part_s"), 0.01875);
    assert_close(number_in(summary, "ranks", "images_per_s"), 32 / 0.39375);
    const json_t *ranks = json_object_get(summary, "ranks");
    assert_string_equal(json_string_value(json_object_get(ranks, "part")), "data");
    assert_string_equal(json_string_value(json_object_get(ranks, "host")), "node?1");
    json_decref(summary);
    run_free(run);
}

static void test_summary_of_one_rank(void **state)
{
    struct rank_run *f = *state;
    struct record *r = rank_run_open(f, 1, NULL, 0);
    struct step_record s = {.step = 0, .total_s = 1};
    assert_int_equal(record_step(r, &s), STATUS_OK);
    assert_int_equal(record_close(r), STATUS_OK);
    struct run *run = rank_run_load(f);
    json_t *summary = json_object();
    assert_int_equal(summary_add(run, summary), STATUS_OK);
    assert_close(number_in(summary, "step_s", "comm_busy"), 0);
    assert_null(json_object_get(json_object_get(summary, "step_s"), "comm_hidden"));
    assert_null(json_object_get(summary, "ranks"));
    json_decref(summary);
    run_free(run);
}

#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, rank_run_begin, rank_run_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_slowest),
        WITH_FOLDER(test_slow_or_chance),
        WITH_FOLDER(test_part_by_medians),
        WITH_FOLDER(test_slowest_of_the_latest_attempt),
        WITH_FOLDER(test_absurd_times),
        WITH_FOLDER(test_summary),
        WITH_FOLDER(test_summary_of_one_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
