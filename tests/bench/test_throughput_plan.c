/* Tests the order and the time limits of turns of bench throughput: pure functions. */
#include "bench/throughput.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static int count_turns(const struct throughput_plan *p, int key, enum throughput_who who)
{
    int n = 0;
    for (int i = 0; i < p->n_turns; i++) {
        const struct throughput_slot *s = &p->slot[p->turn[i].slot];
        n += s->key == key && s->who == who;
    }
    return n;
}

static void assert_turn(const struct throughput_plan *p, int i, int key, enum throughput_who who,
                        int round)
{
    const struct throughput_slot *s = &p->slot[p->turn[i].slot];
    if (s->key != key || s->who != who || p->turn[i].round != round)
        fail_msg("turn %d is of key %d, who %d, round %d", i, s->key, s->who, p->turn[i].round);
}

static void test_plan(void **state)
{
    (void)state;
    const struct throughput_shape shape = {
        .keys = 3, .combinations = 1, .rounds = 4, .peer = true, .compile = true, .files = true};
    struct throughput_plan p;
    assert_int_equal(throughput_plan_make(&shape, &p), STATUS_OK);
    assert_int_equal(p.n_slots, 4 + 2 + 2);
    assert_int_equal(p.n_turns, 4 * 3 * 2 + 1 + 4);
    for (int key = 0; key < 3; key++) {
        assert_int_equal(count_turns(&p, key, THROUGHPUT_OURS), 4);
        assert_int_equal(count_turns(&p, key, THROUGHPUT_EAGER), 4);
        assert_int_equal(count_turns(&p, key, THROUGHPUT_FILES), key == 0 ? 4 : 0);
        assert_int_equal(count_turns(&p, key, THROUGHPUT_COMPILE), key == 0 ? 1 : 0);
    }
    /* The first round: each key has ours and then eager. Only then the peer compiles. */
    for (int key = 0; key < 3; key++) {
        assert_turn(&p, 2 * key, key, THROUGHPUT_OURS, 0);
        assert_turn(&p, 2 * key + 1, key, THROUGHPUT_EAGER, 0);
    }
    assert_turn(&p, 6, 0, THROUGHPUT_COMPILE, 0);
    /* The peer takes the first turn of a key in every second round. */
    for (int round = 1; round < 4; round++)
        for (int key = 0; key < 3; key++)
            for (int i = 0; i < 2; i++)
                assert_turn(&p, 7 + 6 * (round - 1) + 2 * key + i, key,
                            (round + i) % 2 == 1 ? THROUGHPUT_EAGER : THROUGHPUT_OURS, round);
    for (int round = 0; round < 4; round++)
        assert_turn(&p, 25 + round, 0, THROUGHPUT_FILES, round);
    throughput_plan_free(&p);
}

/* The peer is measured in eager mode only. */
static void test_plan_eager(void **state)
{
    (void)state;
    const struct throughput_shape shape = {.keys = 2, .combinations = 1, .rounds = 1, .peer = true};
    struct throughput_plan p;
    assert_int_equal(throughput_plan_make(&shape, &p), STATUS_OK);
    assert_int_equal(p.n_turns, 4);
    for (int i = 0; i < 4; i++)
        assert_turn(&p, i, i / 2, i % 2 ? THROUGHPUT_EAGER : THROUGHPUT_OURS, 0);
    throughput_plan_free(&p);
}

static void test_plan_combinations(void **state)
{
    (void)state;
    const struct throughput_shape shape = {.keys = 1, .combinations = 3, .rounds = 2};
    static const int order[] = {0, 1, 2, 2, 1, 0};
    struct throughput_plan p;
    assert_int_equal(throughput_plan_make(&shape, &p), STATUS_OK);
    assert_int_equal(p.n_turns, 6);
    for (int i = 0; i < 6; i++)
        assert_int_equal(p.slot[p.turn[i].slot].combination, order[i]);
    throughput_plan_free(&p);
}

/* Turns for which others leave time. The turns are: amp ours, eager, fp32 ours, eager, compile;
 * then the same without the compilation, eager first. */
static void test_after(void **state)
{
    (void)state;
    const struct throughput_shape shape = {
        .keys = 2, .combinations = 1, .rounds = 2, .peer = true, .compile = true};
    static const int first[] = {6, 5, 4, 3, 0, 3, 2, 1, 0}; /* 3 is the compilation */
    struct throughput_row row[5] = {{{0}}};
    struct throughput t = {.row = row};
    assert_int_equal(throughput_plan_make(&shape, &t.plan), STATUS_OK);
    assert_int_equal(t.plan.n_slots, 5);
    for (int i = 0; i < 5; i++)
        row[i].slot = t.plan.slot[i];
    for (int i = 0; i < 9; i++)
        assert_int_equal(throughput_after(&t, i), first[i]);
    /* Amp has results: its turns need no time, and leave time for those of fp32. */
    row[t.plan.turn[0].slot].n = row[t.plan.turn[1].slot].n = 1;
    assert_int_equal(throughput_after(&t, 2), 4);
    assert_int_equal(throughput_after(&t, 5), 2);
    row[t.plan.turn[4].slot].n = 1;
    assert_int_equal(throughput_after(&t, 2), 1);
    throughput_plan_free(&t.plan);
}

static void test_budget(void **state)
{
    (void)state;
    struct time_budget none = time_budget_begin(0), some = time_budget_begin(100000),
                       over = time_budget_begin(1e-6);
    assert_true(isinf(time_budget_left(&none)));
    assert_int_equal(time_budget_limit(&none, false, 600), 600);
    assert_int_equal(time_budget_limit(&none, true, 600), 600);
    assert_int_equal(time_budget_limit(&some, false, 600), 600);
    assert_true(time_budget_limit(&some, false, 1000000) > 90000);
    assert_int_equal(time_budget_limit(&over, false, 600), 0);
}

/* Limits with values by hand: 20 s for each later turn, and for a repetition. */
static void test_limits(void **state)
{
    (void)state;
    static const struct {
        double left;
        int after;
        bool again, measured;
        int limit;
    } cases[] = {
        {130, 0, false, true, 130}, /* the last turn has all the time that is left */
        {130, 0, true, true, 110},  {130, 2, false, true, 90}, /* 130 - 2 x 20 */
        {130, 2, true, true, 70},                              /* 130 - 3 x 20 */
        {130, 3, true, false, 91},  /* 0.7 x 130, because nothing is measured yet */
        {130, 24, false, true, 52}, /* 0.4 x 130 */
        {130, 24, true, false, 91}, {20, 0, true, true, 8},    {2, 24, false, true, 1},
        {0.9, 0, false, true, 0},   {-3, 0, false, true, 0},   {10000, 1, false, true, 600},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct time_budget b = {.after = cases[i].after, .measured = cases[i].measured};
        int64_t limit = time_budget_share(&b, cases[i].left, cases[i].again, 600);
        if (limit != cases[i].limit)
            fail_msg("case %zu: %lld s, not %d", i, (long long)limit, cases[i].limit);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plan),       cmocka_unit_test(test_plan_combinations),
        cmocka_unit_test(test_plan_eager), cmocka_unit_test(test_after),
        cmocka_unit_test(test_budget),     cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
