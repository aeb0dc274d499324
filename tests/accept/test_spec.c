/* Reads valid specs, and refuses invalid ones. */
#include "accept/accept_judge.h"
#include "accept/accept_kind.h"
#include "accept/accept_plan.h"
#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HEAD                                                                                       \
    "{\"schema\": 1, \"name\": \"made\", \"about\": \"a test\", \"device\": \"cpu\","              \
    " \"hardware\": [\"*\"], \"checks\": ["
#define CHECK_HEAD                                                                                 \
    "{\"name\": \"a\", \"kind\": \"memory\", \"level\": 1, \"seconds\": 1, \"limit_s\": 9"
#define TAIL "]}"

static enum status parse(const char *text, struct accept_spec *s)
{
    return accept_spec_parse(text, strlen(text), "made", 0, s);
}

/* Makes a spec with one check, which has the given limits. */
static enum status parse_limits(const char *limits, struct accept_spec *s)
{
    char text[2048];
    snprintf(text, sizeof text, HEAD CHECK_HEAD ", \"limits\": {%s}}" TAIL, limits);
    return parse(text, s);
}

static void refuses(enum status st, const char *why)
{
    assert_int_equal(st, STATUS_USAGE);
    if (!strstr(status_message(), why))
        fail_msg("'%s' does not say '%s'", status_message(), why);
}

static void test_whole(void **state)
{
    (void)state;
    struct accept_spec s;
    assert_int_equal(parse_limits("\"copy\": {\"min\": 1, \"warn_min\": 2, \"source\": \"x\"},"
                                  "\"*\": {\"baseline\": 10, \"within\": 5}",
                                  &s),
                     STATUS_OK);
    assert_int_equal(s.n_checks, 2);
    assert_string_equal(s.check[0].name, "hardware");
    const struct accept_check *c = &s.check[1];
    assert_int_equal(c->n_limits, 2);
    assert_ptr_equal(accept_limit_for(c, "copy"), &c->limit[0]);
    assert_ptr_equal(accept_limit_for(c, "scale"), &c->limit[1]);
    assert_true(c->limit[1].within == 0.05 && isnan(c->limit[1].min));
    accept_spec_free(&s);
}

static void test_limits_refused(void **state)
{
    (void)state;
    struct accept_spec s;
    refuses(parse_limits("\"copy\": {\"mim\": 1}", &s), "did you mean 'min'");
    refuses(parse_limits("\"copy\": {}", &s), "has no limit");
    refuses(parse_limits("\"copy\": {\"min\": \"1\"}", &s), "must be a number");
    refuses(parse_limits("\"copy\": {\"min\": 2, \"max\": 1}", &s), "must ascend");
    refuses(parse_limits("\"copy\": {\"min\": 2, \"warn_min\": 1}", &s), "must ascend");
    refuses(parse_limits("\"copy\": {\"within\": 2}", &s), "'baseline' needs");
    refuses(parse_limits("\"copy\": {\"baseline\": 2}", &s), "'baseline' needs");
    refuses(parse_limits("\"copy\": {\"baseline\": 0, \"within\": 2}", &s), "must be a number");
    refuses(parse_limits("\"copy\": {\"fleet_within\": 1, \"fleet_warn_within\": 2}", &s),
            "must be stricter");
    refuses(parse_limits("\"copy\": {\"min\": 1, \"matches\": \"x\"}", &s), "give one of them");
    refuses(parse_limits("\"copy\": {\"min\": 1, \"absent\": \"pass\"}", &s),
            "'skip' or 'missing'");
    refuses(parse_limits("\"a b\": {\"min\": 1}", &s), "a metric's name");
    refuses(parse_limits("\"copy\": {\"min\": 1e999}", &s), "line 1");
    refuses(parse_limits("\"copy\": {\"min\": NaN}", &s), "line 1");
    refuses(parse_limits("\"copy\": {\"min\": 1, \"min\": 2}", &s), "line 1");
}

static void test_checks_refused(void **state)
{
    (void)state;
    struct accept_spec s;
    refuses(parse("[]", &s), "must be an object");
    refuses(parse(HEAD TAIL, &s), "list of 1 to");
    refuses(parse(HEAD CHECK_HEAD ", \"limit\": {}}" TAIL, &s), "did you mean 'limits'");
    refuses(parse(HEAD CHECK_HEAD "}, " CHECK_HEAD "}" TAIL, &s), "two checks have the name 'a'");
    refuses(parse(HEAD CHECK_HEAD ", \"args\": {\"iters\": 0}}" TAIL, &s), "whole number from 1");
    refuses(parse(HEAD CHECK_HEAD ", \"args\": {\"command\": \"x\"}}" TAIL, &s), "unknown key");
    refuses(parse(HEAD CHECK_HEAD ", \"args\": []}" TAIL, &s), "must be an object");
    refuses(parse(HEAD "{\"name\": \"../a\", \"kind\": \"memory\", \"level\": 1, \"seconds\": 1, "
                       "\"limit_s\": 9}" TAIL,
                  &s),
            "letters, digits");
    refuses(parse(HEAD "{\"name\": \"a\", \"kind\": \"shell\", \"level\": 1, \"seconds\": 1, "
                       "\"limit_s\": 9}" TAIL,
                  &s),
            "unknown kind 'shell'");
    refuses(parse(HEAD "{\"name\": \"a\", \"kind\": \"train\", \"level\": 1, \"seconds\": 1, "
                       "\"limit_s\": 9, \"args\": {\"arch\": \"--out\"}}" TAIL,
                  &s),
            "not begin with '-'");
    refuses(parse(HEAD "{\"name\": \"a\", \"kind\": \"gpu-collective\", \"level\": 1, "
                       "\"seconds\": 1, \"limit_s\": 9}" TAIL,
                  &s),
            "needs the 'device' cuda");
    refuses(accept_spec_load("nonesuch", NULL, 0, &s), "known: cpu, h200");
}

static void test_devices(void **state)
{
    (void)state;
    static const char text[] =
        "{\"schema\": 1, \"name\": \"made\", \"about\": \"a test\", \"device\": \"cuda\","
        " \"devices\": 2, \"hardware\": [\"*A100*\", \"*V100*\"], \"checks\": [" CHECK_HEAD
        ", \"each\": true, \"limits\": {\"h2d\": {\"min\": 1}}}, {\"name\": \"all\", \"kind\": "
        "\"train\", \"level\": 1, \"seconds\": 1, \"limit_s\": 9}, {\"name\": \"sum\", \"kind\": "
        "\"gpu-collective\", \"level\": 1, \"seconds\": 1, \"limit_s\": 9}]}";
    struct accept_spec s;
    struct words w = {0};
    assert_int_equal(accept_spec_parse(text, strlen(text), "made", 3, &s), STATUS_OK);
    assert_int_equal(s.n_checks, 6);
    assert_string_equal(s.check[3].name, "a.2");
    assert_int_equal(s.check[3].device, 2);
    assert_true(s.check[3].limit[0].min == 1);
    assert_true(s.check[0].limit[0].min == 3);
    assert_int_equal(accept_command(&s, &s.check[3], "ampscale", "d", 9, &w), STATUS_OK);
    assert_string_equal(w.v[w.n - 1], "cuda:2");
    words_free(&w);
    w = (struct words){0};
    assert_int_equal(accept_command(&s, &s.check[4], "ampscale", "d", 9, &w), STATUS_OK);
    assert_string_equal(w.v[1], "launch");
    assert_string_equal(w.v[3], "3");
    assert_string_equal(w.v[w.n - 1], "d/run");
    words_free(&w);
    w = (struct words){0};
    assert_int_equal(accept_command(&s, &s.check[5], "ampscale", "d", 9, &w), STATUS_OK);
    assert_string_equal(w.v[w.n - 1], "cuda:0,1,2");
    words_free(&w);
    accept_spec_free(&s);
    /* A collective needs at least two GPUs. */
    assert_int_equal(accept_spec_parse(text, strlen(text), "made", 1, &s), STATUS_OK);
    assert_int_equal(s.n_checks, 3);
    accept_spec_free(&s);
}

/* A single GPU, cuda:5, replaces the devices of the spec. */
static void test_one_device(void **state)
{
    (void)state;
    struct accept_spec s;
    struct words w = {0};
    assert_int_equal(accept_spec_load("h200", "cuda:5", 0, &s), STATUS_OK);
    assert_int_equal(s.n_devices, 1);
    assert_string_equal(s.check[2].name, "selftest.5");
    assert_int_equal(accept_command(&s, &s.check[2], "ampscale", "d", 9, &w), STATUS_OK);
    assert_string_equal(w.v[w.n - 3], "cuda:5");
    assert_string_equal(w.v[w.n - 2], "--limit");
    words_free(&w);
    accept_spec_free(&s);
    assert_int_equal(accept_spec_load("cpu", "ref", 0, &s), STATUS_OK);
    assert_string_equal(s.device, "ref");
    assert_string_equal(json_string_value(json_object_get(s.json, "device")), "ref");
    accept_spec_free(&s);
    refuses(accept_spec_load("cpu", "cuda:5", 2, &s),
            "'cuda:5' is a single device, but 'devices' is 2");
    refuses(accept_spec_load("cpu", "cuda:x", 0, &s), "must be cpu, ref, cuda or one GPU");
    refuses(accept_spec_load("cpu", "gpu", 0, &s), "must be cpu, ref, cuda or one GPU");
}

/* Expects that the selected checks are `want`: their names, each followed by a blank. */
static void asked(const struct accept_spec *s, const char *want)
{
    char got[512] = "";
    for (int i = 0; i < s->n_checks; i++) {
        size_t used = strlen(got);
        if (s->check[i].asked)
            snprintf(got + used, sizeof got - used, "%s ", s->check[i].name);
    }
    assert_string_equal(got, want);
}

static void test_select(void **state)
{
    (void)state;
    struct accept_spec s;
    assert_int_equal(accept_spec_load("bring-up", NULL, 0, &s), STATUS_OK);
    assert_int_equal(accept_spec_select(&s, "fusion,facts", 0), STATUS_OK);
    asked(&s, "hardware facts fusion ");
    assert_int_equal(accept_spec_select(&s, NULL, 1), STATUS_OK);
    asked(&s, "hardware facts ");
    assert_int_equal(accept_spec_select(&s, "fusion,facts", 2), STATUS_OK);
    asked(&s, "hardware fusion ");
    refuses(accept_spec_select(&s, "fact", 0),
            "no check 'fact' in 'bring-up'; its checks are facts, fi");
    refuses(accept_spec_select(&s, "facts,", 0), "no check ''");
    refuses(accept_spec_select(&s, NULL, 4), "no check of 'bring-up' belongs to pass 4");
    accept_spec_free(&s);
    assert_int_equal(accept_spec_load("h200", NULL, 2, &s), STATUS_OK);
    assert_int_equal(accept_spec_select(&s, "selftest", 0), STATUS_OK);
    asked(&s, "hardware selftest.0 selftest.1 ");
    accept_spec_free(&s);
}

/* A list must consist of words. The check's command gets the list, a time budget that is shorter
 * than the check's limit, and a folder for its record. */
static void test_args(void **state)
{
    (void)state;
    static const char head[] =
        HEAD "{\"name\": \"a\", \"kind\": \"throughput\", \"level\": 1, "
             "\"seconds\": 1, \"limit_s\": 60, \"args\": {\"rows\": \"%s\"}}" TAIL;
    static const char *const wrong[] = {"--out", "amp:256,-x", "a,,b", "a,",
                                        ":1",    "a b",        "../x", "$(x)"};
    char text[1024];
    struct accept_spec s;
    struct words w = {0};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(text, sizeof text, head, wrong[i]);
        refuses(parse(text, &s), "'checks[0].args.rows' must be words");
    }
    snprintf(text, sizeof text, head, "amp:256,bf16:64");
    assert_int_equal(parse(text, &s), STATUS_OK);
    assert_int_equal(accept_command(&s, &s.check[1], "ampscale", "d", 60, &w), STATUS_OK);
    assert_string_equal(w.v[5], "amp:256,bf16:64");
    assert_string_equal(w.v[w.n - 4], "--budget");
    assert_string_equal(w.v[w.n - 3], "45");
    assert_string_equal(w.v[w.n - 2], "--out");
    assert_string_equal(w.v[w.n - 1], "d/work");
    words_free(&w);
    accept_spec_free(&s);
}

/* Every built-in spec can be read, and gives the source of each number. */
static void test_presets(void **state)
{
    (void)state;
    for (const struct preset *p = accept_presets; p->name; p++) {
        struct accept_spec s;
        if (accept_spec_load(p->name, NULL, 0, &s) != STATUS_OK)
            fail_msg("%s", status_message());
        assert_string_equal(s.name, p->name);
        for (int i = 0; i < s.n_checks; i++)
            for (int k = 0; k < s.check[i].n_limits; k++)
                if (!*s.check[i].limit[k].source)
                    fail_msg("%s: %s.%s has no source", p->name, s.check[i].name,
                             s.check[i].limit[k].metric);
        accept_spec_free(&s);
    }
}

static void test_patterns(void **state)
{
    (void)state;
    assert_true(accept_matches("*H200*", "NVIDIA H200"));
    assert_true(accept_matches("a|b*", "bc"));
    assert_true(accept_matches("a?c", "abc"));
    assert_true(accept_matches("*ab*ab", "abxabab"));
    assert_true(accept_matches("*", ""));
    assert_false(accept_matches("a", "ab"));
    assert_false(accept_matches("", "a"));
    assert_false(accept_matches("a?", "a"));
    /* A simple recursive matcher would take years for this pattern. */
    assert_false(accept_matches("*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b",
                                "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"));
}

/* A damaged spec is read or refused, without an invalid memory access. */
static void test_mutated(void **state)
{
    (void)state;
    const char *text = (const char *)accept_presets[1].text; /* h200 */
    size_t size = strlen(text);
    char *copy = malloc(size);
    assert_non_null(copy);
    for (uint64_t i = 0; i < 400; i++) {
        struct accept_spec s;
        struct rng r = rng_at(1, RNG_TEST, i, 0);
        memcpy(copy, text, size);
        for (int k = 0; k < 3; k++)
            copy[rng_below(&r, (uint32_t)size)] = (char)rng_u32(&r);
        size_t cut = i % 4 == 0 ? rng_below(&r, (uint32_t)size) : size;
        if (accept_spec_parse(copy, cut, "mutated", 0, &s) == STATUS_OK)
            accept_spec_free(&s);
    }
    free(copy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole),          cmocka_unit_test(test_limits_refused),
        cmocka_unit_test(test_checks_refused), cmocka_unit_test(test_devices),
        cmocka_unit_test(test_one_device),     cmocka_unit_test(test_select),
        cmocka_unit_test(test_args),           cmocka_unit_test(test_presets),
        cmocka_unit_test(test_patterns),       cmocka_unit_test(test_mutated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
