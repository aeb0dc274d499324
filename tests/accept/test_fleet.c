/* Tests the comparison of nodes, with invented fleets. */
#include "accept/fleet.h"
#include "rig.h"
#include "tests/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define RATE "train/images_per_s"

enum { RATES_MAX = 10 };

static const struct fleet_config usual = {.bounds = {.warn = 0.05, .fail = 0.10}};

static void add_node(struct nodes *nodes, json_t *o)
{
    assert_non_null(o);
    expect_ok(nodes_add(nodes, o));
    json_decref(o);
}

/* Adds a node with one rate; NAN: the node has no rate. */
static void add_rate(struct nodes *nodes, const char *name, const char *hardware, double rate)
{
    json_t *o =
        json_pack("{s:s, s:s, s:i}", "node", name, "hardware", hardware, "train/return_code", 0);
    if (!isnan(rate))
        json_object_set_new(o, RATE, json_real(rate));
    add_node(nodes, o);
}

/* Judges nodes n0, n1, ... of the same hardware; a rate of 0 ends the list. */
static void judge_rates(const double rate[RATES_MAX], struct fleet *fleet)
{
    struct nodes nodes = {0};
    for (int i = 0; i < RATES_MAX && rate[i] != 0; i++) {
        char name[16];
        snprintf(name, sizeof name, "n%d", i);
        add_rate(&nodes, name, "x", rate[i]);
    }
    expect_ok(fleet_judge(&nodes, &usual, fleet));
    nodes_free(&nodes);
}

static void expect(const struct fleet *fleet, const char *verdicts)
{
    static const char letter[] = "PSWMF"; /* in the order of enum verdict */
    char got[64] = "";
    for (int i = 0; i < fleet->n_nodes; i++)
        got[i] = letter[fleet->node[i].verdict];
    assert_string_equal(got, verdicts);
}

/* If half of the fleet is slow, the median of all nodes lies between the two groups and close to
 * every node. The reference must therefore be the better group. If the rates vary much, the limits
 * become wider, but at most twice as wide. */
static void test_rates(void **state)
{
    static const struct {
        double rate[RATES_MAX];
        const char *verdicts;
        int code, strict_code;
        int node; /* the reason of its first finding contains `reason`; NULL: there is none */
        const char *reason;
    } rows[] = {
        {{100, 100.4, 99.8, 100.1, 99.7}, "PPPPP", 0, 0, 0, NULL},
        {{100, 101, 80, 99, 100},
         "PPFPP",
         4,
         4,
         2,
         "20.0 % worse than the median of 5 nodes (100)"},
        {{100, 100, 97.5, 100, 100, 100, 100, 100}, "PPWPPPPP", 0, 4, 2, "2.5 % worse"},
        /* too few nodes: the spread changes no limit */
        {{100, 100, 97.5, 100, 100}, "PPPPP", 0, 0, 0, NULL},
        {{100, 101, 100, 99, 120}, "PPPPW", 0, 4, 4, "20.0 % better than"},
        {{100, NAN, 100, 100}, "PMPP", 5, 5, 1, "3 of 4 nodes have a value"},
        {{100, 80, 101, 81, 99, 79}, "PFPFPF", 4, 4, 1, "20.0 % worse"},
        {{80, 81, 80, 79, 100, 101}, "FFFFPP", 4, 4, 0, ""},
        {{100, 96, 104, 92, 108, 88, 112, 84, 116, 78}, "PPPWPWPWPF", 4, 4, 7, "14.3 % worse"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct fleet fleet;
        judge_rates(rows[i].rate, &fleet);
        expect(&fleet, rows[i].verdicts);
        assert_int_equal(verdict_exit_code(fleet.count, false), rows[i].code);
        assert_int_equal(verdict_exit_code(fleet.count, true), rows[i].strict_code);
        const struct fleet_node *n = &fleet.node[rows[i].node];
        if (rows[i].reason && !strstr(n->finding[0].reason, rows[i].reason))
            fail_msg("row %zu: '%s' lacks '%s'", i, n->finding[0].reason, rows[i].reason);
        fleet_free(&fleet);
    }
}

static void test_other_hardware(void **state)
{
    struct nodes nodes = {0};
    struct fleet fleet;
    add_rate(&nodes, "odd", "y", 50);
    add_rate(&nodes, "a", "x", 100);
    add_rate(&nodes, "b", "x", 101);
    add_rate(&nodes, "c", "x", 99);
    expect_ok(fleet_judge(&nodes, &usual, &fleet));
    expect(&fleet, "MPPP");
    assert_int_equal(fleet.n_groups, 2);
    assert_string_equal(fleet.group[0].hardware, "x");
    assert_int_equal(fleet.node[0].group, 1);
    assert_non_null(strstr(fleet.node[0].finding[0].reason, "only 1 node of this hardware"));
    fleet_free(&fleet);
    nodes_free(&nodes);
}

static void test_return_codes(void **state)
{
    static const int code[] = {0, 4, 5, 1};
    struct nodes nodes = {0};
    struct fleet fleet;
    for (int i = 0; i < 4; i++)
        add_node(&nodes, json_pack("{s:s%, s:i, s:f}", "node", &"abcd"[i], 1,
                                   "memory/return_code:0", code[i], "memory/copy_bw", 10.0));
    expect_ok(fleet_judge(&nodes, &usual, &fleet));
    expect(&fleet, "PFMF");
    fleet_free(&fleet);
    nodes_free(&nodes);
}

/* Up to the chosen level, every metric with a limit in the spec must be measured. Metrics without a
 * limit are not compared. */
static void test_spec(void **state)
{
    static const char *const name[] = {"a", "b", "c"};
    struct accept_spec spec;
    struct nodes nodes = {0};
    struct fleet fleet;
    struct fleet_config config = usual;
    spec_take(SPEC("cpu",
                   MADE_CHECK("memory", "memory",
                              ", 'limits': {'copy': {'fleet_within': 30}, 'add': {'fleet_within': "
                              "30}}") ", {'name': 'peak', 'kind': 'peak', 'level': 2, 'seconds': "
                                      "1, 'limit_s': 9, "
                                      "'limits': {'bandwidth': {'fleet_within': 5}}}"),
              &spec);
    config.spec = &spec;
    config.level = 1;
    for (int i = 0; i < 3; i++) {
        json_t *o = json_pack("{s:s, s:f, s:f}", "node", name[i], "memory/copy",
                              i == 2 ? 75.0 : 100.0, "memory/other", i == 2 ? 1.0 : 100.0);
        if (i > 0)
            json_object_set_new(o, "memory/add", json_real(5));
        add_node(&nodes, o);
    }
    expect_ok(fleet_judge(&nodes, &config, &fleet));
    /* "add" is missing on a, and the other two nodes are too few to compare */
    expect(&fleet, "MMM");
    assert_int_equal(fleet.n_metrics, 2);
    assert_int_equal(fleet.node[2].count[VERDICT_PASS], 1);
    fleet_free(&fleet);
    config.level = 2;
    expect_ok(fleet_judge(&nodes, &config, &fleet));
    assert_int_equal(fleet.n_metrics, 3);
    assert_string_equal(fleet.metric[2].name, "peak/bandwidth");
    assert_int_equal(fleet.node[2].count[VERDICT_MISSING], 2);
    fleet_free(&fleet);
    nodes_free(&nodes);
    accept_spec_free(&spec);
}

static void test_directions(void **state)
{
    static const double time[] = {10, 10, 10, 13}, zero[] = {0, 0, 0, 2};
    static const struct {
        const double *x;
        enum accept_better better;
        double value, loss; /* NAN: any loss */
        enum verdict want;
    } rows[] = {
        {time, ACCEPT_LOWER, 13, 0.3, VERDICT_FAIL}, {time, ACCEPT_LOWER, 7, NAN, VERDICT_WARN},
        {time, ACCEPT_EVEN, 7, NAN, VERDICT_FAIL},   {zero, ACCEPT_LOWER, 0, NAN, VERDICT_PASS},
        {zero, ACCEPT_LOWER, 2, NAN, VERDICT_FAIL},
    };
    assert_int_equal(fleet_better("model-benchmarks:r/p/fp16_train_throughput:3"), ACCEPT_HIGHER);
    assert_int_equal(fleet_better("throughput/step_time"), ACCEPT_LOWER);
    assert_int_equal(fleet_better("x/temperature"), ACCEPT_EVEN);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct fleet_sample s;
        double loss;
        expect_ok(fleet_sample_of(rows[i].x, 4, ACCEPT_LOWER, usual.bounds, &s));
        assert_int_equal(fleet_verdict(&s, rows[i].better, rows[i].value, &loss), rows[i].want);
        assert_true(isnan(rows[i].loss) || fabs(loss - rows[i].loss) < 1e-12);
    }
}

/* The bounds follow from the spread by the formulas of accept/fleet.h. The bound of WARN is at most
 * `warn`, and the bound of FAIL is between `fail` and 2 `fail`. */
static void test_bounds_of_the_spread(void **state)
{
    /* the median distance of these numbers from their median is 1 */
    static const double off[] = {-2, -1, -1, 0, 0, 0, 1, 1, 2};
    static const struct {
        double times, warn, fail;
    } rows[] = {{0.5, 0.0259455, 0.10}, {2, 0.05, 0.103782}, {0.01, 0.01, 0.10}, {5, 0.05, 0.20}};
    enum { N = sizeof off / sizeof *off };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double x[N];
        struct fleet_sample s;
        for (int k = 0; k < N; k++)
            x[k] = 100 + rows[i].times * off[k];
        expect_ok(fleet_sample_of(x, N, ACCEPT_HIGHER, usual.bounds, &s));
        assert_true(fabs(s.bounds.warn - rows[i].warn) < 1e-9);
        assert_true(fabs(s.bounds.fail - rows[i].fail) < 1e-9);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rates),        cmocka_unit_test(test_other_hardware),
        cmocka_unit_test(test_return_codes), cmocka_unit_test(test_spec),
        cmocka_unit_test(test_directions),   cmocka_unit_test(test_bounds_of_the_spread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
