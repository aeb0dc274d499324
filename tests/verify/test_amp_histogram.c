/* Tests the counts of gradients that fp16 loses, and the resulting advice, with values chosen by
 * hand. */
#include "base/half.h"
#include "base/rng.h"
#include "verify/amp_parts.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT_OF(a) ((int64_t)(sizeof(a) / sizeof *(a)))

static struct histogram count(const float *x, int64_t n, double scale)
{
    struct fp16_limits limits[SCALE_COUNT] = {fp16_limits(1), fp16_limits(scale)};
    struct histogram c = {0};
    histogram_add(&c, limits, x, n);
    return c;
}

static void check_fate(const struct fp16_fate *f, int64_t underflow, int64_t subnormal,
                       int64_t overflow)
{
    assert_int_equal(f->underflow, underflow);
    assert_int_equal(f->subnormal, subnormal);
    assert_int_equal(f->overflow, overflow);
}

/* Values on both sides of every limit of fp16. */
static const float limits_of_fp16[] = {
    0,
    -0.0f,
    0x1p-149f,
    -0x1p-25f,       /* a tie, rounded to the even value 0 */
    0x1.000002p-25f, /* the smallest subnormal */
    -0x1.ffcp-15f,   /* 2^-14 - 2^-25, a tie, rounded to the even value 2^-14 */
    0x1.ffbffep-15f, /* subnormal still */
    0x1p-14f,        /* normal */
    1,               /* normal */
    65504,           /* the largest */
    0x1.ffdffep15f,  /* rounds to 65504 */
    -65520,          /* a tie: infinity */
    INFINITY,
    -NAN,
};

static void test_limits(void **state)
{
    (void)state;
    struct histogram c = count(limits_of_fp16, COUNT_OF(limits_of_fp16), 1);
    assert_int_equal(c.values, 14);
    assert_int_equal(c.nonzero, 10);
    assert_int_equal(c.not_finite, 2);
    assert_true(c.largest == 65520);
    check_fate(&c.fate[SCALE_ONE], 2, 2, 1);
    check_fate(&c.fate[SCALE_CURRENT], 2, 2, 1);
    assert_int_equal(c.bin[0], 1);
    assert_int_equal(c.bin[-25 - HISTOGRAM_LOW], 2);
    assert_int_equal(c.power[-25 - HISTOGRAM_LOW], 1);
    assert_int_equal(c.bin[-15 - HISTOGRAM_LOW], 2);
    assert_int_equal(c.bin[0 - HISTOGRAM_LOW], 1);
    assert_int_equal(c.bin[15 - HISTOGRAM_LOW], 3);
    assert_int_equal(c.power[15 - HISTOGRAM_LOW], 0);
}

/* If values are multiplied by a power of two, and the scale is divided by the same power, the
 * counts at the scale stay the same. */
static void test_limits_move_with_the_scale(void **state)
{
    (void)state;
    float moved[COUNT_OF(limits_of_fp16)];
    for (int64_t i = 0; i < COUNT_OF(moved); i++)
        moved[i] = limits_of_fp16[i] * 0x1p-17f;
    struct histogram c = count(moved, COUNT_OF(moved), 0x1p17);
    assert_int_equal(c.nonzero, 9); /* 2^-149 has been rounded to 0 */
    check_fate(&c.fate[SCALE_CURRENT], 1, 2, 1);
    assert_int_equal(c.fate[SCALE_ONE].overflow, 0);
    assert_true(histogram_headroom(&c, 0x1p17) < 0);
}

/* A scale that is not a power of two. 3 * 21840 = 65520 is a tie that rounds to infinity; the
 * second value is just below it. The last two values are near the largest value that rounds to 0.
 */
static void test_odd_scale(void **state)
{
    (void)state;
    const float x[] = {21840, nextafterf(21840, 0), 0x1p-25f / 3, 0x1.555554p-27f};
    struct histogram c = count(x, COUNT_OF(x), 3);
    assert_int_equal(c.fate[SCALE_CURRENT].overflow, 1);
    for (int64_t i = 2; i < COUNT_OF(x); i++) {
        struct histogram one = count(&x[i], 1, 3);
        assert_int_equal(one.fate[SCALE_CURRENT].underflow, 3 * (double)x[i] <= 0x1p-25);
    }
}

/* Compares with the rounding of base/half.h, which has its own test. */
static void test_against_rounding(void **state)
{
    (void)state;
    struct rng rng = rng_at(0, RNG_TEST, 7, 0);
    for (int i = 0; i < 200000; i++) {
        float x = ldexpf(rng_float(&rng) - 0.5f, (int)rng_below(&rng, 64) - 44);
        struct histogram c = count(&x, 1, 0x1p10);
        for (int s = 0; s < SCALE_COUNT && x != 0; s++) {
            float h = fabsf(round_f16(s == SCALE_ONE ? x : x * 0x1p10f));
            check_fate(&c.fate[s], h == 0, h > 0 && h < 0x1p-14f, isinf(h));
        }
    }
}

/* A histogram gives the number of underflows at every scale that is a power of two. It equals the
 * number that is counted at that scale. */
static void test_underflow_of_any_power(void **state)
{
    (void)state;
    float x[4096];
    struct rng rng = rng_at(0, RNG_TEST, 8, 0);
    for (int i = 0; i < COUNT_OF(x); i++)
        x[i] = i % 3 ? ldexpf(rng_float(&rng), -(int)rng_below(&rng, 60))
                     : ldexpf(1, -(int)rng_below(&rng, 60));
    for (int k = -8; k <= 40; k++) {
        struct histogram c = count(x, COUNT_OF(x), ldexp(1, k));
        assert_int_equal(histogram_underflow(&c, k), c.fate[SCALE_CURRENT].underflow);
    }
    struct histogram c = count(x, COUNT_OF(x), 1);
    assert_int_equal(histogram_underflow(&c, 200), 0);
    assert_int_equal(histogram_underflow(&c, -300), c.nonzero);
}

static void test_look_counts_nothing(void **state)
{
    (void)state;
    const float x[] = {0x1p-30f, -5, NAN};
    struct histogram c = {.largest = 2}, sum = {.largest = 1, .not_finite = 1};
    histogram_look(&c, x, COUNT_OF(x));
    assert_true(c.largest == 5);
    assert_int_equal(c.not_finite, 1);
    assert_int_equal(c.values + c.nonzero + c.fate[SCALE_ONE].underflow, 0);
    histogram_merge(&sum, &c);
    assert_true(sum.largest == 5);
    assert_int_equal(sum.not_finite, 2);
}

/* Returns the finding for one layer with the activations x[0..n). */
static struct amp_finding judge(const float *x, int64_t n, double scale, struct amp_layer *layer)
{
    *layer = (struct amp_layer){.name = "conv1", .histogram = {count(x, n, scale)}};
    struct amp_measurement m = {.n = 1, .layer = layer, .total = {layer->histogram[0]}};
    return amp_judge(&m);
}

/* Returns an array of length `many`. The first value is `largest`. After it come values that round
 * to 0 in fp16 without scaling; `tiny` is their number. */
static float *values(int64_t many, int64_t tiny, float largest)
{
    float *x = malloc((size_t)many * sizeof *x);
    assert_non_null(x);
    for (int64_t i = 0; i < many; i++)
        x[i] = i == 0 ? largest : i <= tiny ? 0x1p-30f : 0x1p-10f;
    return x;
}

static void test_recommended_scale(void **state)
{
    (void)state;
    static const struct {
        float largest;
        int exponent;
        bool capped;
    } cases[] = {
        {1, 13, false},               /* 65504 / 4 = 16376 >= 2^13 */
        {16376.0f / 8192, 13, false}, /* the largest value with two bits of headroom */
        {0x1.ffe002p0f, 12, false},   /* slightly more than that value */
        {60000, -2, false},           /* a value without headroom */
        {0x1p-9f, 22, false},
        {0x1p-11f, 23, false}, /* the other values are 2^-10 */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct amp_layer layer;
        float *x = values(5000, 1000, cases[i].largest);
        struct amp_finding f = judge(x, 5000, 65536, &layer);
        assert_true(f.needs_scaler);
        assert_int_equal(f.exponent, cases[i].exponent);
        assert_int_equal(f.capped, cases[i].capped);
        assert_int_equal(f.still_lost, cases[i].exponent < 5 ? 1000 : 0);
        assert_true(histogram_headroom(&f.all, ldexp(1, f.exponent)) >= HEADROOM_BITS);
        free(x);
    }
}

static void test_capped_scale(void **state)
{
    (void)state;
    struct amp_layer layer;
    float x[2000];
    for (int i = 0; i < COUNT_OF(x); i++)
        x[i] = i % 2 ? 0x1p-30f : 0x1p-50f;
    struct amp_finding f = judge(x, COUNT_OF(x), 1, &layer);
    char text[512];
    assert_true(f.capped);
    assert_int_equal(f.exponent, 24);
    assert_int_equal(f.still_lost, 1000);
    amp_finding_text(&f, 1, text, sizeof text);
    assert_non_null(strstr(text, "loses 100.0 %"));
    assert_non_null(strstr(text, "16777216 (2^24), the largest power of two that dynamic"));
    assert_non_null(strstr(text, "50.0 % would still be lost"));
}

/* A loss scaler is needed if at least a thousandth of all values are lost, or at least a hundredth
 * of the values of one layer. */
static void test_need(void **state)
{
    (void)state;
    struct amp_layer layer[2];
    float *x = values(20000, 19, 1);
    assert_false(judge(x, 20000, 1, layer).needs_scaler);
    free(x);
    x = values(20000, 20, 1);
    assert_true(judge(x, 20000, 1, layer).needs_scaler);
    free(x);

    float *large = values(900000, 0, 1), *small = values(1000, 9, 1);
    struct amp_measurement m = {.n = 2, .layer = layer};
    layer[0] = (struct amp_layer){.name = "a", .histogram = {count(large, 900000, 1)}};
    for (int tiny = 9; tiny <= 10; tiny++) {
        small[10] = tiny == 10 ? 0x1p-30f : 0x1p-10f;
        layer[1] = (struct amp_layer){.name = "b", .histogram = {{0}, count(small, 1000, 1)}};
        m.total[0] = layer[0].histogram[0];
        m.total[1] = layer[1].histogram[1];
        struct amp_finding f = amp_judge(&m);
        assert_int_equal(f.needs_scaler, tiny == 10);
        assert_ptr_equal(f.worst, &layer[1]);
        assert_int_equal(f.worst_gradient, GRADIENT_WEIGHT);
    }
    free(large);
    free(small);
}

static void test_text(void **state)
{
    (void)state;
    struct amp_layer layer;
    char text[512];
    float *x = values(5000, 1000, 1);
    struct amp_finding f = judge(x, 5000, 0x1p20, &layer);
    amp_finding_text(&f, 0x1p20, text, sizeof text);
    assert_non_null(strstr(text, "loses 20.0 % of the nonzero gradients"));
    assert_non_null(strstr(text, "of the activations of 'conv1'"));
    assert_non_null(strstr(text, "needs a loss scaler"));
    assert_non_null(strstr(text, "1048576, makes 1 gradient overflow"));
    assert_non_null(strstr(text, "8192 (2^13)"));
    amp_finding_text(&f, 0x1p20, text, 20); /* the text is cut to the size of the buffer */
    assert_int_equal(strlen(text), 19);

    x[1] = NAN;
    f = judge(x, 5000, 1, &layer);
    amp_finding_text(&f, 1, text, sizeof text);
    assert_non_null(strstr(text, "NaN"));
    memset(x, 0, 5000 * sizeof *x);
    f = judge(x, 5000, 1, &layer);
    assert_false(f.needs_scaler);
    amp_finding_text(&f, 1, text, sizeof text);
    assert_non_null(strstr(text, "Every gradient is zero"));
    free(x);
}

static void test_percent(void **state)
{
    (void)state;
    assert_string_equal(percent_of(0).text, "0 %");
    assert_string_equal(percent_of(1e-7).text, "under 0.001 %");
    assert_string_equal(percent_of(0.00123).text, "0.123 %");
    assert_string_equal(percent_of(1).text, "100.0 %");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_limits_move_with_the_scale),
        cmocka_unit_test(test_odd_scale),
        cmocka_unit_test(test_against_rounding),
        cmocka_unit_test(test_underflow_of_any_power),
        cmocka_unit_test(test_look_counts_nothing),
        cmocka_unit_test(test_recommended_scale),
        cmocka_unit_test(test_capped_scale),
        cmocka_unit_test(test_need),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_percent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
