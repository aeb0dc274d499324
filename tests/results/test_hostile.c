/* Tests folders of runs whose files are invalid or damaged: they are refused. */
#include "run_rig.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The files of a run of two ranks; unknown keys are ignored. */
enum { RUN, STEPS, RANKS, TELEMETRY, FILES };
static const struct {
    const char *name, *text;
} files[FILES] = {
    {"run.json", "{\"schema\":1,\"config\":{\"arch\":\"resnet18\"},\"ranks\":[{\"rank\":0,\"host\":"
                 "\"a\",\"pid\":1},{\"rank\":1,\"host\":\"b\",\"pid\":2}]}"},
    {"steps.jsonl",
     "{\"epoch\":0,\"step\":0,\"batch\":0,\"images\":32,\"loss\":1.5,\"top1\":0,\"top5\":50,"
     "\"lr\":0.1,\"data_s\":0,\"h2d_s\":0,\"forward_s\":1,\"backward_s\":1,\"comm_s\":0,"
     "\"optimizer_s\":1,\"total_s\":3,\"bytes_read\":0,\"files_read\":0,\"decode_s\":0,"
     "\"workers\":0,\"bad_images\":0,\"elapsed\":3,\"unknown\":[1,{\"x\":null}]}\n"
     "{\"event\":\"coffee\",\"step\":\"never\"}\n"},
    {"ranks.jsonl",
     "{\"epoch\":0,\"rank\":0,\"steps\":10,\"images\":320,\"data_s\":0.1,\"h2d_s\":0,"
     "\"forward_s\":1,\"backward_s\":2,\"comm_s\":0.5,\"comm_busy_s\":1,\"optimizer_s\":0.1,"
     "\"total_s\":4,\"later\":[]}\n"
     "{\"epoch\":0,\"rank\":1,\"steps\":10,\"images\":320,\"data_s\":0.1,\"h2d_s\":0,"
     "\"forward_s\":1,\"backward_s\":2,\"comm_s\":0.5,\"comm_busy_s\":1,\"optimizer_s\":0.2,"
     "\"total_s\":4}\n"},
    {"telemetry.jsonl", "{\"sample\":0,\"device\":0,\"elapsed\":1,\"power_w\":null}\n"
                        "{\"sample\":1,\"device\":0,\"elap"},
};

static int set_up(void **state)
{
    scratch_set_up(state);
    for (int i = 0; i < FILES; i++)
        scratch_write_text(*state, files[i].name, files[i].text);
    return 0;
}

static void expect_refused(const char *dir, const char *says)
{
    struct run *run;
    expect_failed(run_load(dir, &run), STATUS_DATA, says);
}

/* Each case replaces a part of a valid file, or all of it if `old` is NULL. */
static void test_refusals(void **state)
{
    static const char ranks[] = "run.json': 'ranks' is not a list of ranks";
    static const struct {
        int file;
        const char *old, *new, *says;
    } cases[] = {
        {RUN, NULL, "", "line 1: not valid JSON"},
        {RUN, "\"schema\":1", "\"schema\":\"1\"", "has no schema"},
        {RUN, "\"schema\":1", "\"schema\":2", "reads only up to 1"},
        {RUN, "resnet18", "\\u0000", "not valid JSON"},
        {RUN, "resnet18", "\xff", "not valid JSON"},
        {RUN, "\"rank\":1", "\"rank\":0", ranks},
        {RUN, "[{\"rank\":0", "[null,{\"rank\":0", ranks},
        {RUN, "\"ranks\":", "\"ranks\":[],\"was\":", ranks},
        {STEPS, NULL, "{\"event\":\"resume\",\"step\":0,\"epoch\":0,\"ranks\":{}}\n",
         "steps.jsonl' line 1: 'ranks' is not a list of ranks"},
        {STEPS, "\"loss\":1.5,", "", "line 1: 'loss' is missing"},
        {STEPS, NULL, "[]\n", "steps.jsonl' line 1: not an object"},
        {STEPS, "\"loss\":1.5", "\"loss\":\"1.5\"", "'loss' is not a number"},
        {STEPS, "\"loss\":1.5", "\"loss\":NaN", "not valid JSON"},
        {STEPS, "\"loss\":1.5", "\"loss\":1e999", "not valid JSON"},
        {STEPS, "\"step\":0", "\"step\":-1", "'step' is out of range"},
        {STEPS, "\"step\":0", "\"step\":0.5", "'step' is not a whole number"},
        {STEPS, "\"step\":0", "\"step\":9223372036854775807", "'step' is out of range"},
        {STEPS, "\"top5\":50", "\"top5\":101", "'top5' is out of range"},
        {RANKS, "\"rank\":0", "\"rank\":2", "'rank' is out of range: the attempt has 2 ranks"},
        {RANKS, "\"rank\":1", "\"rank\":9007199254740992", "line 2: 'rank' is out of range"},
        {RUN, "\"ranks\":", "\"was\":", "has 0 ranks"},
        {TELEMETRY, "\"device\":0", "\"device\":64", "'device' is out of range"},
        {TELEMETRY, "null", "null,\"throttle\":1e300", "'throttle' is out of range"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *name = files[cases[i].file].name, *text = files[cases[i].file].text;
        scratch_write_changed(*state, name, text, cases[i].old ? cases[i].old : text, cases[i].new);
        expect_refused(*state, cases[i].says);
        scratch_write_text(*state, name, text);
    }
    scratch_write_text(*state, "summary.json", "null");
    expect_refused(*state, "summary.json' line 1: not valid JSON");
}

/* A row of an attempt that no event describes: the run can be continued, but not judged. */
static void test_unknown_attempt(void **state)
{
    struct run *run;
    expect_ok(run_load_whole(*state, &run));
    assert_int_equal(run->n_ranks, 2);
    run_free(run);
    scratch_write_changed(*state, "ranks.jsonl", files[RANKS].text, "\"rank\":0",
                          "\"rank\":0,\"attempt\":9007199254740992");
    expect_ok(run_load(*state, &run));
    assert_int_equal(run->n_ranks, 1);
    run_free(run);
    expect_failed(run_load_whole(*state, &run), STATUS_DATA, "lacks rows");
}

static void test_no_run(void **state)
{
    expect_refused("/nonexistent/folder", "there is no such folder");
    scratch_remove_file(*state, "run.json");
    expect_refused(*state, "it has no run.json");
}

/* Deep nesting, NUL bytes, a line longer than any record, and files that are no files. */
static void test_hostile_files(void **state)
{
    enum { SIZE = (1 << 20) + 10, DEPTH = 100000 };
    char *bytes = malloc(SIZE);
    memset(bytes, '[', DEPTH);
    scratch_write(*state, "run.json", bytes, DEPTH);
    expect_refused(*state, "not valid JSON");
    scratch_write_text(*state, "run.json", files[RUN].text);
    bytes[DEPTH] = '\n';
    scratch_write(*state, "steps.jsonl", bytes, DEPTH + 1);
    expect_refused(*state, "steps.jsonl' line 1: not valid JSON");
    scratch_write(*state, "steps.jsonl", "\0\0\0\n", 4);
    expect_refused(*state, "steps.jsonl' line 1: not valid JSON");
    memset(bytes, ' ', SIZE);
    scratch_write(*state, "steps.jsonl", bytes, SIZE);
    expect_refused(*state, "line 1 is longer than any record");
    free(bytes);
    scratch_remove_file(*state, "steps.jsonl");
    assert_int_equal(mkfifo(scratch_path(*state, "steps.jsonl"), 0600), 0);
    expect_refused(*state, "not a regular file");
    scratch_remove_file(*state, "steps.jsonl");
    assert_int_equal(mkdir(scratch_path(*state, "steps.jsonl"), 0700), 0);
    expect_refused(*state, "not a regular file");
}

/* A record with the key of an earlier record replaces it, and all records in between are dropped.
 * Numbers of steps may have gaps. */
static void test_last_one_wins(void **state)
{
    static const int64_t steps[] = {0, 1, 2, 3, 1, 2, 2, 5};
    static const int64_t ranks[][2] = {{0, 0}, {0, 1}, {0, 1}, {1, 0},
                                       {1, 1}, {2, 0}, {2, 1}, {1, 1}};
    static const int64_t want_steps[] = {0, 4, 6, 7}, want_ranks[] = {0, 2, 3, 7};
    scratch_write_text(*state, "steps.jsonl", "");
    scratch_write_text(*state, "ranks.jsonl", "");
    for (int64_t i = 0; i < 8; i++) {
        struct step_record s = {.step = steps[i], .images = i};
        struct rank_record r = {.epoch = ranks[i][0], .rank = ranks[i][1], .images = i};
        run_rig_append(*state, &step_schema, &s);
        run_rig_append(*state, &rank_schema, &r);
    }
    struct run *run = run_rig_load(*state);
    assert_true(run->n_steps == 4 && run->n_ranks == 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(run->step[i].images, want_steps[i]);
        assert_int_equal(run->rank[i].images, want_ranks[i]);
    }
    run_free(run);
}

#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, set_up, scratch_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_refusals),      WITH_FOLDER(test_unknown_attempt),
        WITH_FOLDER(test_no_run),        WITH_FOLDER(test_hostile_files),
        WITH_FOLDER(test_last_one_wins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
