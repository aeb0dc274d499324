/* Tests the plan of pair tests between suspect and good ranks, and the findings from their results.
 */
#include "accept/pair.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { RANKS_MAX = 20, MEETINGS_MAX = 400 };

/* Checks that each rank is in at most one pair test per round, and that each suspect has the
 * requested number of different good partners. */
static void check_plan(const bool *suspect, int ranks, int partners, const struct pair_plan *p)
{
    int good = 0, met[RANKS_MAX] = {0};
    for (int r = 0; r < ranks; r++)
        good += !suspect[r];
    for (int i = 0; i < p->n; i++) {
        const struct pair_meeting *m = &p->meeting[i];
        assert_true(m->round >= 0 && m->round < p->rounds && m->a != m->b);
        assert_true(suspect[m->a] == !m->reference && !suspect[m->b]);
        met[m->a] += !m->reference;
        for (int k = 0; k < i; k++) {
            const struct pair_meeting *o = &p->meeting[k];
            assert_true(o->round <= m->round);
            assert_false(o->round == m->round &&
                         (o->a == m->a || o->a == m->b || o->b == m->a || o->b == m->b));
            assert_false(o->a == m->a && o->b == m->b);
        }
        assert_int_equal(pair_plan_meeting(p, m->round, m->a), i);
        assert_int_equal(pair_plan_meeting(p, m->round, m->b), i);
    }
    for (int r = 0; r < ranks; r++)
        assert_int_equal(met[r], suspect[r] ? (partners < good ? partners : good) : 0);
}

static void test_plans(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= RANKS_MAX; ranks++) {
        for (int bad = 1; bad < ranks; bad++) {
            for (int partners = 1; partners <= 4; partners++) {
                bool suspect[RANKS_MAX] = {false};
                struct pair_plan p;
                for (int i = 0; i < bad; i++)
                    suspect[(7 * i + ranks) % ranks] = true;
                assert_int_equal(pair_plan_make(suspect, ranks, partners, 3, &p), STATUS_OK);
                check_plan(suspect, ranks, partners, &p);
                pair_plan_free(&p);
            }
        }
    }
}

static void test_seeds(void **state)
{
    (void)state;
    const bool suspect[RANKS_MAX] = {[3] = true, [11] = true};
    struct pair_plan p, same, other;
    assert_int_equal(pair_plan_make(suspect, RANKS_MAX, 2, 1, &p), STATUS_OK);
    assert_int_equal(pair_plan_make(suspect, RANKS_MAX, 2, 1, &same), STATUS_OK);
    assert_int_equal(pair_plan_make(suspect, RANKS_MAX, 2, 2, &other), STATUS_OK);
    size_t bytes = (size_t)p.n * sizeof *p.meeting;
    assert_int_equal(p.n, same.n);
    assert_int_equal(p.n, other.n);
    assert_memory_equal(p.meeting, same.meeting, bytes);
    assert_true(memcmp(p.meeting, other.meeting, bytes) != 0);
    pair_plan_free(&p);
    pair_plan_free(&same);
    pair_plan_free(&other);
}

static void test_no_plan(void **state)
{
    (void)state;
    const bool none[3] = {false}, all[3] = {true, true, true};
    struct pair_plan p;
    assert_int_equal(pair_plan_make(none, 3, 2, 1, &p), STATUS_DATA);
    assert_int_equal(pair_plan_make(all, 3, 2, 1, &p), STATUS_DATA);
}

/* Six nodes. The first, "a", has failed before, and is tested with three partners. */
struct second_look {
    bool suspect[6];
    double step[6];
    struct pair_link link[MEETINGS_MAX];
    struct pair_plan plan;
    struct pair_finding *finding;
    int n;
};

static const char *const names[] = {"a", "b", "c", "d", "e", "f"};

static void begin(struct second_look *s)
{
    *s = (struct second_look){.suspect = {true}};
    assert_int_equal(pair_plan_make(s->suspect, 6, 3, 1, &s->plan), STATUS_OK);
    for (int r = 0; r < 6; r++)
        s->step[r] = 0.1;
    for (int i = 0; i < s->plan.n; i++)
        s->link[i] = (struct pair_link){.busbw = 10, .latency = 4e-6};
}

/* Returns the k-th pair test of the suspect. */
static struct pair_link *meeting_of_a(struct second_look *s, int k)
{
    for (int i = 0; i < s->plan.n; i++)
        if (!s->plan.meeting[i].reference && k-- == 0)
            return &s->link[i];
    fail_msg("the plan has too few pair tests of the suspect");
    return NULL;
}

static void end(struct second_look *s, enum pair_verdict verdict, const char *says, int code)
{
    const struct pair_judging j = {.plan = &s->plan,
                                   .suspect = s->suspect,
                                   .step = s->step,
                                   .link = s->link,
                                   .name = names,
                                   .within = 0.2,
                                   .latency_within = 1};
    assert_int_equal(pair_judge(&j, &s->finding, &s->n), STATUS_OK);
    assert_true(s->n >= 1);
    if (s->finding[0].verdict != verdict || !strstr(s->finding[0].reason, says))
        fail_msg("'%s': %s", pair_verdict_str(s->finding[0].verdict), s->finding[0].reason);
    assert_int_equal(pair_exit_code(s->finding, s->n), code);
    free(s->finding);
    pair_plan_free(&s->plan);
}

static void test_verdicts(void **state)
{
    (void)state;
    struct second_look s;
    begin(&s);
    end(&s, PAIR_GONE, "failure not reproduced", 0);
    begin(&s);
    s.step[0] = 0.13;
    meeting_of_a(&s, 0)->busbw = 1;
    end(&s, PAIR_NODE,
        "the node itself: its training step takes 130 ms, the good nodes' median is 100 ms", 4);
    begin(&s);
    meeting_of_a(&s, 1)->busbw = 7;
    end(&s, PAIR_LINK, "(7 GB/s, 4 us), but passes with", 4);
    begin(&s);
    meeting_of_a(&s, 0)->latency = 7.9e-6;
    end(&s, PAIR_GONE, "failure not reproduced", 0);
    begin(&s);
    meeting_of_a(&s, 1)->latency = 9e-6;
    end(&s, PAIR_LINK, "(10 GB/s, 9 us), but passes with", 4);
    begin(&s);
    meeting_of_a(&s, 2)->latency = NAN;
    end(&s, PAIR_UNKNOWN, "not everything", 5);
    begin(&s);
    for (int k = 0; k < 3; k++)
        meeting_of_a(&s, k)->busbw = 7;
    end(&s, PAIR_PORT, "the node's connection", 4);
    begin(&s);
    meeting_of_a(&s, 2)->wrong = 5;
    end(&s, PAIR_LINK, "(5 wrong values)", 4);
    begin(&s);
    s.step[0] = NAN;
    end(&s, PAIR_UNKNOWN, "not everything", 5);
    begin(&s);
    meeting_of_a(&s, 0)->busbw = NAN;
    end(&s, PAIR_UNKNOWN, "not everything", 5);
}

/* With only two nodes, there is one pair test. No other pair test shows the normal speed. */
static void test_two_nodes(void **state)
{
    (void)state;
    const bool suspect[2] = {false, true};
    const double step[2] = {0.1, 0.1}, slow[2] = {0.1, 0.2};
    struct pair_plan plan;
    struct pair_link link[1] = {{.busbw = 3, .latency = 4e-6}};
    struct pair_finding *f;
    int n;
    assert_int_equal(pair_plan_make(suspect, 2, 2, 1, &plan), STATUS_OK);
    assert_int_equal(plan.n, 1);
    struct pair_judging j = {.plan = &plan,
                             .suspect = suspect,
                             .step = step,
                             .link = link,
                             .name = names,
                             .within = 0.2,
                             .latency_within = 1};
    assert_int_equal(pair_judge(&j, &f, &n), STATUS_OK);
    assert_true(n == 1 && f[0].verdict == PAIR_UNKNOWN);
    free(f);
    j.step = slow;
    assert_int_equal(pair_judge(&j, &f, &n), STATUS_OK);
    assert_true(n == 1 && f[0].verdict == PAIR_NODE && f[0].rank == 1);
    free(f);
    j.step = step;
    link[0].wrong = 1;
    assert_int_equal(pair_judge(&j, &f, &n), STATUS_OK);
    assert_true(n == 1 && f[0].verdict == PAIR_EITHER);
    free(f);
    pair_plan_free(&plan);
}

/* Good nodes that fail with each other are reported too. */
static void test_references(void **state)
{
    (void)state;
    struct second_look s;
    begin(&s);
    for (int i = 0; i < s.plan.n; i++) {
        if (s.plan.meeting[i].reference) {
            s.link[i].wrong = 1;
            break;
        }
    }
    const struct pair_judging j = {.plan = &s.plan,
                                   .suspect = s.suspect,
                                   .step = s.step,
                                   .link = s.link,
                                   .name = names,
                                   .within = 0.2,
                                   .latency_within = 1};
    assert_int_equal(pair_judge(&j, &s.finding, &s.n), STATUS_OK);
    assert_int_equal(s.n, 2);
    assert_int_equal(s.finding[0].verdict, PAIR_GONE);
    assert_non_null(
        strstr(s.finding[1].reason, "passed before, but fail with each other: 1 wrong"));
    assert_int_equal(pair_exit_code(s.finding, s.n), 4);
    free(s.finding);
    pair_plan_free(&s.plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plans),     cmocka_unit_test(test_seeds),
        cmocka_unit_test(test_no_plan),   cmocka_unit_test(test_verdicts),
        cmocka_unit_test(test_two_nodes), cmocka_unit_test(test_references),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
