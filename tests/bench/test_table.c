/* Tests a table in each of its formats. All formats have the same cells, including cells without a
 * value. */
#include "bench/table.h"
#include "tests/unit.h"

#include <math.h>
#include <stdlib.h>

struct item {
    const char *name;
    int64_t n;
    double bytes, rate; /* NAN: unknown */
    bool measured;
};

/* Names from a file or a tool may contain a comma, a quote, a formula, an escape sequence, or a
 * character that reorders a line. */
enum { ITEMS = 4 };
static const struct item items[ITEMS] = {{"copy", 3, 1048576, 2.5, true},
                                         {"", -12345, 524288, NAN, true},
                                         {"a,\"b\"", 1, 0, 1, false},
                                         {"=1+1\033[31m,\xe2\x80\xae", -1, 0, -2, true}};

static void item_columns(struct bench_table *t, const void *row)
{
    const struct item *i = row;
    column_text(t, "name", "kernel", -6, i->name);
    column_int(t, "n", "n", 3, i->n);
    column_json(t, "twice", json_integer(2 * i->n));
    column_group_begin(t, "speed");
    t->absent = !i->measured;
    column_real(t, "bytes", "MiB", 5, 2, 0x1p-20, i->bytes);
    column_real(t, "rate", NULL, 0, 0, 1, i->rate);
    column_group_end(t);
    column_bool(t, "ok", true);
    t->absent = false;
    column_text(t, NULL, "note", 0, i->measured ? "" : "left out");
}

static const struct {
    enum bench_format format;
    const char *want;
} printed[] = {
    {BENCH_TEXT, "kernel   n   MiB  note\n"
                 "copy     3  1.00  -\n"
                 "-      -12345  0.50  -\n"
                 "a,\"b\"    1   n/a  left out\n"
                 "=1+1?[31m,???  -1  0.00  -\n"},
    {BENCH_CSV, "name,n,bytes,rate,ok\n"
                "copy,3,1048576,2.5,1\n"
                ",-12345,524288,,1\n"
                "\"a,\"\"b\"\"\",1,,,\n"
                "\"'=1+1?[31m,???\",-1,0,-2,1\n"},
};

static void test_printed(void **state)
{
    for (size_t i = 0; i < sizeof printed / sizeof *printed; i++) {
        char *text;
        size_t size;
        FILE *out = open_memstream(&text, &size);
        struct bench_table t = {.format = printed[i].format, .out = out, .columns = item_columns};
        bench_table_rows(&t, items, ITEMS, sizeof *items);
        fclose(out);
        assert_string_equal(text, printed[i].want);
        free(text);
    }
}

static void test_json(void **state)
{
    struct bench_table t = {.format = BENCH_JSON, .columns = item_columns};
    json_t *rows;
    bench_table_rows(&t, items, 3, sizeof *items);
    rows = bench_table_take(&t);
    json_t *want = json_pack(
        "[{s:s, s:i, s:i, s:{s:f, s:f}, s:b}, {s:s, s:i, s:i, s:{s:f, s:n}, s:b}, {s:s, s:i, s:i, "
        "s:{}}]",
        "name", "copy", "n", 3, "twice", 6, "speed", "bytes", 1048576.0, "rate", 2.5, "ok", true,
        "name", "", "n", -12345, "twice", -24690, "speed", "bytes", 524288.0, "rate", "ok", true,
        "name", "a,\"b\"", "n", 1, "twice", 2, "speed");
    assert_non_null(want);
    assert_true(json_equal(rows, want));
    json_decref(want);
    json_decref(rows);
    bench_table_close(&t);
}

/* Rows during which other work took nothing, 60 % of the processors' time, and an unknown share;
 * the share of a peak is 1, 1.06 and unknown. */
static const struct host_noise noises[] = {
    {.seconds = 10, .processors = 2, .others = 0.01, .steal = 0},
    {.seconds = 10, .processors = 2, .others = 0.6, .steal = 0.002},
    {.seconds = 10, .processors = 2, .others = NAN, .steal = NAN, .throttled = NAN},
};

static void noise_columns(struct bench_table *t, const void *row)
{
    const struct host_noise *n = row;
    static const double shares[] = {1, 1.06, NAN};
    column_int(t, "n", "n", 1, n - noises);
    column_noise(t, n, shares[n - noises]);
}

static void test_disturbed(void **state)
{
#define REASON "60.0 % of the processors' time went to other processes"
    static const struct {
        enum bench_format format;
        const char *want;
    } cases[] = {
        {BENCH_TEXT, "n\n0\n1  disturbed: " REASON "; above the measured peak\n2\n"},
        {BENCH_MARKDOWN, "| n | remarks |\n|---|---|\n| 0 | - |\n| 1 | disturbed: " REASON
                         "; above the measured peak |\n| 2 | - |\n"},
        {BENCH_CSV, "n,others,steal,disturbed\n0,0.01,0,0\n1,0.6,0.002,1\n2,,,0\n"},
    };
    json_t *rows;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text;
        size_t size;
        FILE *out = open_memstream(&text, &size);
        struct bench_table t = {.format = cases[i].format, .out = out, .columns = noise_columns};
        bench_table_rows(&t, noises, 3, sizeof *noises);
        fclose(out);
        assert_string_equal(text, cases[i].want);
        assert_true(t.judged == 3 && t.disturbed == 1 && t.above == 1);
        free(text);
    }
    struct bench_table t = {.format = BENCH_JSON, .columns = noise_columns};
    bench_table_rows(&t, noises, 3, sizeof *noises);
    rows = bench_table_take(&t);
    for (int i = 0; i < 3; i++) {
        const json_t *row = json_array_get(rows, (size_t)i), *above, *noise;
        noise = json_object_get(row, "noise");
        above = json_object_get(row, "above_peak");
        assert_true(json_is_true(json_object_get(noise, "disturbed")) == (i == 1));
        assert_string_equal(json_string_value(json_object_get(noise, "reason")),
                            i == 1 ? REASON : "");
        assert_true(i == 2 ? !above : json_is_true(above) == (i == 1));
    }
    json_decref(rows);
}

/* A table without rows is an empty array. */
static void test_empty(void **state)
{
    struct bench_table t = {.format = BENCH_JSON, .columns = item_columns};
    json_t *rows;
    bench_table_rows(&t, NULL, 0, 1);
    rows = bench_table_take(&t);
    assert_int_equal(json_array_size(rows), 0);
    json_decref(rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_printed),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_disturbed),
        cmocka_unit_test(test_empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
