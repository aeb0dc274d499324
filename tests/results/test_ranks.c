/* Tests which rank is reported as the slowest, from the records of ranks and of communication. */
#include "results/ranks.h"
#include "results/summary.h"
#include "run_rig.h"

#include <math.h>
#include <string.h>

static struct rank_record row[16];
static struct run run = {.dir = "a run", .rank = row};
static struct ranks ranks; /* the result of `evaluate` */

static int set_up(void **state)
{
    run.n_ranks = 0;
    run.attempts = json_array();
    return 0;
}

static int tear_down(void **state)
{
    ranks_free(&ranks);
    json_decref(run.attempts);
    return 0;
}

/* Adds an attempt of n ranks, two on each of the hosts <host>0, <host>1, ... */
static void add_attempt(int n, const char *host)
{
    json_t *list = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(list, json_pack("{s:o}", "host", json_sprintf("%s%d", host, i / 2)));
    json_array_append_new(run.attempts, list);
}

static struct rank_record *add_row(int64_t epoch, int64_t rank)
{
    struct rank_record *r = &row[run.n_ranks++];
    *r = run_rig_rank(epoch, rank);
    return r;
}

/* Adds two epochs of four ranks. Rank 3 is slightly slow in its backward passes. In the second
 * epoch, rank 2 also waits for data. The other ranks wait in communication: an epoch takes the same
 * time on all ranks. */
static void add_slow_epochs(void)
{
    for (int epoch = 0; epoch < 2; epoch++) {
        for (int i = 0; i < 4; i++) {
            struct rank_record *r = add_row(epoch, i);
            double late = epoch == 1 && i == 2 ? 0.375 : 0;
            r->data_s += late;
            r->backward_s += i == 3 ? 0.0625 : 0;
            r->comm_s -= late + (i == 3 ? 0.0625 : 0);
        }
    }
}

static void evaluate(void)
{
    ranks_free(&ranks);
    expect_ok(ranks_of(&run, &ranks));
}

/* Only rank 0 recorded epoch 2 before the job was killed. */
static void test_slowest(void **state)
{
    add_attempt(4, "node");
    add_slow_epochs();
    add_row(2, 0)->forward_s = 100;
    evaluate();
    assert_true(ranks.n == 4 && ranks.slowest == 2);
    assert_string_equal(ranks.rank[2].host, "node1");
    assert_close(ranks.rank[0].own_s, 0.375);
    assert_close(ranks.rank[3].own_s, 0.38125);
    assert_close(ranks.rank[2].part[RANK_COMM], 0.03125);
    assert_close(ranks.rank[2].part[RANK_OTHER], 0.025);
}

/* Evaluates one epoch of `n` ranks. The median step time of a rank is 10 ms, but the last rank's
 * median is longer by the fraction `late`. Returns whether the last rank is reported as a
 * straggler. Stragglers are found by medians, not by the sums. */
static bool is_slow(int n, double late, double mad, int64_t steps)
{
    run.n_ranks = 0;
    json_array_clear(run.attempts);
    add_attempt(n, "node");
    for (int i = 0; i < n; i++) {
        struct rank_record *r = add_row(0, i);
        r->steps = steps;
        r->own_median_s = 0.01 * (1 + (i == n - 1 ? late : 0));
        r->own_mad_s = mad * r->own_median_s;
        r->data_s = 1e3 * (n - i);
    }
    evaluate();
    assert_int_equal(ranks.slowest, n - 1);
    assert_close(ranks.behind, late);
    return ranks.slow;
}

/* A rank that is 20 % slower is a straggler if step times vary little. If they vary much, many
 * steps are needed to detect it. */
static void test_slow_or_chance(void **state)
{
    for (int n = 2; n < 5; n++) {
        assert_true(is_slow(n, 0.2, 0.01, 20));
        assert_true(ranks.noise > 0 && ranks.noise < 0.03);
        assert_false(is_slow(n, 0.09, 0.01, 1000));
        assert_false(is_slow(n, 0.2, 0.2, 20));
        assert_true(ranks.noise > 0.2);
        assert_true(is_slow(n, 0.2, 0.2, 2000));
        assert_true(is_slow(n, 0.11, 0, 5) && ranks.noise == 0);
    }
}

/* The last of three ranks is slow in its forward passes. It also waited for data in a few steps,
 * and this waiting is the largest part of its total time. */
static void test_part_by_medians(void **state)
{
    add_attempt(3, "node");
    for (int i = 0; i < 3; i++) {
        struct rank_record *r = add_row(0, i);
        bool late = i == 2;
        r->steps = 16;
        r->data_s = late ? 8 : 0.5;
        r->data_median_s = 0.03125;
        r->forward_median_s = late ? 0.25 : 0.125;
        r->own_median_s = late ? 0.28125 : 0.15625;
    }
    evaluate();
    assert_true(ranks.slowest == 2 && ranks.part == RANK_FORWARD);
    assert_close(ranks.part_s, 0.125);
    assert_close(ranks.rank[2].part[RANK_DATA], 0.5);
}

/* The ranks of the latest attempt that completed an epoch are compared. */
static void test_latest_attempt(void **state)
{
    add_attempt(4, "node");
    add_attempt(3, "late");
    add_slow_epochs();
    run.n_ranks = 4; /* the second attempt began at epoch 1 */
    evaluate();
    assert_true(ranks.n == 4 && ranks.slowest == 3 && ranks.part == RANK_BACKWARD);
    assert_string_equal(ranks.rank[3].host, "node1");
    for (int i = 0; i < 3; i++)
        add_row(1, i)->attempt = 1;
    evaluate();
    assert_true(ranks.n == 3 && ranks.slowest == 0 && ranks.behind == 0 && ranks.part_s == 0);
    assert_string_equal(ranks.rank[2].host, "late1");
}

/* Records with impossible numbers must not result in a straggler. */
static void test_absurd_times(void **state)
{
    add_attempt(2, "node");
    add_row(0, 0);
    add_row(0, 1)->forward_s = NAN;
    evaluate();
    assert_int_equal(ranks.n, 0);
    row[1] = run_rig_rank(0, 1);
    row[1].steps = 0;
    evaluate();
    assert_int_equal(ranks.n, 0);
    row[1] = (struct rank_record){.rank = 1, .steps = 1, .images = 1, .data_s = 1e-309};
    assert_int_equal(ranks_of(&run, &ranks), STATUS_DATA);
    ranks = (struct ranks){0};
}

/* The summary uses the last five of ten steps. The hidden fraction of communication is 0.75, 0, 0
 * and 0.5 in four of them (negative values become 0). In the last step, there was no communication.
 */
static void test_summary(void **state)
{
    static const double exposed[] = {9, 9, 9, 9, 9, 0.25, 3, 3, 0.5, 0};
    static const double busy[] = {9, 9, 9, 9, 9, 1, 2, 2, 1, 0};
    static const struct {
        const char *object, *key;
        double want;
    } numbers[] = {
        {"step_s", "comm", 0.5},          {"step_s", "comm_busy", 1},
        {"step_s", "comm_hidden", 0.25},  {"ranks", "count", 4},
        {"ranks", "slowest", 2},          {"ranks", "own_s", 0.39375},
        {"ranks", "median_own_s", 0.375}, {"ranks", "behind", 0.39375 / 0.375 - 1},
        {"ranks", "part_s", 0.01875},     {"ranks", "images_per_s", 32 / 0.39375},
    };
    struct step_record step[10];
    for (int i = 0; i < 10; i++)
        step[i] = (struct step_record){.step = i, .comm_s = exposed[i], .comm_busy_s = busy[i]};
    add_attempt(4, "node\x1b");
    add_slow_epochs();
    struct run with_steps = run;
    with_steps.step = step;
    with_steps.n_steps = 10;
    json_t *summary = json_object();
    expect_ok(summary_add(&with_steps, summary));
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        const json_t *object = json_object_get(summary, numbers[i].object);
        assert_true(json_is_number(json_object_get(object, numbers[i].key)));
        assert_close(json_number_value(json_object_get(object, numbers[i].key)), numbers[i].want);
    }
    const json_t *o = json_object_get(summary, "ranks");
    assert_string_equal(json_string_value(json_object_get(o, "part")), "data");
    assert_string_equal(json_string_value(json_object_get(o, "host")), "node?1");
    json_decref(summary);
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {TEST(test_slowest),         TEST(test_slow_or_chance),
                                       TEST(test_part_by_medians), TEST(test_latest_attempt),
                                       TEST(test_absurd_times),    TEST(test_summary)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
