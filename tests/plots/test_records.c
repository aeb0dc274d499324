/* Tests the figures of single records: of an AMP report, of overlap and of a prediction. Damaged
 * records are refused. */
#include "rig.h"
#include "tests/unit.h"

#include <string.h>

#define AMP    "{\"schema\":1,\"report\":\"amp\",\"arch\":\"resnet<8>'s\",\"loss_scale\":1024,"
#define NO_AMP "{\"schema\":1,\"report\":\"amp\","
#define COUNTS                                                                                     \
    "\"total\":{\"all\":{\"nonzero\":200,\"at_one\":{\"underflow\":50},\"at_scale\":"              \
    "{\"underflow\":1}}},"
#define ROWS "\"histogram\":[[-30,50,0],[-29,0,0],[-28,25,10],[-27,25,90]]}"

#define OVERLAP "{\"schema\":1,\"bench\":\"overlap\",\"ranks\":[{},{}],\"gradient_bytes\":4194304,"
#define CONFIG                                                                                     \
    "\"config\":{\"net\":\"resnet<8>'s\",\"precision\":\"amp\",\"image_size\":32,"                 \
    "\"batch_size\":4,\"grad_compress\":\"bf16\"},"
#define TIME(s)            "{\"median\":" s ",\"p5\":" s ",\"p95\":" s "}"
#define ALONE              "\"alone\":{\"backward_s\":" TIME("0.25") "},"
#define SHARE(name, share) "\"" name "\":{\"median\":" share "}"
#define SIZE(mb, lowest, time, hidden)                                                             \
    "{\"bucket_mb\":" mb ",\"lowest\":" lowest                                                     \
    ",\"gradients_s\":" TIME(time) ",\"backward_s\":" TIME("0.375") "," SHARE(                     \
        "hidden", hidden) "," SHARE("hidden_even", "1") "}"
#define SIZES(list) "\"sizes\":[" list "]}"
#define ONE         SIZE("0", "false", "1", "0")
#define SMALL       SIZE("0.25", "true", "0.5", "0.75")
#define LARGE       SIZE("8", "false", "0.75", "0.5")

#define FORECAST_OF(ranks, rate, interval)                                                         \
    "{\"ranks\":" ranks ",\"images_per_s\":" rate "," interval                                     \
    "\"efficiency\":90,\"step_s\":0.5,\"step_p5_s\":0.4,\"step_p95_s\":0.6,\"compute_s\":0.25,"    \
    "\"straggler_s\":0.125,\"exposed_s\":0.125,\"input_s\":0}"
#define FORECAST(ranks, rate) FORECAST_OF(ranks, rate, "\"low\":90,\"high\":360,")
#define OLD_FORECAST          FORECAST_OF("2", "100", "")
#define MEASURED(ranks, rate, held)                                                                \
    "{\"ranks\":" ranks ",\"images_per_s\":" rate ",\"efficiency\":100,\"held_out\":" held "}"
#define PREDICT(forecasts, points)                                                                 \
    "{\"schema\":1,\"record\":\"predict\",\"label\":\"a<b\",\"forecast\":[" forecasts              \
    "],\"measured\":[" points "]}"
/* The step of the first point is predicted, and two parameters are assumed. */
#define PREDICT_OF_STEP                                                                            \
    "{\"schema\":1,\"record\":\"predict\",\"label\":\"a\",\"system\":{\"assumed\":\"latency <, "   \
    "sigma\"},"                                                                                    \
    "\"forecast\":[" OLD_FORECAST                                                                  \
    "],\"measured\":[{\"ranks\":1,\"images_per_s\":50,\"efficiency\":100,\"held_out\":false,"      \
    "\"predicted\":true}]}"
#define POINT MEASURED("1", "50", "false")

static enum status draw_record(const char *dir, const char *record)
{
    struct plot_options o = {.png = true, .svg = true};
    scratch_write_text(dir, "record.json", record);
    return plot_record(scratch_path(dir, "record.json"), dir, &o);
}

static void write_tables_of(const char *dir, const char *record)
{
    hide_gnuplot("");
    assert_int_equal(draw_record(dir, record), STATUS_UNSUPPORTED);
    show_gnuplot();
}

/* Each table has the values of one curve. The tables of an AMP report have percentages of this
 * curve's gradients, and begin and end with 0. Bucket sizes ascend, times are in ms, shares are in
 * percent; the last row is a single bucket of all gradients, drawn at three times the largest size.
 * A forecast has the four parts of a step. */
static void test_tables(void **state)
{
    static const struct {
        const char *record, *table, *text;
    } rows[] = {
        {AMP COUNTS ROWS, "amp-01", "-31 0\n-30 50\n-29 0\n-28 25\n-27 25\n-26 0\n"},
        {AMP COUNTS ROWS, "amp-02", "-31 0\n-30 0\n-29 0\n-28 10\n-27 90\n-26 0\n"},
        {OVERLAP CONFIG ALONE SIZES(ONE "," LARGE "," SMALL), "overlap-01",
         "0.25 500 500 500 375 75 100 1\n8 750 750 750 375 50 100 0\n\n"
         "24 1000 1000 1000 375 0 100 0\n"},
        {OVERLAP CONFIG ALONE SIZES(ONE), "overlap-01", " 1000 1000 1000 375 0 100 0\n"},
        {OVERLAP CONFIG ALONE SIZES(SMALL), "overlap-01", "0.25 500 500 500 375 75 100 1\n"},
        {PREDICT(FORECAST("2", "100") "," FORECAST("4", "180"), POINT), "forecast-01",
         "\n4 180 90 90 360 50 75 100 100\n"},
        {PREDICT(OLD_FORECAST, POINT), "forecast-01", "2 100 90 100 100 50 75 100 100\n"},
        {PREDICT(FORECAST("2", "100"), POINT "," MEASURED("4", "170", "true")), "forecast-02",
         "1 50 100\n"},
        {PREDICT(FORECAST("2", "100"), POINT "," MEASURED("4", "170", "true")), "forecast-03",
         "4 170 100\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char file[64];
        write_tables_of(*state, rows[i].record);
        snprintf(file, sizeof file, "data/%s.dat", rows[i].table);
        expect_text(*state, file, rows[i].text);
    }
}

static void test_figures(void **state)
{
    static const struct {
        const char *figure, *record, *says[5];
    } rows[] = {
        {"amp",
         AMP COUNTS ROWS,
         {"resnet&lt;8>'s", "underflow: 25.0 % at scale 1, 0.500 % at 1024",
          "fp16 at loss scale 1024", "gradients of weights", ">2^-24<"}},
        {"overlap",
         OVERLAP CONFIG ALONE SIZES(ONE "," LARGE "," SMALL),
         {"resnet&lt;8>'s, amp, 32 px, batch 4, 2 ranks, sent as bf16", ">0.25<", ">all in one<",
          ">backward pass on its own, without communication<", ">lowest<"}},
        {"forecast",
         PREDICT(FORECAST("2", "100") "," FORECAST("4", "180"), POINT),
         {">a&lt;b<", ">Efficiency (%)<", ">beyond what was measured<", ">95 % interval<",
          ">measured<"}},
    };
    skip_without_gnuplot();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char svg[64];
        if (draw_record(*state, rows[i].record) != STATUS_OK)
            fail_msg("%s", status_message());
        expect_figure(*state, rows[i].figure, true);
        snprintf(svg, sizeof svg, "%s.svg", rows[i].figure);
        for (int k = 0; k < 5; k++)
            expect_text(*state, svg, rows[i].says[k]);
    }
    expect_no_text(*state, "forecast.svg", ">measured, held out<");
    expect_no_text(*state, "forecast.svg", ">waiting for storage<");
}

/* All throughputs are of one decade: the axis has several numbers nevertheless. A record without
 * intervals has no band. */
static void test_forecast(void **state)
{
    skip_without_gnuplot();
    assert_int_equal(draw_record(*state, PREDICT_OF_STEP), STATUS_OK);
    expect_text(*state, "forecast.svg", ">assumed, not measured: latency &lt;, sigma<");
    expect_text(*state, "forecast.svg", ">predicted step<");
    expect_no_text(*state, "forecast.svg", ">measured<");
    expect_no_text(*state, "forecast.svg", ">95 % interval<");
    assert_int_equal(draw_record(*state, PREDICT(FORECAST("2", "100"), POINT)), STATUS_OK);
    expect_text(*state, "forecast.svg", ">200<");
    expect_text(*state, "forecast.svg", ">500<");
    expect_no_text(*state, "forecast.svg", ">assumed");
}

static void test_damaged(void **state)
{
    static const char *const bad[] = {
        "",
        "[]",
        "{\"schema\":2,\"report\":\"amp\"}",
        NO_AMP COUNTS ROWS,
        NO_AMP "\"loss_scale\":\"1\"," COUNTS ROWS,
        AMP ROWS,
        AMP "\"total\":{\"all\":{\"nonzero\":-1}}," ROWS,
        AMP COUNTS "\"histogram\":[]}",
        AMP COUNTS "\"histogram\":[[-30,1,-1]]}",
        AMP COUNTS "\"histogram\":[[-30,1,1],[-28,1,1]]}",
        AMP COUNTS "\"histogram\":[[-2000000000,1,1]]}",
        "{\"schema\":2,\"bench\":\"overlap\"}",
        OVERLAP ALONE SIZES(SMALL),
        OVERLAP "\"config\":{\"net\":1}," ALONE SIZES(SMALL),
        OVERLAP CONFIG SIZES(SMALL),
        OVERLAP CONFIG ALONE SIZES(""),
        OVERLAP CONFIG ALONE SIZES(SIZE("-1", "true", "0.5", "0.5")),
        OVERLAP CONFIG ALONE SIZES(SIZE("1e300", "true", "0.5", "0.5")),
        OVERLAP CONFIG ALONE SIZES(SIZE("1", "true", "1e7", "0.5")),
        OVERLAP CONFIG ALONE SIZES(SIZE("1", "true", "0.5", "1.5")),
        "{\"schema\":1,\"bench\":\"overlap\",\"gradient_bytes\":-1," CONFIG ALONE SIZES(SMALL),
        "{\"schema\":1,\"record\":\"predict\"}",
        PREDICT("", POINT),
        PREDICT(FORECAST("2", "100"), ""),
        PREDICT(FORECAST("0", "100"), POINT),
        PREDICT(FORECAST("2", "1e300"), POINT),
        PREDICT(FORECAST_OF("2", "100", "\"low\":0,\"high\":200,"), POINT),
        PREDICT(FORECAST_OF("2", "100", "\"low\":90,"), POINT),
        PREDICT(FORECAST("2", "100"), MEASURED("1", "null", "false")),
    };
    scratch_write(*state, "amp.png", "old", 3);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (draw_record(*state, bad[i]) != STATUS_DATA)
            fail_msg("taken: %s", bad[i]);
        assert_null(strchr(status_message(), '\n'));
    }
    assert_false(file_exists(*state, "amp.png")); /* the picture of an earlier record */
    assert_int_equal(plot_record("/nonexistent.json", *state, &(struct plot_options){.png = true}),
                     STATUS_DATA);
}

static void test_too_much(void **state)
{
    char record[65536];
    int len = snprintf(record, sizeof record, "%s", AMP COUNTS "\"histogram\":[[-512,1,1]");
    for (int e = -511; e < 400; e++)
        len += snprintf(record + len, sizeof record - (size_t)len, ",[%d,1,1]", e);
    snprintf(record + len, sizeof record - (size_t)len, "]}");
    assert_int_equal(draw_record(*state, record), STATUS_DATA);
    len = snprintf(record, sizeof record, "%s", OVERLAP CONFIG ALONE "\"sizes\":[" SMALL);
    for (int i = 0; i < 32; i++)
        len += snprintf(record + len, sizeof record - (size_t)len, ",%s", LARGE);
    snprintf(record + len, sizeof record - (size_t)len, "]}");
    assert_int_equal(draw_record(*state, record), STATUS_DATA);
}

int main(void)
{
    const struct CMUnitTest tests[] = {IN_FOLDER(test_tables), IN_FOLDER(test_figures),
                                       IN_FOLDER(test_forecast), IN_FOLDER(test_damaged),
                                       IN_FOLDER(test_too_much)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
