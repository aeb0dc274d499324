/* Tests the counts of gradients that fp16 loses, and the resulting advice, with values chosen by
 * hand. */
#include "base/half.h"
#include "base/rng.h"
#include "verify/amp_parts.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
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

static void check_fate(const struct fp16_fate *f, bool underflow, bool subnormal, bool overflow)
{
    assert_int_equal(f->underflow, underflow);
    assert_int_equal(f->subnormal, subnormal);
    assert_int_equal(f->overflow, overflow);
}

/* Values on both sides of every limit of fp16, at a scale. */
static void limits_of_fp16(void **state)
{
    enum fate { ZERO, UNDERFLOW, SUBNORMAL, NORMAL, OVERFLOW, NOT_FINITE };
    static const struct {
        float x;
        double scale;
        enum fate fate;
    } table[] = {
        {-0.0f, 1, ZERO},
        {0x1p-149f, 1, UNDERFLOW},
        {-0x1p-25f, 1, UNDERFLOW}, /* a tie, rounded to the even value 0 */
        {0x1.000002p-25f, 1, SUBNORMAL},
        {-0x1.ffcp-15f, 1, NORMAL}, /* 2^-14 - 2^-25, a tie, rounded to the even value 2^-14 */
        {0x1.ffbffep-15f, 1, SUBNORMAL},
        {0x1p-14f, 1, NORMAL},
        {65504, 1, NORMAL},
        {0x1.ffdffep15f, 1, NORMAL}, /* rounds to 65504 */
        {-65520, 1, OVERFLOW},       /* a tie: infinity */
        {INFINITY, 1, NOT_FINITE},
        {-NAN, 1, NOT_FINITE},
        {0x1p-42f, 0x1p17, UNDERFLOW},
        {0x1.000002p-42f, 0x1p17, SUBNORMAL},
        {0x1p-31f, 0x1p17, NORMAL},
        {65520 * 0x1p-17f, 0x1p17, OVERFLOW},
        {21840, 3, OVERFLOW}, /* 3 * 21840 = 65520 */
        {0x1.553ffep14f, 3, NORMAL},
        {0x1.555554p-27f, 3, UNDERFLOW},
        {0x1.555556p-27f, 3, SUBNORMAL},
    };
    (void)state;
    for (int64_t i = 0; i < COUNT_OF(table); i++) {
        float x = table[i].x;
        enum fate fate = table[i].fate;
        struct histogram c = count(&x, 1, table[i].scale);
        bool finite = fate != NOT_FINITE, nonzero = finite && fate != ZERO;
        int bin = nonzero ? ilogbf(x) - HISTOGRAM_LOW : 0;
        check_fate(&c.fate[SCALE_CURRENT], fate == UNDERFLOW, fate == SUBNORMAL, fate == OVERFLOW);
        assert_int_equal(c.values, 1);
        assert_int_equal(c.nonzero, nonzero);
        assert_int_equal(c.not_finite, !finite);
        assert_true(c.largest == (finite ? fabsf(x) : 0));
        assert_int_equal(c.bin[bin], nonzero);
        assert_int_equal(c.power[bin], nonzero && fabsf(x) == ldexpf(1, ilogbf(x)));
    }
}

/* Compares with the rounding of base/half.h, which has its own test. */
static void counts_agree_with_rounding(void **state)
{
    (void)state;
    struct rng rng = rng_at(0, RNG_TEST, 7, 0);
    for (int i = 0; i < 50000; i++) {
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
static void underflow_of_any_power(void **state)
{
    (void)state;
    float x[4096];
    struct rng rng = rng_at(0, RNG_TEST, 8, 0);
    for (int i = 0; i < COUNT_OF(x); i++)
        x[i] = ldexpf(i % 3 ? rng_float(&rng) : 1, -(int)rng_below(&rng, 60));
    struct histogram c = count(x, COUNT_OF(x), 1);
    assert_int_equal(histogram_underflow(&c, 200), 0);
    assert_int_equal(histogram_underflow(&c, -300), c.nonzero);
    for (int k = -8; k <= 40; k++) {
        c = count(x, COUNT_OF(x), ldexp(1, k));
        assert_int_equal(histogram_underflow(&c, k), c.fate[SCALE_CURRENT].underflow);
    }
}

static void look_counts_nothing(void **state)
{
    (void)state;
    const float x[] = {0x1p-30f, -5, NAN};
    struct histogram c = {.largest = 2}, sum = {.largest = 1, .not_finite = 1};
    histogram_look(&c, x, COUNT_OF(x));
    assert_int_equal(c.values + c.nonzero + c.fate[SCALE_ONE].underflow, 0);
    histogram_merge(&sum, &c);
    assert_true(sum.largest == 5);
    assert_int_equal(sum.not_finite, 2);
}

/* Returns the finding for one layer with `many` activations. The first is `largest`; after it come
 * `tiny` values that round to 0 in fp16 without scaling. */
static struct amp_finding judge(int64_t many, int64_t tiny, float largest, double scale,
                                struct amp_layer *layer)
{
    float *x = malloc((size_t)many * sizeof *x);
    assert_non_null(x);
    for (int64_t i = 0; i < many; i++)
        x[i] = i == 0 ? largest : i <= tiny ? 0x1p-30f : 0x1p-10f;
    *layer = (struct amp_layer){.name = "conv1", .histogram = {count(x, many, scale)}};
    struct amp_measurement m = {.n = 1, .layer = layer, .total = {layer->histogram[0]}};
    free(x);
    return amp_judge(&m);
}

static void recommended_scales(void **state)
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
    struct amp_layer layer;
    for (int64_t i = 0; i < COUNT_OF(cases); i++) {
        struct amp_finding f = judge(5000, 1000, cases[i].largest, 65536, &layer);
        assert_true(f.needs_scaler);
        assert_int_equal(f.exponent, cases[i].exponent);
        assert_int_equal(f.capped, cases[i].capped);
        assert_int_equal(f.still_lost, cases[i].exponent < 5 ? 1000 : 0);
        assert_true(histogram_headroom(&f.all, ldexp(1, f.exponent)) >= HEADROOM_BITS);
    }
    /* dynamic scaling has a largest scale */
    struct amp_finding f = judge(2000, 1999, 0x1p-30f, 1, &layer);
    assert_true(f.capped);
    assert_int_equal(f.exponent, 24);
}

/* A loss scaler is needed if at least a thousandth of all values are lost, or at least a hundredth
 * of the values of one layer. */
static void who_needs_a_scaler(void **state)
{
    (void)state;
    struct amp_layer layer[2];
    assert_false(judge(20000, 19, 1, 1, layer).needs_scaler);
    assert_true(judge(20000, 20, 1, 1, layer).needs_scaler);
    judge(900000, 0, 1, 1, &layer[0]);
    for (int tiny = 9; tiny <= 10; tiny++) {
        judge(1000, tiny, 1, 1, &layer[1]);
        layer[1].histogram[GRADIENT_WEIGHT] = layer[1].histogram[GRADIENT_ACTIVATION];
        layer[1].histogram[GRADIENT_ACTIVATION] = (struct histogram){0};
        struct amp_measurement m = {.n = 2, .layer = layer};
        m.total[GRADIENT_ACTIVATION] = layer[0].histogram[GRADIENT_ACTIVATION];
        m.total[GRADIENT_WEIGHT] = layer[1].histogram[GRADIENT_WEIGHT];
        struct amp_finding f = amp_judge(&m);
        assert_int_equal(f.needs_scaler, tiny == 10);
        assert_ptr_equal(f.worst, &layer[1]);
        assert_int_equal(f.worst_gradient, GRADIENT_WEIGHT);
    }
}

static void findings_as_text(void **state)
{
    (void)state;
    struct amp_layer layer;
    char text[512];
    struct amp_finding f = judge(5000, 1000, 1, 0x1p20, &layer);
    amp_finding_text(&f, 0x1p20, text, sizeof text);
    assert_non_null(strstr(text, "20.0 %"));
    assert_non_null(strstr(text, "'conv1'"));
    assert_non_null(strstr(text, "1 gradient overflow"));
    assert_non_null(strstr(text, "8192 (2^13)"));
    amp_finding_text(&f, 0x1p20, text, 20); /* the text is cut to the size of the buffer */
    assert_int_equal(strlen(text), 19);
    f = judge(2000, 1999, 0x1p-50f, 1, &layer);
    amp_finding_text(&f, 1, text, sizeof text);
    assert_non_null(strstr(text, "16777216 (2^24)"));
    f = judge(5000, 1000, NAN, 1, &layer);
    amp_finding_text(&f, 1, text, sizeof text);
    assert_non_null(strstr(text, "NaN"));
    f = judge(1, 0, 0, 1, &layer);
    assert_false(f.needs_scaler);
    amp_finding_text(&f, 1, text, sizeof text);
    assert_non_null(strstr(text, "Every gradient is zero"));
    assert_string_equal(percent_of(0).text, "0 %");
    assert_string_equal(percent_of(1e-7).text, "under 0.001 %");
    assert_string_equal(percent_of(0.00123).text, "0.123 %");
    assert_string_equal(percent_of(1).text, "100.0 %");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_of_fp16),         cmocka_unit_test(counts_agree_with_rounding),
        cmocka_unit_test(underflow_of_any_power), cmocka_unit_test(look_counts_nothing),
        cmocka_unit_test(recommended_scales),     cmocka_unit_test(who_needs_a_scaler),
        cmocka_unit_test(findings_as_text),
    };
    return cmocka_run_group_tests_name("amp_histogram", tests, NULL, NULL);
}
