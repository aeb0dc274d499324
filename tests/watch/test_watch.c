/* Checks the output of watch for runs and studies with known content. */
#include "watch/watch.h"

#include "../export/made_run.h"
#include "rank_run.h"
#include "watch/draw.h"

#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include <cmocka.h>

/* Makes the folder <dir>/<name> with a run in it. */
static void make_run(const char *dir, const char *name)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(mkdir(path, 0777), 0);
    if (made_run_write(path) != STATUS_OK)
        fail_msg("%s", status_message());
}

static void remove_file(const char *dir, const char *file)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", dir, file);
    assert_int_equal(remove(path), 0);
}

/* Returns the current output; the caller frees it. */
static char *shown(struct watch *w, int width, int height, bool ascii)
{
    char *text;
    size_t size;
    struct watch_options o = {.width = width, .height = height, .ascii = ascii};
    FILE *out = open_memstream(&text, &size);
    enum status st = watch_view(w, &o, out);
    if (st != STATUS_OK)
        fail_msg("%s", status_message());
    fclose(out);
    return text;
}

/* Opens <dir>/<name>, and returns its first output. */
static char *first_sight(const char *dir, const char *name)
{
    char path[512];
    struct watch *w;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    if (watch_open(path, &w) != STATUS_OK)
        fail_msg("%s", status_message());
    char *text = shown(w, 80, 0, true);
    watch_close(w);
    return text;
}

static void expect_in(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("no '%s' in:\n%s", part, text);
}

static void test_run(void **state)
{
    char *text;
    make_run(*state, "first");
    text = first_sight(*state, "first");
    assert_string_equal(text,
                        "first: resnet18, amp, nd, batch 32\n"
                        "a \"quick\" \\ device\n"
                        "epoch     2/2 [========================] 100 %\n"
                        "images/s  64.0, median 64.0  ====\n"
                        "step      500.0 ms  "
                        "ddddddddfffffffffffffffbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbooo....\n"
                        "          data 12%  forward 25%  backward 50%  optimizer 6%  other 6%\n"
                        "train     loss 1.0000, top-1 25.00 %, top-5 50.00 %, lr 0.0001\n"
                        "val       loss 2.0000, top-1 78.00 %, top-5 90.00 % after epoch 2, best "
                        "78.00 %\n"
                        "scale     32768, 1 step skipped\n"
                        "ended: epochs, after 4 steps in 0:05\n");
    free(text);
}

/* The run is in its second epoch, after the first of two steps. A step takes half a second, and the
 * validation after an epoch takes one second. */
static void test_time_left(void **state)
{
    char path[512], *text, *end;
    size_t size;
    make_run(*state, "first");
    snprintf(path, sizeof path, "%s/first", (char *)*state);
    remove_file(path, "summary.json");
    text = scratch_read(path, "steps.jsonl", &size);
    end = strrchr(text, '{'); /* leaves half of the last line */
    scratch_write(path, "steps.jsonl", text, (size_t)(end - text) + 20);
    free(text);
    text = scratch_read(path, "epochs.jsonl", &size);
    scratch_write(path, "epochs.jsonl", text, (size_t)(strchr(text, '\n') + 1 - text));
    free(text);
    text = first_sight(*state, "first");
    expect_in(text, "epoch     2/2 [===========>            ]  50 %, 0:01 left, run 0:02 left\n");
    expect_in(text, "train     loss nan");
    expect_in(text, "\nrunning for 0:03\n");
    free(text);
}

static void set_age(const char *dir, const char *file, time_t when)
{
    char path[1024];
    const struct timespec times[2] = {{.tv_sec = when}, {.tv_sec = when}};
    snprintf(path, sizeof path, "%s/%s", dir, file);
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void test_quiet(void **state)
{
    char path[512];
    make_run(*state, "first");
    snprintf(path, sizeof path, "%s/first", (char *)*state);
    remove_file(path, "summary.json");
    static const char *const files[] = {"run.json", "steps.jsonl", "epochs.jsonl"};
    for (size_t i = 0; i < 3; i++)
        set_age(path, files[i], time(NULL) - 7200);
    char *text = first_sight(*state, "first");
    expect_in(text, "no new record for 2:00:0");
    free(text);
}

/* For a run with a limited number of steps, the view shows the progress in steps, not in epochs. It
 * also shows the sensors of two devices. */
static void test_steps_and_sensors(void **state)
{
    static const char info[] =
        "{\"schema\":1,\"config\":{\"epochs\":9,\"epoch_steps\":100,\"steps\":8}}";
    static const char telemetry[] =
        "{\"sample\":0,\"device\":0,\"power_w\":1,\"elapsed\":1}\n"
        "{\"sample\":1,\"device\":0,\"clock_mhz\":1410,\"power_w\":350.4,\"temperature_c\":67,"
        "\"busy\":98,\"elapsed\":2}\n"
        "{\"sample\":1,\"device\":1,\"temperature_c\":90,\"throttle\":4294967295,\"elapsed\":2}\n";
    char path[512], *text;
    make_run(*state, "first");
    snprintf(path, sizeof path, "%s/first", (char *)*state);
    remove_file(path, "summary.json");
    remove_file(path, "epochs.jsonl");
    scratch_write(path, "run.json", info, strlen(info));
    scratch_write(path, "telemetry.jsonl", telemetry, strlen(telemetry));
    text = first_sight(*state, "first");
    expect_in(text, "step      4/8 [===========>            ]  50 %, run 0:02 left\n");
    expect_in(text, "\nsensors   device 0, 1410 MHz, 350 W, 67 C, busy 98 %\n"
                    "          device 1, 90 C, slowed by ");
    free(text);
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
    char path[512], *text;
    make_run(*state, "first");
    snprintf(path, sizeof path, "%s/first", (char *)*state);
    for (size_t i = 0; i < 2; i++) {
        scratch_write(path, "run.json", infos[i], strlen(infos[i]));
        text = first_sight(*state, "first");
        assert_null(strchr(text, '\033'));
        free(text);
    }
    static const char *const files[] = {"summary.json", "epochs.jsonl", "steps.jsonl"};
    for (size_t i = 0; i < 3; i++) {
        remove_file(path, files[i]);
        text = first_sight(*state, "first");
        expect_in(text, i == 2 ? "no step yet\nrunning for 0:00\n" : "first: ");
        free(text);
    }
}

/* The output fits into a window: no line is too long, and there are not too many lines. */
static void test_window(void **state)
{
    char path[512], *text;
    struct watch *w;
    make_run(*state, "a r\xc3\xbcn with a name that is long and longer");
    snprintf(path, sizeof path, "%s/a r\xc3\xbcn with a name that is long and longer",
             (char *)*state);
    assert_int_equal(watch_open(path, &w), STATUS_OK);
    text = shown(w, 40, 4, false);
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

static void test_ranks(void **state)
{
    struct rank_run *f = *state;
    struct record *r = rank_run_open(f, 3, "node", 0);
    for (int64_t i = 0; i < 3; i++) {
        struct rank_record row = rank_run_row(0, i);
        row.data_s += i == 1 ? 1 : 0;
        assert_int_equal(record_rank(r, &row), STATUS_OK);
    }
    struct epoch_record epoch = {.epoch = 0, .steps = 10};
    assert_int_equal(record_epoch(r, &epoch), STATUS_OK);
    assert_int_equal(record_close(r), STATUS_OK);
    char *text = first_sight(f->dir, ".");
    expect_in(text, "ranks     straggler: rank 1, +26.7 %, mostly data\n");
    const char *first = strstr(text, "             1    475.0");
    const char *second = strstr(text, "             0    375.0");
    assert_true(first && second && first < second);
    expect_in(text, "node0\n");
    free(text);
}

static void test_study(void **state)
{
    char cells[512], path[1024], *text;
    static const char plan[] =
        "{\"schema\":1,\"runs\":[{\"cell\":\"nd-fp32\",\"repeat\":1},{\"cell\":\"nd-fp32\","
        "\"repeat\":2},{\"cell\":\"nd-amp\",\"repeat\":1},{\"cell\":\"nd-amp\",\"repeat\":2}]}";
    scratch_write(*state, "plan.json", plan, strlen(plan));
    snprintf(cells, sizeof cells, "%s/cells", (char *)*state);
    assert_int_equal(mkdir(cells, 0777), 0);
    static const char *const names[] = {"nd-fp32", "nd-amp"};
    for (size_t i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", cells, names[i]);
        assert_int_equal(mkdir(path, 0777), 0);
    }
    make_run(cells, "nd-fp32/r1");
    make_run(cells, "nd-fp32/r2");
    remove_file(cells, "nd-fp32/r2/summary.json");
    scratch_write(cells, "nd-amp/r1.failed", "{\"reason\":\"no\\nmemory\"}", 23);

    struct watch *w;
    bool over;
    assert_int_equal(watch_open(*state, &w), STATUS_OK);
    text = shown(w, 80, 0, true);
    expect_in(text, "] 4 runs, ");
    expect_in(text, " 1 done, 1 running, 1 failed, 1 to come\n");
    expect_in(text, "failed    nd-amp/r1: no?memory\n");
    expect_in(text, "now       nd-fp32/r2\n\nr2: resnet18, amp, nd, batch 32\n");
    free(text);

    /* The current run ends, and the last one begins. */
    scratch_write(cells, "nd-fp32/r2/summary.json", "{\"schema\":1}", 12);
    assert_int_equal(watch_poll(w, &over), STATUS_OK);
    assert_false(over);
    make_run(cells, "nd-amp/r2");
    remove_file(cells, "nd-amp/r2/summary.json");
    static const char info[] = "{\"schema\":1,\"config\":{\"arch\":\"vgg11\"}}";
    scratch_write(cells, "nd-amp/r2/run.json", info, strlen(info));
    assert_int_equal(watch_poll(w, &over), STATUS_OK);
    text = shown(w, 80, 0, true);
    expect_in(text, " 2 done, 1 running, 1 failed, 0 to come\n");
    expect_in(text, "now       nd-amp/r2\n\nr2: vgg11, ");
    free(text);
    scratch_write(cells, "nd-amp/r2/summary.json", "{\"schema\":1}", 12);
    assert_int_equal(watch_poll(w, &over), STATUS_OK);
    assert_true(over);
    watch_close(w);
}

static void test_wrong_plans(void **state)
{
    static const char *const plans[] = {
        "",
        "[]",
        "{\"runs\":[{\"cell\":\"a/../../x\",\"repeat\":1}]}",
        "{\"runs\":{}}",
        "{\"runs\":[{\"cell\":\"../x\",\"repeat\":1}]}",
        "{\"runs\":[{\"cell\":\"a\",\"repeat\":1},{\"cell\":\"..\",\"repeat\":1}]}",
        "{\"runs\":[{\"cell\":\"a\",\"repeat\":\"1\"}]}"};
    struct watch *w;
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        scratch_write(*state, "plan.json", plans[i], strlen(plans[i]));
        assert_int_equal(watch_open(*state, &w), STATUS_DATA);
        assert_non_null(strstr(status_message(), "plan.json'"));
    }
    assert_int_equal(watch_open("/nonexistent", &w), STATUS_DATA);
}

static void test_drawing(void **state)
{
    (void)state;
    char text[DRAW_MAX];
    const double x[] = {0, 7, NAN, 14, 1, 13};
    draw_spark(text, x, 4, 10, true);
    assert_string_equal(text, "_= #");
    draw_spark(text, x, 4, 10, false);
    assert_string_equal(text, "▁▅ █");
    draw_spark(text, x, 6, 3, true); /* means 3.5, 14, 7 */
    assert_string_equal(text, "_#:");
    draw_spark(text, x, 0, 10, true);
    assert_string_equal(text, "");
    draw_bar(text, -1, 4);
    assert_string_equal(text, "[    ]");
    draw_bar(text, 0.5, 4);
    assert_string_equal(text, "[=>  ]");
    draw_bar(text, INFINITY, 4);
    assert_string_equal(text, "[====]");
    draw_time(text, 3671.4);
    assert_string_equal(text, "1:01:11");
    draw_time(text, NAN);
    assert_string_equal(text, "-");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_drawing),
        cmocka_unit_test_setup_teardown(test_run, scratch_set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(test_time_left, scratch_set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(test_steps_and_sensors, scratch_set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(test_quiet, scratch_set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(test_hostile, scratch_set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(test_window, scratch_set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(test_ranks, rank_run_begin, rank_run_end),
        cmocka_unit_test_setup_teardown(test_study, scratch_set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(test_wrong_plans, scratch_set_up, scratch_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
