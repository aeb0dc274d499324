/* Reads valid specs, and refuses invalid ones. */
#include "accept/accept_kind.h"
#include "accept/accept_suite.h"
#include "rig.h"
#include "tests/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MEMORY(more)   SPEC("cpu", MADE_CHECK("a", "memory", more))
#define LIMITS(limits) MEMORY(", 'limits': {" limits "}")
#define ROWS(rows)     SPEC("cpu", MADE_CHECK("a", "throughput", ", 'args': {'rows': '" rows "'}"))

static void test_limits(void **state)
{
    struct accept_spec s;
    spec_take(LIMITS("'copy': {'min': 1, 'warn_min': 2, 'source': 'x'}, "
                     "'*': {'baseline': 10, 'within': 5}"),
              &s);
    assert_int_equal(s.n_checks, 2);
    assert_string_equal(s.check[0].name, "hardware");
    const struct accept_check *c = &s.check[1];
    assert_ptr_equal(accept_limit_for(c, "copy"), &c->limit[0]);
    assert_ptr_equal(accept_limit_for(c, "scale"), &c->limit[1]);
    assert_true(c->limit[1].within == 0.05 && isnan(c->limit[1].min));
    accept_spec_free(&s);
}

static void test_refused(void **state)
{
    static const struct {
        const char *spec, *why;
    } rows[] = {
        {LIMITS("'copy': {'mim': 1}"), "did you mean 'min'"},
        {LIMITS("'copy': {}"), "has no limit"},
        {LIMITS("'copy': {'min': 2, 'max': 1}"), "must ascend"},
        {LIMITS("'copy': {'baseline': 2}"), "'baseline' needs"},
        {LIMITS("'copy': {'fleet_within': 1, 'fleet_warn_within': 2}"), "must be stricter"},
        {LIMITS("'copy': {'min': 1, 'matches': 'x'}"), "give one of them"},
        {LIMITS("'copy': {'min': 1, 'absent': 'pass'}"), "'skip' or 'missing'"},
        {LIMITS("'copy': {'min': 1e999}"), "line 1"},
        {SPEC("cpu", ""), "list of 1 to"},
        {SPEC("cpu", MADE_CHECK("a", "memory", "") "," MADE_CHECK("a", "memory", "")),
         "two checks have the name 'a'"},
        {MEMORY(", 'args': {'command': 'x'}"), "unknown key"},
        {SPEC("cpu", MADE_CHECK("../a", "memory", "")), "letters, digits"},
        {SPEC("cpu", MADE_CHECK("a", "shell", "")), "unknown kind 'shell'"},
        {SPEC("cpu", MADE_CHECK("a", "train", ", 'args': {'arch': '--out'}")),
         "not begin with '-'"},
        {SPEC("cpu", MADE_CHECK("a", "gpu-collective", "")), "needs the 'device' cuda"},
        {ROWS("--out"), "'checks[0].args.rows' must be words"},
        {ROWS("amp:256,-x"), "'checks[0].args.rows' must be words"},
        {ROWS("a,,b"), "'checks[0].args.rows' must be words"},
        {ROWS("$(x)"), "'checks[0].args.rows' must be words"},
    };
    struct accept_spec s;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        expect_failed(spec_read(rows[i].spec, 0, &s), STATUS_USAGE, rows[i].why);
    expect_failed(accept_spec_load("nonesuch", NULL, 0, &s), STATUS_USAGE, "known: cpu, h200");
    expect_failed(accept_spec_load("cpu", "cuda:5", 2, &s), STATUS_USAGE,
                  "single device, but 'dev");
    expect_failed(accept_spec_load("cpu", "gpu", 0, &s), STATUS_USAGE, "must be cpu, ref, cuda or");
}

/* Checks that the command of a check contains `want`. */
static void command_has(const struct accept_spec *s, int check, const char *want)
{
    struct words w = {0};
    char *line;
    expect_ok(accept_command(s, &s->check[check], "ampscale", "d", 60, &w));
    expect_ok(words_shell(&w, &line));
    if (!strstr(line, want))
        fail_msg("'%s' lacks '%s'", line, want);
    free(line);
    words_free(&w);
}

static void test_devices(void **state)
{
    static const char text[] = SPEC(
        "cuda", MADE_CHECK("a", "memory", ", 'each': true, 'limits': {'h2d': {'min': 1}}") ", " //
        MADE_CHECK("all", "train", "") ", " MADE_CHECK("sum", "gpu-collective", ""));
    struct accept_spec s;
    expect_ok(spec_read(text, 3, &s));
    assert_int_equal(s.n_checks, 6);
    assert_string_equal(s.check[3].name, "a.2");
    assert_int_equal(s.check[3].device, 2);
    assert_true(s.check[3].limit[0].min == 1);
    assert_true(s.check[0].limit[0].min == 3);
    command_has(&s, 3, "--devices cuda:2");
    command_has(&s, 4, "ampscale launch --nproc 3 ");
    command_has(&s, 4, "--out d/run");
    command_has(&s, 5, "--devices cuda:0,1,2");
    accept_spec_free(&s);
    expect_ok(spec_read(text, 1, &s)); /* a collective needs at least two GPUs */
    assert_int_equal(s.n_checks, 3);
    accept_spec_free(&s);
    /* a single device replaces the devices of a spec */
    expect_ok(accept_spec_load("h200", "cuda:5", 0, &s));
    assert_int_equal(s.n_devices, 1);
    assert_string_equal(s.check[2].name, "selftest.5");
    command_has(&s, 2, "--devices cuda:5 --limit");
    accept_spec_free(&s);
    expect_ok(accept_spec_load("cpu", "ref", 0, &s));
    assert_string_equal(s.device, "ref");
    assert_string_equal(json_string_value(json_object_get(s.json, "device")), "ref");
    accept_spec_free(&s);
    /* the time budget of a command is shorter than its limit */
    spec_take(ROWS("amp:256,bf16:64"), &s);
    command_has(&s, 1, " amp:256,bf16:64 ");
    command_has(&s, 1, " --budget 45 --out d/work");
    accept_spec_free(&s);
}

/* Selects checks of a spec by names or pass; `want`: the selected names, each with a blank. */
static void selected(const char *spec, int devices, const char *only, int pass, const char *want)
{
    char got[512] = "";
    struct accept_spec s;
    expect_ok(accept_spec_load(spec, NULL, devices, &s));
    expect_ok(accept_spec_select(&s, only, pass));
    for (int i = 0; i < s.n_checks; i++) {
        size_t used = strlen(got);
        if (s.check[i].asked)
            snprintf(got + used, sizeof got - used, "%s ", s.check[i].name);
    }
    assert_string_equal(got, want);
    accept_spec_free(&s);
}

static void test_select(void **state)
{
    struct accept_spec s;
    selected("bring-up", 0, "fusion,facts", 0, "hardware facts fusion ");
    selected("bring-up", 0, "fusion,facts", 2, "hardware fusion ");
    selected("h200", 2, "selftest", 0, "hardware selftest.0 selftest.1 ");
    expect_ok(accept_spec_load("bring-up", NULL, 0, &s));
    expect_failed(accept_spec_select(&s, "fact", 0), STATUS_USAGE,
                  "no check 'fact' in 'bring-up'; its");
    expect_failed(accept_spec_select(&s, "facts,", 0), STATUS_USAGE, "no check ''");
    expect_failed(accept_spec_select(&s, NULL, 4), STATUS_USAGE, "belongs to pass 4");
    accept_spec_free(&s);
}

/* Every built-in spec can be read, and gives the source of each number. */
static void test_presets(void **state)
{
    for (const struct preset *p = accept_presets; p->name; p++) {
        struct accept_spec s;
        expect_ok(accept_spec_load(p->name, NULL, 0, &s));
        assert_string_equal(s.name, p->name);
        for (int i = 0; i < s.n_checks; i++)
            for (int k = 0; k < s.check[i].n_limits; k++)
                if (!*s.check[i].limit[k].source)
                    fail_msg("%s: %s has a limit without a source", p->name, s.check[i].name);
        accept_spec_free(&s);
    }
}

static void test_patterns(void **state)
{
    static const struct {
        const char *pattern, *text;
        bool matches;
    } rows[] = {
        {"*H200*", "NVIDIA H200", true},
        {"a|b*", "bc", true},
        {"a?c", "abc", true},
        {"*ab*ab", "abxabab", true},
        {"a", "ab", false},
        /* a simple recursive matcher would take years for this pattern */
        {"*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b",
         "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(accept_matches(rows[i].pattern, rows[i].text), rows[i].matches);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limits),  cmocka_unit_test(test_refused),
        cmocka_unit_test(test_devices), cmocka_unit_test(test_select),
        cmocka_unit_test(test_presets), cmocka_unit_test(test_patterns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
