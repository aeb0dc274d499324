/* Tests the reader of ncu's CSV: the formats of several versions of ncu, and damaged bytes. */
#include "bench/profile_ncu.h"
#include "tests/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HEAD   "\"ID\",\"Process ID\",\"Kernel Name\",\"Block Size\""
#define BYTES  "dram__bytes.sum"
#define TIME   "gpu__time_duration.sum"
#define TENSOR "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"

static int parse_text(const char *text, struct ncu_kernel **k)
{
    char *copy = strdup(text);
    int n = -1;
    assert_non_null(copy);
    enum status st = ncu_parse(copy, k, &n);
    assert_int_equal(st == STATUS_OK, n > 0);
    assert_true(st == STATUS_OK || st == STATUS_DATA);
    free(copy);
    return n;
}

static void near(double a, double b)
{
    assert_true(fabs(a - b) <= 1e-9 * fabs(b));
}

static void test_forms(void **state)
{
    struct ncu_kernel *k;
    assert_int_equal(
        parse_text(
            "==PROF== Connected to process 7 (ampscale)\nsaid by the program\n" HEAD ",\"" BYTES
            "\",\"" TENSOR "\",\"" TIME "\",\"launch__registers_per_thread\"\r\n"
            "\"\",\"\",\"\",\"\",\"Mbyte\",\"%\",\"us\",\"register/thread\"\r\n"
            "\"0\",\"7\",\"void f<(bool)1, g(int)>(const T *, (anonymous)::x)\",\"(1, 1, 1)\","
            "\"1,234.5\",\"12.5\",\"7.04\",\"32\"\r\n"
            "==PROF== Profiling \"g\": 0%....100% - 3 passes\n"
            "\"1\",\"7\",\"sm90_xmma \"\"q\"\"\",\"(1, 1, 1)\",\"n/a\",\"\",\"1e400\",\"\"\n",
            &k),
        2);
    assert_string_equal(k[0].name, "f<(bool)1, g(int)>");
    near(k[0].bytes, 1234.5e6);
    near(k[0].tensor, 0.125);
    near(k[0].seconds, 7.04e-6);
    assert_int_equal(k[0].registers, 32);
    assert_true(isnan(k[0].dram));
    assert_string_equal(k[1].name, "sm90_xmma \"q\"");
    assert_true(isnan(k[1].bytes) && isnan(k[1].tensor) && isnan(k[1].seconds));
    assert_int_equal(k[1].registers, -1);
    free(k);
}

/* If the row of units is missing, no value is read. */
static void test_units(void **state)
{
    struct ncu_kernel *k;
    assert_int_equal(parse_text(HEAD ",\"" TIME "\"\n\"0\",\"7\",\"f()\",\"\",\"10\"\n", &k), 1);
    assert_true(isnan(k[0].seconds));
    free(k);
    assert_int_equal(
        parse_text(HEAD ",\"dram__bytes_write.sum\",\"dram__bytes_read.sum\"\n\"\",\"\",\"\",\"\","
                        "\"Kbyte\",\"byte\"\n\"0\",\"7\",\"f()\",\"\",\"1.5\",\"500\"\n",
                   &k),
        1);
    near(k[0].bytes, 2000);
    free(k);
}

/* Numbers that are none or negative have no value. A text without a heading, or without a row, is
 * no profile. The fuzzer of tables (tests/fuzz) reads damaged ones. */
static void test_wrong(void **state)
{
    static const char whole[] =
        HEAD ",\"" TIME "\",\"" BYTES "\"\n\"\",\"\",\"\",\"\",\"ns\",\"byte\"\n"
             "\"0\",\"7\",\"f(a, \"\"b\"\")\",\"(1, 1, 1)\",\"1,000\",\"2\"\n"
             "\"1\",\"7\",\"g\",\"(1, 1, 1)\",\"-1\",\"nan\"\n";
    struct ncu_kernel *k;
    assert_int_equal(parse_text("", &k), 0);
    assert_int_equal(parse_text("\"ID\",\n\"0\",\n", &k), 0);
    assert_int_equal(parse_text("\"0\",\"7\",\"f\",\"\"\n", &k), 0);
    assert_int_equal(parse_text(whole, &k), 2);
    assert_true(isnan(k[1].seconds) && isnan(k[1].bytes));
    free(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_units),
        cmocka_unit_test(test_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
