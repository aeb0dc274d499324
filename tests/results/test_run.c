/* Tests run folders whose files are invalid. */
#include "base/json.h"
#include "base/rng.h"
#include "base/text.h"
#include "results/run.h"
#include "scratch.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

static const char run_text[] = "{\"schema\":1,\"config\":{\"arch\":\"resnet18\"}}";
static const char step_text[] =
    "{\"epoch\":0,\"step\":0,\"batch\":0,\"images\":32,\"loss\":1.5,\"top1\":0,\"top5\":50,"
    "\"lr\":0.1,\"data_s\":0,\"h2d_s\":0,\"forward_s\":1,\"backward_s\":1,\"comm_s\":0,"
    "\"optimizer_s\":1,\"total_s\":3,\"bytes_read\":0,\"files_read\":0,\"decode_s\":0,"
    "\"workers\":0,\"bad_images\":0,\"elapsed\":3,\"unknown\":[1,{\"x\":null}]}\n";

static int set_up(void **state)
{
    scratch_set_up(state);
    scratch_write(*state, "run.json", run_text, strlen(run_text));
    scratch_write(*state, "steps.jsonl", step_text, strlen(step_text));
    return 0;
}

static void expect_data_error(const char *dir, const char *part_of_message)
{
    struct run *run;
    assert_int_equal(run_load(dir, &run), STATUS_DATA);
    if (!strstr(status_message(), part_of_message))
        fail_msg("'%s' does not say '%s'", status_message(), part_of_message);
    assert_null(strchr(status_message(), '\n'));
}

static void test_unknown_keys_are_fine(void **state)
{
    struct run *run;
    assert_int_equal(run_load(*state, &run), STATUS_OK);
    assert_int_equal(run->n_steps, 1);
    assert_int_equal(run->n_epochs, 0);
    run_free(run);
}

static void test_no_run(void **state)
{
    expect_data_error("/nonexistent/folder", "there is no such folder");
    char path[SCRATCH_MAX + 16];
    snprintf(path, sizeof path, "%s/run.json", (char *)*state);
    expect_data_error(path, "there is no such folder");
    assert_int_equal(remove(path), 0);
    expect_data_error(*state, "it has no run.json");
}

static void test_bad_run_json(void **state)
{
    static const struct {
        const char *text, *say;
    } cases[] = {
        {"", "line 1: not valid JSON"},
        {"{\"schema\":1", "not valid JSON"},
        {"[]", "has no schema"},
        {"{}", "has no schema"},
        {"{\"schema\":\"1\"}", "has no schema"},
        {"{\"schema\":0}", "has no schema"},
        {"{\"schema\":2}", "reads only up to 1"},
        {"{\"schema\":1,\"schema\":1}", "not valid JSON"},
        {"{\"schema\":99999999999999999999}", "not valid JSON"},
        {"{\"schema\":1,\"x\":\"\\u0000\"}", "not valid JSON"},
        {"{\"schema\":1,\"x\":\"\xff\"}", "not valid JSON"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        scratch_write(*state, "run.json", cases[i].text, strlen(cases[i].text));
        expect_data_error(*state, cases[i].say);
    }
    /* A damaged summary must be refused. The types of the values in the config are not tested. */
    scratch_write(*state, "run.json", run_text, strlen(run_text));
    scratch_write(*state, "summary.json", "null", 4);
    expect_data_error(*state, "summary.json' line 1: not valid JSON");
}

static void test_deep_nesting(void **state)
{
    enum { DEPTH = 100000 };
    char *deep = malloc(DEPTH + 1);
    memset(deep, '[', DEPTH);
    deep[DEPTH] = '\n';
    scratch_write(*state, "run.json", deep, DEPTH);
    expect_data_error(*state, "not valid JSON");
    scratch_write(*state, "run.json", run_text, strlen(run_text));
    scratch_append(*state, "steps.jsonl", deep, DEPTH + 1);
    expect_data_error(*state, "steps.jsonl' line 2: not valid JSON");
    free(deep);
}

/* Writes a valid line of steps.jsonl, and replaces the first occurrence of `old` by `new`. */
static void write_step(const char *dir, const char *old, const char *new)
{
    char line[1024];
    const char *at = strstr(step_text, old);
    assert_non_null(at);
    snprintf(line, sizeof line, "%.*s%s%s", (int)(at - step_text), step_text, new,
             at + strlen(old));
    scratch_write(dir, "steps.jsonl", line, strlen(line));
}

static void test_bad_steps(void **state)
{
    static const struct {
        const char *old, *new, *say;
    } cases[] = {
        {"\"loss\":1.5,", "", "line 1: 'loss' is missing"},
        {"\"loss\":1.5", "\"loss\":\"1.5\"", "'loss' is not a number"},
        {"\"loss\":1.5", "\"loss\":NaN", "not valid JSON"},
        {"\"loss\":1.5", "\"loss\":1e999", "not valid JSON"},
        {"\"step\":0", "\"step\":-1", "'step' is out of range"},
        {"\"step\":0", "\"step\":0.5", "'step' is not a whole number"},
        {"\"step\":0", "\"step\":null", "'step' is not a whole number"},
        {"\"step\":0", "\"step\":9223372036854775807", "'step' is out of range"},
        {"\"step\":0", "\"step\":9223372036854775808", "not valid JSON"},
        {"\"images\":32", "\"images\":[32]", "'images' is not a whole number"},
        {"\"top5\":50", "\"top5\":101", "'top5' is out of range"},
        {"\"total_s\":3", "\"total_s\":-3", "'total_s' is out of range"},
        {"\"total_s\":3", "\"total_s\":true", "'total_s' is not a number"},
        {"\"lr\":0.1", "\"lr\":0.1,\"skipped\":-1", "'skipped' is out of range"},
        {"{\"epoch\":0", "[\"epoch\",0", "not valid JSON"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_step(*state, cases[i].old, cases[i].new);
        expect_data_error(*state, cases[i].say);
    }
    static const char *const lines[] = {
        "1\n", "null\n", "[]\n", "\n", "\"x\"\n", "{\"event\":\"resume\"}\n", "{}\n"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        scratch_write(*state, "steps.jsonl", lines[i], strlen(lines[i]));
        expect_data_error(*state, "steps.jsonl' line 1");
    }
}

static void test_nul_bytes_and_long_lines(void **state)
{
    scratch_append(*state, "steps.jsonl", "\0\0\0\n", 4);
    expect_data_error(*state, "steps.jsonl' line 2: not valid JSON");

    enum { LONG = (1 << 20) + 10 };
    char *spaces = malloc(LONG);
    memset(spaces, ' ', LONG);
    scratch_write(*state, "steps.jsonl", spaces, LONG);
    expect_data_error(*state, "line 1 is longer than any record");
    free(spaces);
}

static void test_not_a_file(void **state)
{
    char path[SCRATCH_MAX + 16];
    snprintf(path, sizeof path, "%s/steps.jsonl", (char *)*state);
    assert_int_equal(remove(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    expect_data_error(*state, "not a regular file");
    assert_int_equal(remove(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    expect_data_error(*state, "not a regular file");
}

/* If a line has the step number of an earlier line, it replaces the earlier line. All lines between
 * these two lines are dropped. Step numbers may have gaps. */
static void test_last_one_wins(void **state)
{
    static const int order[] = {0, 1, 2, 3, 1, 2, 2, 5};
    scratch_write(*state, "steps.jsonl", "", 0);
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        struct step_record s = {.step = order[i], .loss = (double)i};
        char line[SCHEMA_LINE_MAX];
        scratch_append(*state, "steps.jsonl", line, schema_format(&step_schema, &s, line));
    }
    static const struct {
        int step;
        double loss;
    } want[] = {{0, 0}, {1, 4}, {2, 6}, {5, 7}};
    struct run *run;
    assert_int_equal(run_load(*state, &run), STATUS_OK);
    assert_int_equal(run->n_steps, 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(run->step[i].step, want[i].step);
        assert_true(run->step[i].loss == want[i].loss);
    }
    run_free(run);
}

static void test_unknown_events_are_fine(void **state)
{
    const char *line = "{\"event\":\"coffee\",\"step\":\"never\"}\n";
    scratch_append(*state, "steps.jsonl", line, strlen(line));
    struct run *run;
    assert_int_equal(run_load(*state, &run), STATUS_OK);
    assert_int_equal(run->n_steps, 1);
    assert_int_equal(run->resumes, 0);
    run_free(run);
}

/* Files with random damage must be read or refused. Sanitizers detect invalid memory accesses. */
static void test_damage(void **state)
{
    const char *const files[] = {"run.json", "steps.jsonl"};
    const char *const texts[] = {run_text, step_text};
    int found = 0;
    for (int i = 0; i < 3000; i++) {
        struct rng rng = rng_at(1, RNG_TEST, (uint64_t)i, 0);
        char bytes[1024];
        const char *text = texts[i % 2];
        size_t size = strlen(text);
        memcpy(bytes, text, size);
        for (int k = 0; k <= i % 3; k++)
            bytes[rng_below(&rng, (uint32_t)size)] = (char)rng_below(&rng, 256);
        if (i % 5 == 0)
            size = rng_below(&rng, (uint32_t)size);
        scratch_write(*state, files[i % 2], bytes, size);
        struct run *run;
        enum status st = run_load(*state, &run);
        assert_true(st == STATUS_OK || st == STATUS_DATA);
        if (st == STATUS_OK)
            run_free(run);
        else
            found++;
        scratch_write(*state, files[i % 2], text, strlen(text));
    }
    assert_true(found > 1000);
}

static void test_text_is_cleaned(void **state)
{
    (void)state;
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"plain", "plain"},
        {"tab\tand\nline\x1b[31m\x7f", "tab?and?line?[31m?"},
        {"Z\xc3\xbcrich \xe2\x82\xac \xf0\x9f\x98\x80",
         "Z\xc3\xbcrich \xe2\x82\xac \xf0\x9f\x98\x80"},
        {"\xff\xc3", "??"},
        {"\xc0\xaf \xe0\x80\xaf", "?? ???"},      /* overlong */
        {"\xed\xa0\x80", "???"},                  /* a surrogate */
        {"\xf4\x90\x80\x80 \xf5\x80", "???? ??"}, /* above U+10FFFF */
        {"\xc2\x9b", "??"},                       /* a C1 control character */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char out[64];
        text_clean(out, sizeof out, cases[i].in);
        assert_string_equal(out, cases[i].out);
        json_t *json = text_json(cases[i].in);
        assert_string_equal(json_string_value(json), cases[i].out);
        json_decref(json);
    }
    char small[4];
    text_clean(small, sizeof small, "ab\xe2\x82\xac");
    assert_string_equal(small, "ab");
}

#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, set_up, scratch_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_unknown_keys_are_fine),
        WITH_FOLDER(test_no_run),
        WITH_FOLDER(test_bad_run_json),
        WITH_FOLDER(test_deep_nesting),
        WITH_FOLDER(test_bad_steps),
        WITH_FOLDER(test_nul_bytes_and_long_lines),
        WITH_FOLDER(test_not_a_file),
        WITH_FOLDER(test_last_one_wins),
        WITH_FOLDER(test_unknown_events_are_fine),
        WITH_FOLDER(test_damage),
        cmocka_unit_test(test_text_is_cleaned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
