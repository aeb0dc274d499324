/* Checks what watch shows of runs and studies with known content: values, not layout. */
#include "watch/watch.h"

#include "../results/run_rig.h"
#include "base/file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* Makes the folder <dir>/<name> with a run in it. */
static void make_run(const char *dir, const char *name)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    expect_ok(dir_make(path));
    run_rig_write(path);
}

/* A scratch folder with the complete run "first". */
static int set_up(void **state)
{
    scratch_set_up(state);
    make_run(*state, "first");
    return 0;
}

/* Returns the current output; the caller frees it. */
static char *shown(struct watch *w, int width, int height, bool ascii)
{
    char *text;
    size_t size;
    struct watch_options o = {.width = width, .height = height, .ascii = ascii};
    FILE *out = open_memstream(&text, &size);
    enum status st = watch_view(w, &o, out);
    expect_ok(st);
    fclose(out);
    return text;
}

/* Opens <dir>/<name>, and returns its first output. */
static char *first_sight(const char *dir, const char *name)
{
    struct watch *w;
    expect_ok(watch_open(scratch_path(dir, name), &w));
    char *text = shown(w, 80, 0, true);
    watch_close(w);
    return text;
}

/* Checks that the text contains all parts, which end with NULL, and frees it. */
static void expect_in(char *text, const char *const *part)
{
    for (; *part; part++)
        if (!strstr(text, *part))
            fail_msg("no '%s' in:\n%s", *part, text);
    free(text);
}
#define PARTS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void test_run(void **state)
{
    expect_in(first_sight(*state, "first"),
              PARTS("first: resnet18, amp, nd, batch 32\n", "a \"quick\" \\ device\n", "2/2",
                    "100 %", "median 64.0", "500.0 ms",
                    "data 12%  forward 25%  backward 50%  optimizer 6%  other 6%\n",
                    "loss 1.0000, top-1 25.00 %, top-5 50.00 %, lr 0.0001\n",
                    "loss 2.0000, top-1 78.00 %, top-5 90.00 %, epoch 2, best 78.00 %\n",
                    "32768, 1 step skipped\n", "ended: epochs, after 4 steps in 0:05\n"));
}

/* Two of four steps are warm-up. Of the others, one takes half a second and one 2 s: the mean is
 * the images of both over their time, the median that of their rates. */
static void test_mean(void **state)
{
    size_t size;
    char *text = scratch_read(*state, "first/steps.jsonl", &size);
    char *total = NULL;
    for (char *next = text; (next = strstr(next, "\"total_s\":0.5")); next++)
        total = next;
    assert_non_null(total);
    memcpy(strchr(total, '0'), "2.0", 3);
    scratch_write(*state, "first/steps.jsonl", text, size);
    free(text);
    scratch_remove_file(*state, "first/summary.json");
    expect_in(first_sight(*state, "first"), PARTS("images/s  mean 25.6, median 40.0"));
}

/* Mean and median leave out warm-up, as those of the run's last line do: 10 of 20 steps took ten
 * times as long. Of a complete run, they are those of the summary, which has all steps. */
static void test_warmup(void **state)
{
    char path[SCRATCH_MAX + 8];
    scratch_write(*state, "first/steps.jsonl", "", 0);
    snprintf(path, sizeof path, "%s/first", (const char *)*state);
    for (int i = 0; i < 20; i++) {
        double seconds = i < 10 ? 5 : 0.5;
        const struct step_record step = {
            .step = i, .batch = i, .images = 32, .forward_s = seconds, .total_s = seconds};
        run_rig_append(path, &step_schema, &step);
    }
    scratch_remove_file(*state, "first/summary.json");
    scratch_remove_file(*state, "first/epochs.jsonl");
    expect_in(first_sight(*state, "first"),
              PARTS("images/s  mean 64.0, median 64.0", "500.0 ms", "forward 100%"));
    scratch_write_text(*state, "first/summary.json",
                       "{\"schema\":1,\"ended_by\":\"steps\",\"images_per_s_mean\":12.5,"
                       "\"images_per_s\":{\"median\":13.5}}");
    expect_in(first_sight(*state, "first"), PARTS("images/s  mean 12.5, median 13.5"));
}

/* The run is in its second epoch, after the first of two steps. A step takes half a second, and the
 * validation after an epoch takes one second. The last record is two hours old. */
static void test_time_left(void **state)
{
    static const char *const files[] = {"first/run.json", "first/steps.jsonl",
                                        "first/epochs.jsonl"};
    const struct timespec then[2] = {{time(NULL) - 7200, 0}, {time(NULL) - 7200, 0}};
    char *text;
    size_t size;
    scratch_remove_file(*state, "first/summary.json");
    text = scratch_read(*state, "first/steps.jsonl", &size); /* half of the last line stays */
    scratch_write(*state, "first/steps.jsonl", text, (size_t)(strrchr(text, '{') - text) + 20);
    free(text);
    text = scratch_read(*state, "first/epochs.jsonl", &size);
    scratch_write(*state, "first/epochs.jsonl", text, (size_t)(strchr(text, '\n') + 1 - text));
    free(text);
    expect_in(first_sight(*state, "first"),
              PARTS("2/2", " 50 %, 0:01 left, run 0:02 left\n", "loss nan", "running for 0:03\n"));
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(utimensat(AT_FDCWD, scratch_path(*state, files[i]), then, 0), 0);
    expect_in(first_sight(*state, "first"), PARTS("no new record for 2:0"));
}

/* For a run with a limited number of steps, the view shows the progress in steps, not in epochs. It
 * also shows the sensors of two devices. */
static void test_steps_and_sensors(void **state)
{
    scratch_remove_file(*state, "first/summary.json");
    scratch_remove_file(*state, "first/epochs.jsonl");
    scratch_write_text(*state, "first/run.json",
                       "{\"schema\":1,\"config\":{\"epochs\":9,\"epoch_steps\":100,\"steps\":8}}");
    scratch_write_text(
        *state, "first/telemetry.jsonl",
        "{\"sample\":0,\"device\":0,\"power_w\":1,\"elapsed\":1}\n"
        "{\"sample\":1,\"device\":0,\"clock_mhz\":1410,\"power_w\":350.4,\"temperature_c\":67,"
        "\"busy\":98,\"elapsed\":2}\n"
        "{\"sample\":1,\"device\":1,\"temperature_c\":90,\"throttle\":4294967295,\"elapsed\":2}\n");
    expect_in(first_sight(*state, "first"),
              PARTS("4/8", " 50 %, run 0:02 left\n", "device 0, 1410 MHz, 350 W, 67 C, busy 98 %\n",
                    "device 1, 90 C, slowed by "));
}

/* Views of runs with absent and impossible settings have no escape sequences. Then the files of the
 * run are removed one by one, until the run looks as if it had just begun. */
static void test_hostile(void **state)
{
    static const char *const infos[] = {
        "{\"schema\":1}",
        "{\"schema\":1,\"device\":7,\"config\":{\"arch\":\"\\u001b[2J\",\"batch_size\":-1,"
        "\"epochs\":"
        "9223372036854775807,\"dummy\":true,\"dummy_train\":9223372036854775807,\"accumulate\":0,"
        "\"world_size\":9223372036854775807}}"};
    for (size_t i = 0; i < 2; i++) {
        scratch_write_text(*state, "first/run.json", infos[i]);
        char *text = first_sight(*state, "first");
        assert_null(strchr(text, '\033'));
        free(text);
    }
    static const char *const files[] = {"summary.json", "epochs.jsonl", "steps.jsonl"};
    for (size_t i = 0; i < 3; i++) {
        char name[64];
        snprintf(name, sizeof name, "first/%s", files[i]);
        scratch_remove_file(*state, name);
        expect_in(first_sight(*state, "first"), PARTS(i == 2 ? "no step yet\n" : "first: "));
    }
}

/* The output fits into a window: no line is too long, and there are not too many lines. */
static void test_window(void **state)
{
    static const char name[] = "a r\xc3\xbcn with a name that is long and longer";
    struct watch *w;
    make_run(*state, name);
    expect_ok(watch_open(scratch_path(*state, name), &w));
    char *text = shown(w, 40, 4, false);
    int lines = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"), lines++) {
        size_t columns = 0;
        for (const char *c = line; *c; c++)
            columns += ((unsigned char)*c & 0xc0) != 0x80;
        if (columns > 40)
            fail_msg("%zu columns: '%s'", columns, line);
    }
    assert_int_equal(lines, 4);
    free(text);
    watch_close(w);
}

/* Fails unless `line` shows of `whole` complete words only, and an ellipsis for the others. */
static void expect_words(const char *line, const char *whole, const char *mark)
{
    size_t n = strlen(line), m = strlen(mark);
    if (strcmp(line, whole) == 0)
        return;
    if (n <= m || strcmp(line + n - m, mark) != 0 || line[n - m - 1] != ' ' ||
        strncmp(line, whole, n - m) != 0)
        fail_msg("of the line '%s', '%s' is shown", whole, line);
}

/* On a narrow terminal a line is cut between words, so that every number that is shown is whole: of
 * "best 100.00 %", "best 1" was shown. All numbers of an accuracy fit into 80 columns. */
static void test_whole_numbers(void **state)
{
    static const struct epoch_record epoch = {.epoch = 149,
                                              .steps = 600,
                                              .val_images = 10,
                                              .val_loss = 0.0625,
                                              .val_top1 = 100,
                                              .val_top5 = 100,
                                              .best_top1 = 100};
    char path[SCRATCH_MAX + 8];
    struct watch *w;
    snprintf(path, sizeof path, "%s/first", (const char *)*state);
    scratch_write(*state, "first/epochs.jsonl", "", 0);
    run_rig_append(path, &epoch_schema, &epoch);
    scratch_write_text(*state, "first/telemetry.jsonl",
                       "{\"sample\":1,\"device\":0,\"clock_mhz\":1410,\"power_w\":350.4,"
                       "\"temperature_c\":67,\"busy\":98,\"throttle\":4,\"elapsed\":2}\n");
    expect_in(first_sight(*state, "first"), PARTS(", epoch 150, best 100.00 %\n"));
    expect_ok(watch_open(scratch_path(*state, "first"), &w));
    for (int width = 40; width < 120; width++)
        for (int ascii = 0; ascii < 2; ascii++) {
            char *wide = shown(w, 200, 0, ascii), *narrow = shown(w, width, 0, ascii), *at, *end;
            char *whole = strtok_r(wide, "\n", &end);
            for (char *line = strtok_r(narrow, "\n", &at); line; line = strtok_r(NULL, "\n", &at)) {
                /* The widths of bars, with which these lines end or begin, differ. */
                if (strncmp(line, "epoch ", 6) != 0 && strncmp(line, "step ", 5) != 0 &&
                    strncmp(line, "images/s", 8) != 0)
                    expect_words(line, whole, ascii ? "..." : "\u2026");
                whole = strtok_r(NULL, "\n", &end);
            }
            free(wide);
            free(narrow);
        }
    watch_close(w);
}

/* The ranks in the order of their own time; rank 1 waits for data. */
static void test_ranks(void **state)
{
    const struct run_rig *f = *state;
    struct record *r = run_rig_open(f, 3, "node", 0);
    for (int64_t i = 0; i < 3; i++) {
        struct rank_record rank = run_rig_rank(0, i);
        rank.data_s += i == 1 ? 1 : 0;
        expect_ok(record_rank(r, &rank));
    }
    expect_ok(record_epoch(r, &(struct epoch_record){.steps = 10}));
    expect_ok(record_close(r));
    char *text = first_sight(f->dir, ".");
    const char *first = strstr(text, " 1    475.0"), *second = strstr(text, " 0    375.0");
    assert_true(first && second && first < second);
    expect_in(text, PARTS("straggler: rank 1, +26.7 %, mostly data\n", "node0\n"));
}

static void test_study(void **state)
{
    scratch_write_text(
        *state, "plan.json",
        "{\"schema\":1,\"runs\":[{\"cell\":\"nd-fp32\",\"repeat\":1},{\"cell\":\"nd-fp32\","
        "\"repeat\":2},{\"cell\":\"nd-amp\",\"repeat\":1},{\"cell\":\"nd-amp\",\"repeat\":2}]}");
    make_run(*state, "cells/nd-fp32/r1");
    make_run(*state, "cells/nd-fp32/r2");
    scratch_remove_file(*state, "cells/nd-fp32/r2/summary.json");
    expect_ok(dir_make(scratch_path(*state, "cells/nd-amp")));
    scratch_write_text(*state, "cells/nd-amp/r1.failed", "{\"reason\":\"no\\nmemory\"}");
    struct watch *w, *stopped;
    bool over;
    expect_ok(watch_open(*state, &w));
    expect_in(shown(w, 80, 0, true), PARTS("4 runs, ", " 1 done, 1 running, 1 failed, 1 to come\n",
                                           "nd-amp/r1: no?memory\n", "nd-fp32/r2\n",
                                           "\nr2: resnet18, amp, nd, batch 32\n"));

    /* An interrupted run does not run. */
    scratch_write_text(*state, "cells/nd-fp32/r2/outcome.json",
                       "{\"schema\":1,\"attempt\":0,\"outcome\":\"signal\",\"exit_code\":130}");
    expect_ok(watch_open(*state, &stopped));
    expect_in(shown(stopped, 80, 0, true), PARTS(" 1 done, 0 running, 1 failed, 2 to come\n"));
    watch_close(stopped);
    scratch_remove_file(*state, "cells/nd-fp32/r2/outcome.json");

    /* The current run ends, and the last one begins. */
    scratch_write_text(*state, "cells/nd-fp32/r2/summary.json", "{\"schema\":1}");
    expect_ok(watch_poll(w, &over));
    assert_false(over);
    make_run(*state, "cells/nd-amp/r2");
    scratch_remove_file(*state, "cells/nd-amp/r2/summary.json");
    scratch_write_text(*state, "cells/nd-amp/r2/run.json",
                       "{\"schema\":1,\"config\":{\"arch\":\"vgg11\"}}");
    expect_ok(watch_poll(w, &over));
    expect_in(shown(w, 80, 0, true),
              PARTS(" 2 done, 1 running, 1 failed, 0 to come\n", "nd-amp/r2\n", "\nr2: vgg11, "));
    scratch_write_text(*state, "cells/nd-amp/r2/summary.json", "{\"schema\":1}");
    expect_ok(watch_poll(w, &over));
    assert_true(over);
    watch_close(w);
}

static void test_wrong_plans(void **state)
{
    static const char *const plans[] = {
        "", "[]", "{\"runs\":[{\"cell\":\"../x\",\"repeat\":1}]}",
        "{\"runs\":[{\"cell\":\"a\",\"repeat\":1},{\"cell\":\"..\",\"repeat\":1}]}",
        "{\"runs\":[{\"cell\":\"a\",\"repeat\":\"1\"}]}"};
    struct watch *w;
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        scratch_write_text(*state, "plan.json", plans[i]);
        assert_int_equal(watch_open(*state, &w), STATUS_DATA);
        assert_non_null(strstr(status_message(), "plan.json'"));
    }
    assert_int_equal(watch_open("/nonexistent", &w), STATUS_DATA);
}

int main(void)
{
#define WITH_RUN(test) cmocka_unit_test_setup_teardown(test, set_up, scratch_tear_down)
    const struct CMUnitTest tests[] = {
        WITH_RUN(test_run),
        WITH_RUN(test_mean),
        WITH_RUN(test_warmup),
        WITH_RUN(test_time_left),
        WITH_RUN(test_steps_and_sensors),
        WITH_RUN(test_hostile),
        WITH_RUN(test_window),
        WITH_RUN(test_whole_numbers),
        WITH_RUN(test_study),
        WITH_RUN(test_wrong_plans),
        RUN_RIG_TEST(test_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
