/* Tests the comparison of nodes, with invented fleets. */
#include "../results/scratch.h"
#include "accept/fleet_report.h"
#include "base/file.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define RATE "train/images_per_s"

static const struct fleet_config usual = {.bounds = {.warn = 0.05, .fail = 0.10}};

/* Adds a node with one rate; NAN: the node has no rate. */
static void add_rate(struct nodes *nodes, const char *name, const char *hardware, double rate)
{
    json_t *o =
        json_pack("{s:s, s:s, s:i}", "node", name, "hardware", hardware, "train/return_code", 0);
    if (!isnan(rate))
        json_object_set_new(o, RATE, json_real(rate));
    assert_int_equal(nodes_add(nodes, o), STATUS_OK);
    json_decref(o);
}

/* Judges nodes n0, n1, ... of the same hardware. */
static void judge_rates(const double *rate, int n, struct fleet *fleet)
{
    struct nodes nodes = {0};
    for (int i = 0; i < n; i++) {
        char name[16];
        snprintf(name, sizeof name, "n%d", i);
        add_rate(&nodes, name, "x", rate[i]);
    }
    if (fleet_judge(&nodes, &usual, fleet) != STATUS_OK)
        fail_msg("%s", status_message());
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

static void test_alike(void **state)
{
    (void)state;
    static const double rate[] = {100, 100.4, 99.8, 100.1, 99.7};
    static const double equal[] = {7, 7, 7};
    struct fleet fleet;
    judge_rates(rate, 5, &fleet);
    expect(&fleet, "PPPPP");
    assert_int_equal(verdict_exit_code(fleet.count, true), 0);
    fleet_free(&fleet);
    judge_rates(equal, 3, &fleet);
    expect(&fleet, "PPP");
    fleet_free(&fleet);
}

static void test_one_slow(void **state)
{
    (void)state;
    static const double rate[] = {100, 101, 80, 99, 100};
    struct fleet fleet;
    judge_rates(rate, 5, &fleet);
    expect(&fleet, "PPFPP");
    const struct fleet_finding *x = &fleet.node[2].finding[0];
    assert_int_equal(fleet.node[2].n, 1);
    assert_string_equal(x->metric, RATE);
    assert_true(x->value == 80 && x->reference == 100);
    assert_non_null(strstr(x->reason, "20.0 % worse than the median of 5 nodes (100)"));
    assert_int_equal(verdict_exit_code(fleet.count, false), 4);
    fleet_free(&fleet);
}

static void test_warnings(void **state)
{
    (void)state;
    static const double slower[] = {100, 100, 100, 93, 100},
                        outlier[] = {100, 100, 97.5, 100, 100, 100, 100, 100},
                        faster[] = {100, 101, 100, 99, 120};
    struct fleet fleet;
    judge_rates(slower, 5, &fleet);
    expect(&fleet, "PPPWP");
    assert_int_equal(verdict_exit_code(fleet.count, false), 0);
    assert_int_equal(verdict_exit_code(fleet.count, true), 4);
    fleet_free(&fleet);
    judge_rates(outlier, 8, &fleet);
    expect(&fleet, "PPWPPPPP");
    fleet_free(&fleet);
    judge_rates(outlier, 5, &fleet); /* too few nodes: the spread changes no limit */
    expect(&fleet, "PPPPP");
    fleet_free(&fleet);
    judge_rates(faster, 5, &fleet);
    expect(&fleet, "PPPPW");
    assert_non_null(strstr(fleet.node[4].finding[0].reason, "20.0 % better than"));
    fleet_free(&fleet);
}

/* If half of the fleet is slow, the median of all nodes lies between the two groups and close to
 * every node. The reference must therefore be the better group. */
static void test_two_groups(void **state)
{
    (void)state;
    static const double halves[] = {100, 80, 101, 81, 99, 79},
                        most_slow[] = {80, 81, 80, 79, 100, 101};
    struct fleet fleet;
    judge_rates(halves, 6, &fleet);
    expect(&fleet, "PFPFPF");
    assert_true(fleet.metric[0].sample.split);
    assert_true(fleet.metric[0].sample.high == 100 && fleet.metric[0].sample.low == 80);
    fleet_free(&fleet);
    judge_rates(most_slow, 6, &fleet);
    expect(&fleet, "FFFFPP");
    fleet_free(&fleet);
}

/* If the rates vary much, the limits become wider, but at most twice as wide. */
static void test_spread(void **state)
{
    (void)state;
    static const double rate[] = {100, 96, 104, 92, 108, 88, 112, 84, 116, 78};
    struct fleet fleet;
    judge_rates(rate, 10, &fleet);
    const struct fleet_sample *s = &fleet.metric[0].sample;
    assert_false(s->split);
    assert_true(fabs(s->bounds.fail - 0.20) < 1e-12);
    assert_int_equal(fleet.node[7].verdict, VERDICT_WARN); /* with a limit of 10 %, 84 would fail */
    assert_int_equal(fleet.node[9].verdict, VERDICT_FAIL);
    fleet_free(&fleet);
}

static void test_missing(void **state)
{
    (void)state;
    static const double rate[] = {100, NAN, 100, 100};
    static char *expected[] = {(char *)"n1", (char *)"away"};
    struct fleet_config config = usual;
    struct nodes nodes = {0};
    struct fleet fleet;
    judge_rates(rate, 4, &fleet);
    expect(&fleet, "PMPP");
    assert_non_null(strstr(fleet.node[1].finding[0].reason, "3 of 4 nodes have a value"));
    assert_int_equal(verdict_exit_code(fleet.count, false), 5);
    fleet_free(&fleet);

    for (int i = 0; i < 3; i++)
        add_rate(&nodes, (const char *[]){"n0", "n1", "n2"}[i], "", 5);
    config.expected = expected;
    config.n_expected = 2;
    assert_int_equal(fleet_judge(&nodes, &config, &fleet), STATUS_OK);
    expect(&fleet, "PPPM");
    assert_string_equal(fleet.node[3].name, "away");
    fleet_free(&fleet);
    nodes_free(&nodes);

    assert_int_equal(fleet_judge(&nodes, &usual, &fleet), STATUS_OK);
    assert_int_equal(verdict_exit_code(fleet.count, false), 5);
    fleet_free(&fleet);
}

static void test_other_hardware(void **state)
{
    (void)state;
    struct nodes nodes = {0};
    struct fleet fleet;
    add_rate(&nodes, "odd", "y", 50);
    add_rate(&nodes, "a", "x", 100);
    add_rate(&nodes, "b", "x", 101);
    add_rate(&nodes, "c", "x", 99);
    assert_int_equal(fleet_judge(&nodes, &usual, &fleet), STATUS_OK);
    expect(&fleet, "MPPP");
    assert_int_equal(fleet.n_groups, 2);
    assert_string_equal(fleet.group[0].hardware, "x");
    assert_int_equal(fleet.node[0].group, 1);
    assert_non_null(
        strstr(fleet.node[0].finding[0].reason, "only 1 node of this hardware has a value"));
    fleet_free(&fleet);
    nodes_free(&nodes);
}

static void test_codes(void **state)
{
    (void)state;
    static const int code[] = {0, 4, 5, 1, 0, 0};
    static const char *const name[] = {"a", "b", "c", "d", "e", "f"};
    struct nodes nodes = {0};
    struct fleet fleet;
    for (int i = 0; i < 6; i++) {
        json_t *o = json_pack("{s:s, s:i, s:f}", "node", name[i], "memory/return_code:0", code[i],
                              "memory/copy_bw", 10.0);
        assert_int_equal(nodes_add(&nodes, o), STATUS_OK);
        json_decref(o);
    }
    assert_int_equal(fleet_judge(&nodes, &usual, &fleet), STATUS_OK);
    expect(&fleet, "PFMFPP");
    fleet_free(&fleet);
    nodes_free(&nodes);
}

/* Up to the chosen level, every metric with a limit in the spec must be measured. Metrics without a
 * limit are not compared. */
static void test_spec(void **state)
{
    (void)state;
    static const char text[] =
        "{\"schema\": 1, \"name\": \"t\", \"about\": \"t\", \"device\": \"cpu\", \"hardware\": "
        "[\"*\"], \"checks\": [{\"name\": \"memory\", \"kind\": \"memory\", \"level\": 1, "
        "\"seconds\": 1, \"limit_s\": 9, "
        "\"limits\": {\"copy\": {\"fleet_within\": 30, \"source\": \"-\"}, \"add\": "
        "{\"fleet_within\": 30, \"source\": \"-\"}}}, {\"name\": \"peak\", \"kind\": \"peak\", "
        "\"level\": 2, \"seconds\": 1, \"limit_s\": 9, \"limits\": {\"bandwidth\": "
        "{\"fleet_within\": 5, \"source\": \"-\"}}}]}";
    static const char *const name[] = {"a", "b", "c"};
    struct accept_spec spec;
    struct nodes nodes = {0};
    struct fleet fleet;
    struct fleet_config config = usual;
    if (accept_spec_parse(text, sizeof text - 1, "t", 0, &spec) != STATUS_OK)
        fail_msg("%s", status_message());
    config.spec = &spec;
    config.level = 1;
    for (int i = 0; i < 3; i++) {
        json_t *o = json_pack("{s:s, s:f, s:f}", "node", name[i], "memory/copy",
                              i == 2 ? 75.0 : 100.0, "memory/other", i == 2 ? 1.0 : 100.0);
        if (i > 0)
            json_object_set_new(o, "memory/add", json_real(5));
        assert_int_equal(nodes_add(&nodes, o), STATUS_OK);
        json_decref(o);
    }
    assert_int_equal(fleet_judge(&nodes, &config, &fleet), STATUS_OK);
    /* "add" is missing on a, and the other two nodes are too few to compare */
    expect(&fleet, "MMM");
    assert_int_equal(fleet.n_metrics, 2);
    assert_int_equal(fleet.node[2].count[VERDICT_PASS], 1);
    fleet_free(&fleet);
    config.level = 2;
    assert_int_equal(fleet_judge(&nodes, &config, &fleet), STATUS_OK);
    assert_int_equal(fleet.n_metrics, 3);
    assert_string_equal(fleet.metric[2].name, "peak/bandwidth");
    assert_int_equal(fleet.node[2].count[VERDICT_MISSING], 2);
    fleet_free(&fleet);
    nodes_free(&nodes);
    accept_spec_free(&spec);
}

static void test_directions(void **state)
{
    (void)state;
    assert_int_equal(fleet_better("x/images_per_s"), ACCEPT_HIGHER);
    assert_int_equal(fleet_better("model-benchmarks:r/p/fp16_train_throughput:3"), ACCEPT_HIGHER);
    assert_int_equal(fleet_better("throughput/step_time"), ACCEPT_LOWER);
    assert_int_equal(fleet_better("x/temperature"), ACCEPT_EVEN);
    static const double time[] = {10, 10, 10, 13};
    struct fleet_sample s;
    double loss;
    assert_int_equal(fleet_sample_of(time, 4, ACCEPT_LOWER, usual.bounds, &s), STATUS_OK);
    assert_int_equal(fleet_verdict(&s, ACCEPT_LOWER, 13, &loss), VERDICT_FAIL);
    assert_true(fabs(loss - 0.3) < 1e-12);
    assert_int_equal(fleet_verdict(&s, ACCEPT_LOWER, 7, &loss), VERDICT_WARN);
    assert_int_equal(fleet_verdict(&s, ACCEPT_EVEN, 7, &loss), VERDICT_FAIL);
    /* With a median of 0, any other value is out of bounds. */
    static const double none[] = {0, 0, 0, 2};
    assert_int_equal(fleet_sample_of(none, 4, ACCEPT_LOWER, usual.bounds, &s), STATUS_OK);
    assert_int_equal(fleet_verdict(&s, ACCEPT_LOWER, 0, &loss), VERDICT_PASS);
    assert_int_equal(fleet_verdict(&s, ACCEPT_LOWER, 2, &loss), VERDICT_FAIL);
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
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double x[N];
        struct fleet_sample s;
        for (int k = 0; k < N; k++)
            x[k] = 100 + rows[i].times * off[k];
        assert_int_equal(fleet_sample_of(x, N, ACCEPT_HIGHER, usual.bounds, &s), STATUS_OK);
        assert_true(fabs(s.bounds.warn - rows[i].warn) < 1e-9);
        assert_true(fabs(s.bounds.fail - rows[i].fail) < 1e-9);
    }
}

/* In reports, characters of hardware names are escaped if they would end an attribute or a cell. */
static void test_reports(void **state)
{
    struct nodes nodes = {0};
    struct fleet fleet;
    char *text = NULL;
    size_t size;
    add_rate(&nodes, "a", "<x> & \"y\" | z", 100);
    add_rate(&nodes, "b", "<x> & \"y\" | z", 100);
    add_rate(&nodes, "c", "<x> & \"y\" | z", 50);
    assert_int_equal(fleet_judge(&nodes, &usual, &fleet), STATUS_OK);
    char path[SCRATCH_MAX + 16];
    snprintf(path, sizeof path, "%s/fleet.xml", (char *)*state);
    assert_int_equal(fleet_write(&fleet, false, *state), STATUS_OK);
    assert_int_equal(file_read(path, 1 << 16, &text, &size), STATUS_OK);
    assert_non_null(strstr(text, "tests=\"3\" failures=\"1\" errors=\"0\""));
    assert_non_null(strstr(text, "classname=\"&lt;x&gt; &amp; &quot;y&quot; | z\" name=\"c\""));
    free(text);
    json_t *o = fleet_json(&fleet, false);
    assert_non_null(o);
    assert_true(json_is_false(json_object_get(o, "passed")));
    assert_int_equal(json_array_size(json_object_get(o, "nodes")), 3);
    json_decref(o);
    fleet_free(&fleet);
    nodes_free(&nodes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alike),
        cmocka_unit_test(test_one_slow),
        cmocka_unit_test(test_warnings),
        cmocka_unit_test(test_two_groups),
        cmocka_unit_test(test_spread),
        cmocka_unit_test(test_missing),
        cmocka_unit_test(test_other_hardware),
        cmocka_unit_test(test_codes),
        cmocka_unit_test(test_spec),
        cmocka_unit_test(test_directions),
        cmocka_unit_test(test_bounds_of_the_spread),
        cmocka_unit_test_setup_teardown(test_reports, scratch_set_up, scratch_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
