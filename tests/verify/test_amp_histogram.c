/* Tests the counts of gradients that fp16 loses, and the resulting advice, with values chosen by
 * hand. */
#include "base/half.h"
#include "base/rng.h"
#include "tests/unit.h"
#include "verify/amp_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct histogram count(const float *x, int64_t n, double scale)
{
    struct fp16_limits limits[SCALE_COUNT] = {fp16_limits(1), fp16_limits(scale)};
    struct histogram c = {0};
    histogram_add(&c, limits, x, n);
    return c;
}

/* Compares the counts of one value with the limits in the header, computed in double, and at a
 * scale of 1 with the rounding of base/half.h. */
static void check_value(float x, double scale)
{
    struct histogram c = count(&x, 1, scale);
    double y = fabs((double)x) * scale, h = fabs((double)round_f16(x));
    bool nonzero = isfinite(x) && x != 0;
    int bin = nonzero ? ilogbf(x) - HISTOGRAM_LOW : 0;
    const struct fp16_fate *now = &c.fate[SCALE_CURRENT], *one = &c.fate[SCALE_ONE];
    assert_int_equal(now->underflow, nonzero && y <= 0x1p-25);
    assert_int_equal(now->subnormal, nonzero && y > 0x1p-25 && y < 0x1p-14 - 0x1p-25);
    assert_int_equal(now->overflow, nonzero && y >= 65520);
    assert_int_equal(one->underflow, nonzero && h == 0);
    assert_int_equal(one->subnormal, nonzero && h > 0 && h < 0x1p-14);
    assert_int_equal(one->overflow, nonzero && isinf(h));
    assert_int_equal(c.values, 1);
    assert_int_equal(c.nonzero, nonzero);
    assert_int_equal(c.not_finite, !isfinite(x));
    assert_true(c.largest == (isfinite(x) ? fabsf(x) : 0));
    assert_int_equal(c.bin[bin], nonzero);
    assert_int_equal(c.power[bin], nonzero && fabsf(x) == ldexpf(1, ilogbf(x)));
}

/* Values on both sides of every limit, at several scales, and random values. */
static void fates_of_values(void **state)
{
    static const float edges[] = {0x1p-25f, 0x1.ffcp-15f, 65520, 65504, 0x1p-149f, 0};
    static const double scales[] = {1, 0x1p17, 0x1p-3, 3};
    check_value(INFINITY, 1);
    check_value(-NAN, 1);
    for (int64_t i = 0; i < COUNT(edges); i++)
        for (int64_t k = 0; k < COUNT(scales); k++) {
            float x = (float)((double)edges[i] / scales[k]);
            check_value(-x, scales[k]);
            check_value(nextafterf(x, 0), scales[k]);
            check_value(nextafterf(x, INFINITY), scales[k]);
        }
    struct rng rng = rng_at(0, RNG_TEST, 7, 0);
    for (int i = 0; i < 50000; i++)
        check_value(ldexpf(rng_float(&rng) - 0.5f, (int)rng_below(&rng, 64) - 44), 0x1p10);
}

/* A histogram gives the number of underflows at every scale that is a power of two. It equals the
 * number that is counted at that scale. */
static void underflow_of_any_power(void **state)
{
    float x[4096];
    struct rng rng = rng_at(0, RNG_TEST, 8, 0);
    for (int i = 0; i < COUNT(x); i++)
        x[i] = ldexpf(i % 3 ? rng_float(&rng) : 1, -(int)rng_below(&rng, 60));
    struct histogram c = count(x, COUNT(x), 1);
    assert_int_equal(histogram_underflow(&c, 200), 0);
    assert_int_equal(histogram_underflow(&c, -300), c.nonzero);
    for (int k = -8; k <= 40; k++) {
        c = count(x, COUNT(x), ldexp(1, k));
        assert_int_equal(histogram_underflow(&c, k), c.fate[SCALE_CURRENT].underflow);
    }
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
    for (int64_t i = 0; i < COUNT(cases); i++) {
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
        cmocka_unit_test(fates_of_values),    cmocka_unit_test(underflow_of_any_power),
        cmocka_unit_test(recommended_scales), cmocka_unit_test(who_needs_a_scaler),
        cmocka_unit_test(findings_as_text),
    };
    return cmocka_run_group_tests_name("amp_histogram", tests, NULL, NULL);
}
