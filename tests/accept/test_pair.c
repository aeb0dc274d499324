/* Tests the plan of pair tests between suspect and good ranks, and the findings from their results.
 */
#include "accept/pair.h"
#include "tests/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    const bool none[3] = {false}, all[3] = {true, true, true};
    struct pair_plan p;
    assert_int_equal(pair_plan_make(none, 3, 2, 1, &p), STATUS_DATA);
    assert_int_equal(pair_plan_make(all, 3, 2, 1, &p), STATUS_DATA);
    for (int ranks = 2; ranks <= RANKS_MAX; ranks++) {
        for (int bad = 1; bad < ranks; bad++) {
            for (int partners = 1; partners <= 4; partners++) {
                bool suspect[RANKS_MAX] = {false};
                for (int i = 0; i < bad; i++)
                    suspect[(7 * i + ranks) % ranks] = true;
                assert_int_equal(pair_plan_make(suspect, ranks, partners, 3, &p), STATUS_OK);
                check_plan(suspect, ranks, partners, &p);
                pair_plan_free(&p);
            }
        }
    }
}

static const char *const names[] = {"a", "b", "c", "d", "e", "f"};

/* Other work on the nodes; {0}: none. */
static struct host_noise noise[RANKS_MAX];

/* Judges a plan of at most six nodes, and checks the verdict and a part of the reason of finding
 * number `at` of `n`. */
static void judged(const struct pair_plan *p, const bool *suspect, const double *step,
                   const struct pair_link *link, int n, int at, enum pair_verdict verdict,
                   const char *says, int code)
{
    const struct pair_judging j = {.plan = p,
                                   .suspect = suspect,
                                   .step = step,
                                   .link = link,
                                   .noise = noise,
                                   .name = names,
                                   .within = 0.2,
                                   .latency_within = 1};
    struct pair_finding *f;
    int findings;
    assert_int_equal(pair_judge(&j, &f, &findings), STATUS_OK);
    assert_int_equal(findings, n);
    if (f[at].verdict != verdict || !strstr(f[at].reason, says))
        fail_msg("'%s': %s", pair_verdict_str(f[at].verdict), f[at].reason);
    assert_int_equal(pair_exit_code(f, findings), code);
    free(f);
}

/* Six nodes. The first, "a", has failed before, and meets three partners. Unless a row says
 * otherwise, a step takes 0.1 s, and a link has 10 GB/s and 4 us. */
static void test_verdicts(void **state)
{
    static const struct {
        double step;               /* of a; 0: as the other nodes */
        int first, last;           /* the pair tests of a that this row changes */
        struct pair_link link;     /* 0: as usual */
        enum pair_verdict verdict; /* of a */
        const char *says;
        int code;
    } rows[] = {
        {0, 0, -1, {.wrong = 0}, PAIR_GONE, "failure not reproduced", 0},
        {0.13, 0, 0, {.busbw = 1}, PAIR_NODE, "step takes 130 ms, the good nodes' median", 4},
        {0, 1, 1, {.busbw = 7}, PAIR_LINK, "(7 GB/s, 4 us), but passes with", 4},
        {0, 0, 0, {.latency = 7.9e-6}, PAIR_GONE, "failure not reproduced", 0},
        {0, 1, 1, {.latency = 9e-6}, PAIR_LINK, "(10 GB/s, 9 us), but passes with", 4},
        {0, 2, 2, {.latency = NAN}, PAIR_UNKNOWN, "not everything", 5},
        {0, 0, 0, {.busbw = NAN}, PAIR_UNKNOWN, "not everything", 5},
        {NAN, 0, -1, {.wrong = 0}, PAIR_UNKNOWN, "not everything", 5},
        {0, 0, 2, {.busbw = 7}, PAIR_PORT, "the node's connection", 4},
        {0, 2, 2, {.wrong = 5}, PAIR_LINK, "(5 wrong values)", 4},
    };
    const bool suspect[6] = {true};
    struct pair_plan p;
    assert_int_equal(pair_plan_make(suspect, 6, 3, 1, &p), STATUS_OK);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct pair_link *x = &rows[i].link;
        double step[6] = {rows[i].step != 0 ? rows[i].step : 0.1, 0.1, 0.1, 0.1, 0.1, 0.1};
        struct pair_link link[MEETINGS_MAX];
        for (int k = 0, of_a = 0; k < p.n; k++) {
            link[k] = (struct pair_link){.busbw = 10, .latency = 4e-6};
            if (p.meeting[k].reference || of_a++ < rows[i].first || of_a - 1 > rows[i].last)
                continue;
            link[k].busbw = x->busbw != 0 ? x->busbw : 10;
            link[k].latency = x->latency != 0 ? x->latency : 4e-6;
            link[k].wrong = x->wrong;
        }
        judged(&p, suspect, step, link, 1, 0, rows[i].verdict, rows[i].says, rows[i].code);
    }
    pair_plan_free(&p);
}

/* Good nodes that fail with each other are reported too. With only two nodes, there is one pair
 * test, and no other shows the normal speed. */
static void test_other_pairs(void **state)
{
    const bool suspect[6] = {true}, second[2] = {false, true};
    const double step[6] = {0.1, 0.1, 0.1, 0.1, 0.1, 0.1}, slow[2] = {0.1, 0.2};
    struct pair_link link[MEETINGS_MAX];
    struct pair_plan p;
    int bad = 0;
    assert_int_equal(pair_plan_make(suspect, 6, 3, 1, &p), STATUS_OK);
    for (int k = 0; k < p.n; k++)
        link[k] = (struct pair_link){
            .busbw = 10, .latency = 4e-6, .wrong = p.meeting[k].reference && bad++ == 0 ? 1 : 0};
    judged(&p, suspect, step, link, 2, 1, PAIR_EITHER,
           "passed before, but fail with each other: 1 wrong", 4);
    pair_plan_free(&p);
    link[0] = (struct pair_link){.busbw = 3, .latency = 4e-6};
    assert_int_equal(pair_plan_make(second, 2, 2, 1, &p), STATUS_OK);
    assert_int_equal(p.n, 1);
    judged(&p, second, step, link, 1, 0, PAIR_UNKNOWN, "", 5);
    judged(&p, second, slow, link, 1, 0, PAIR_NODE, "the node itself", 4);
    link[0].wrong = 1;
    judged(&p, second, step, link, 1, 0, PAIR_EITHER, "", 4);
    pair_plan_free(&p);
}

/* A slow step, or a slow link, of a disturbed node says nothing about the hardware. Wrong values
 * do. The times of a disturbed good node are no reference. */
static void test_disturbed(void **state)
{
    static const struct host_noise busy = {.seconds = 10, .processors = 2, .others = 0.63};
    static const char says[] =
        "was disturbed: 63.0 % of the processors' time went to other processes; repeat on idle";
    const bool suspect[6] = {true};
    const double slow[6] = {0.3, 0.1, 0.1, 0.1, 0.1, 0.1}, odd[6] = {0.1, 9, 0.1, 9, 0.1, 9};
    struct pair_link link[MEETINGS_MAX];
    struct pair_plan p;
    assert_int_equal(pair_plan_make(suspect, 6, 3, 1, &p), STATUS_OK);
    for (int k = 0; k < p.n; k++)
        link[k] = (struct pair_link){.busbw = p.meeting[k].reference ? 10 : 3, .latency = 4e-6};
    judged(&p, suspect, slow, link, 1, 0, PAIR_NODE, "", 4);
    noise[0] = busy;
    judged(&p, suspect, slow, link, 1, 0, PAIR_UNKNOWN, says, 5);
    for (int k = 0; k < p.n; k++)
        link[k].wrong = !p.meeting[k].reference;
    judged(&p, suspect, slow, link, 1, 0, PAIR_PORT, "wrong values", 4);
    noise[0] = (struct host_noise){0};
    noise[1] = noise[3] = noise[5] = busy;
    for (int k = 0; k < p.n; k++)
        link[k].wrong = 0;
    judged(&p, suspect, slow, link, 1, 0, PAIR_NODE, "the good nodes' median is 100 ms", 4);
    judged(&p, suspect, odd, link, 1, 0, PAIR_UNKNOWN, says, 5);
    memset(noise, 0, sizeof noise);
    pair_plan_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plans), cmocka_unit_test(test_verdicts),
        cmocka_unit_test(test_other_pairs), cmocka_unit_test(test_disturbed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
