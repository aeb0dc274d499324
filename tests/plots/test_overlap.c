/* Tests the figure of overlap, and damaged records. */
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

#define HEAD "{\"schema\":1,\"bench\":\"overlap\",\"ranks\":[{},{}],\"gradient_bytes\":4194304,"
#define CONFIG                                                                                     \
    "\"config\":{\"net\":\"resnet<8>'s\",\"precision\":\"amp\",\"image_size\":32,\"batch_size\":"  \
    "4,"                                                                                           \
    "\"grad_compress\":\"bf16\"},"
#define TIME(s)            "{\"median\":" s ",\"p5\":" s ",\"p95\":" s "}"
#define ALONE              "\"alone\":{\"backward_s\":" TIME("0.25") "},"
#define SHARE(name, share) "\"" name "\":{\"median\":" share "}"
#define SIZE(mb, lowest, time, hidden)                                                             \
    "{\"bucket_mb\":" mb ",\"lowest\":" lowest                                                     \
    ",\"gradients_s\":" TIME(time) ",\"backward_s\":" TIME("0.375") "," SHARE(                     \
        "hidden", hidden) "," SHARE("hidden_even", "1") "}"
#define SIZES(list) "\"sizes\":[" list "]"
#define ONE         SIZE("0", "false", "1", "0")
#define SMALL       SIZE("0.25", "true", "0.5", "0.75")
#define LARGE       SIZE("8", "false", "0.75", "0.5")
#define GOOD        HEAD CONFIG ALONE SIZES(ONE "," LARGE "," SMALL) "}"

static enum status draw(const char *dir, const char *record)
{
    struct plot_options o = {.png = true, .svg = true};
    char path[SCRATCH_MAX + 64];
    scratch_write(dir, "overlap.json", record, strlen(record));
    snprintf(path, sizeof path, "%s/overlap.json", dir);
    return plot_record(path, dir, &o);
}

static void test_figure(void **state)
{
    const char *dir = *state;
    skip_without_gnuplot();
    if (draw(dir, GOOD) != STATUS_OK)
        fail_msg("%s", status_message());
    expect_png(dir, "overlap.png");
    expect_text(dir, "overlap.svg", "resnet&lt;8>'s, amp, 32 px, batch 4, 2 ranks, sent as bf16");
    expect_text(dir, "overlap.svg", ">0.25<");
    expect_text(dir, "overlap.svg", ">all in one<");
    expect_text(dir, "overlap.svg", ">lowest<");
    expect_text(dir, "overlap.svg", ">backward pass on its own, without communication<");
    expect_text(dir, "overlap.svg", ">hidden if all ranks were equally fast<");
}

/* Bucket sizes ascend, times are in ms, shares are in percent. The last row is a single bucket of
 * all gradients, drawn at three times the largest size. */
static void test_table(void **state)
{
    size_t size;
    skip_without_gnuplot();
    assert_int_equal(draw(*state, GOOD), STATUS_OK);
    char *table = scratch_read(*state, "data/overlap-01.dat", &size);
    assert_string_equal(table, "0.25 500 500 500 375 75 100 1\n8 750 750 750 375 50 100 0\n\n"
                               "24 1000 1000 1000 375 0 100 0\n");
    free(table);
}

static void test_single_sizes(void **state)
{
    skip_without_gnuplot();
    assert_int_equal(draw(*state, HEAD CONFIG ALONE SIZES(ONE) "}"), STATUS_OK);
    assert_int_equal(draw(*state, HEAD CONFIG ALONE SIZES(SMALL) "}"), STATUS_OK);
}

static void test_hostile_records(void **state)
{
    static const char *const bad[] = {
        "",
        "[",
        "[]",
        "{}",
        "{\"schema\":2,\"bench\":\"overlap\"}",
        "{\"schema\":1,\"bench\":\"step\"}",
        HEAD ALONE SIZES(SMALL) "}",
        HEAD "\"config\":{\"net\":1}," ALONE SIZES(SMALL) "}",
        HEAD CONFIG SIZES(SMALL) "}",
        HEAD CONFIG ALONE "\"sizes\":{}}",
        HEAD CONFIG ALONE SIZES("") "}",
        HEAD CONFIG ALONE SIZES("1") "}",
        HEAD CONFIG ALONE SIZES(SIZE("-1", "true", "0.5", "0.5")) "}",
        HEAD CONFIG ALONE SIZES(SIZE("1e300", "true", "0.5", "0.5")) "}",
        HEAD CONFIG ALONE SIZES(SIZE("\"1\"", "true", "0.5", "0.5")) "}",
        HEAD CONFIG ALONE SIZES(SIZE("1", "1", "0.5", "0.5")) "}",
        HEAD CONFIG ALONE SIZES(SIZE("1", "true", "-0.5", "0.5")) "}",
        HEAD CONFIG ALONE SIZES(SIZE("1", "true", "1e7", "0.5")) "}",
        HEAD CONFIG ALONE SIZES(SIZE("1", "true", "0.5", "1.5")) "}",
        HEAD CONFIG ALONE SIZES(SIZE("1", "true", "0.5", "null")) "}",
        "{\"schema\":1,\"bench\":\"overlap\",\"gradient_bytes\":-1," CONFIG ALONE SIZES(SMALL) "}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (draw(*state, bad[i]) != STATUS_DATA)
            fail_msg("taken: %s", bad[i]);
        assert_null(strchr(status_message(), '\n'));
    }
}

static void test_too_many_sizes(void **state)
{
    char record[65536];
    int len = snprintf(record, sizeof record, "%s", HEAD CONFIG ALONE "\"sizes\":[" SMALL);
    for (int i = 0; i < 32; i++)
        len += snprintf(record + len, sizeof record - (size_t)len, ",%s", LARGE);
    snprintf(record + len, sizeof record - (size_t)len, "]}");
    assert_int_equal(draw(*state, record), STATUS_DATA);
}

#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, scratch_set_up, scratch_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_figure),         WITH_FOLDER(test_table),
        WITH_FOLDER(test_single_sizes),   WITH_FOLDER(test_hostile_records),
        WITH_FOLDER(test_too_many_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
