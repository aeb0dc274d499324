/* Tests the figure of an AMP report, and damaged records. */
#include "base/file.h"
#include "pictures.h"
#include "plots/plot.h"
#include "scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TOTAL                                                                                      \
    "\"total\":{\"all\":{\"nonzero\":200,\"at_one\":{\"underflow\":50},\"at_scale\":"              \
    "{\"underflow\":1}}}"
#define HEAD     "{\"schema\":1,\"report\":\"amp\",\"arch\":\"resnet<8>'s\",\"loss_scale\":1024,"
#define ROWS     "\"histogram\":[[-30,50,0],[-29,0,0],[-28,25,10],[-27,25,90]]"
#define GOOD     HEAD TOTAL "," ROWS "}"
#define NOWHERE  HEAD TOTAL ",\"histogram\":[]}"
#define UNSCALED "{\"schema\":1,\"report\":\"amp\",\"loss_scale\":1," TOTAL "," ROWS "}"

static enum status draw_there(const char *dir)
{
    struct plot_options o = {.png = true, .svg = true};
    char path[SCRATCH_MAX + 64];
    snprintf(path, sizeof path, "%s/amp-report.json", dir);
    return plot_record(path, dir, &o);
}

static enum status draw(const char *dir, const char *record)
{
    scratch_write(dir, "amp-report.json", record, strlen(record));
    return draw_there(dir);
}

static bool exists(const char *dir, const char *file)
{
    char path[SCRATCH_MAX + 64];
    snprintf(path, sizeof path, "%s/%s", dir, file);
    return path_exists(path);
}

static void check_says(const char *dir, const char *text, bool wanted)
{
    size_t size;
    char *svg = scratch_read(dir, "amp.svg", &size);
    if ((strstr(svg, text) != NULL) != wanted)
        fail_msg("the picture says '%s' %s", text, wanted ? "nowhere" : "somewhere");
    free(svg);
}

static void test_figure(void **state)
{
    const char *dir = *state;
    skip_without_gnuplot();
    if (draw(dir, GOOD) != STATUS_OK)
        fail_msg("%s", status_message());
    expect_png(dir, "amp.png");
    check_says(dir, "resnet&lt;8>'s", true);
    check_says(dir, "underflow: 25.0 % at scale 1, 0.500 % at 1024", true);
    check_says(dir, "fp16 at loss scale 1024", true);
    check_says(dir, "gradients of weights", true);
    check_says(dir, ">2^-24<", true);

    if (draw(dir, UNSCALED) != STATUS_OK)
        fail_msg("%s", status_message());
    check_says(dir, "fp16 at loss scale 1<", true);
    check_says(dir, "1024", false);
}

/* The table of a curve has percentages of this curve's gradients. It begins and ends with 0. */
static void test_table(void **state)
{
    const char *dir = *state;
    size_t size;
    skip_without_gnuplot();
    assert_int_equal(draw(dir, GOOD), STATUS_OK);
    char *activations = scratch_read(dir, "data/amp-01.dat", &size);
    char *weights = scratch_read(dir, "data/amp-02.dat", &size);
    assert_string_equal(activations, "-31 0\n-30 50\n-29 0\n-28 25\n-27 25\n-26 0\n");
    assert_string_equal(weights, "-31 0\n-30 0\n-29 0\n-28 10\n-27 90\n-26 0\n");
    free(activations);
    free(weights);
}

static void test_hostile_records(void **state)
{
    const char *dir = *state;
    static const char *const bad[] = {
        "",
        "[",
        "[]",
        "{}",
        "{\"schema\":2,\"report\":\"amp\"}",
        "{\"schema\":1,\"report\":\"run\"}",
        "{\"schema\":1,\"report\":\"amp\"," TOTAL "," ROWS "}",
        "{\"schema\":1,\"report\":\"amp\",\"loss_scale\":0," TOTAL "," ROWS "}",
        "{\"schema\":1,\"report\":\"amp\",\"loss_scale\":\"1\"," TOTAL "," ROWS "}",
        HEAD ROWS "}",
        HEAD "\"total\":{\"all\":{\"nonzero\":-1}}," ROWS "}",
        HEAD TOTAL "}",
        HEAD TOTAL ",\"histogram\":{}}",
        HEAD TOTAL ",\"histogram\":[1]}",
        HEAD TOTAL ",\"histogram\":[[-30,1]]}",
        HEAD TOTAL ",\"histogram\":[[-30,1,-1]]}",
        HEAD TOTAL ",\"histogram\":[[-30,1.5,1]]}",
        HEAD TOTAL ",\"histogram\":[[-30,1,1],[-28,1,1]]}",
        HEAD TOTAL ",\"histogram\":[[-2000000000,1,1]]}",
        NOWHERE,
    };
    scratch_write(dir, "amp.png", "old", 3);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (draw(dir, bad[i]) != STATUS_DATA)
            fail_msg("taken: %s", bad[i]);
        assert_null(strchr(status_message(), '\n'));
    }
    assert_false(exists(dir, "amp.png")); /* the picture of an earlier record has been removed */
    assert_false(exists(dir, "amp.svg"));
}

static void test_too_many_rows(void **state)
{
    char record[65536];
    int len = snprintf(record, sizeof record, "%s", HEAD TOTAL ",\"histogram\":[[-512,1,1]");
    for (int e = -511; e < 400; e++)
        len += snprintf(record + len, sizeof record - (size_t)len, ",[%d,1,1]", e);
    snprintf(record + len, sizeof record - (size_t)len, "]}");
    assert_int_equal(draw(*state, record), STATUS_DATA);
}

static void test_no_record(void **state)
{
    assert_int_equal(draw_there(*state), STATUS_DATA);
    assert_non_null(strstr(status_message(), "amp-report.json"));
}

#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, scratch_set_up, scratch_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_figure),          WITH_FOLDER(test_table),
        WITH_FOLDER(test_hostile_records), WITH_FOLDER(test_too_many_rows),
        WITH_FOLDER(test_no_record),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
