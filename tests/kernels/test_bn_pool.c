/* Compares fused batch norm, ReLU and max pooling with three separate operations and with finite
 * differences, on the reference and on the fake GPU. */
#include "tests/kernels/group.h"
#include "verify/describe.h"
#include "verify/fill.h"
#include "verify/rig.h"

#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { N = 2, C = 16 };
static const int sides[][2] = {{8, 8}, {7, 6}, {19, 37}};
static const struct pool_attr windows[] = {{{3, 3}, {2, 2}, {1, 1}}, {{2, 2}, {2, 2}, {0, 0}}};
static const enum dtype types[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};

/* The operations of one test: first the fused ones, then the separate ones. */
enum { STATISTICS, FWD, BWD, APPLY, POOL, POOL_BWD, BN_BWD, COUNT };

struct set {
    struct op_desc d[COUNT]; /* tensors are fp32, with values rounded to the tested type */
    struct operands o[COUNT];
    bool stored; /* run() converts the tensors to the tested type and to NHWC */
};

static void set_new(struct set *s, const int side[2], const struct pool_attr *p, enum dtype type,
                    bool stored, unsigned with)
{
    int h = side[0], w = side[1];
    *s = (struct set){.d = {describe_bn_pool(OP_BN_STATISTICS, N, C, h, w, p, 0),
                            describe_bn_pool(OP_BN_POOL_FWD, N, C, h, w, p, 0),
                            describe_bn_pool(OP_BN_POOL_BWD, N, C, h, w, p, with),
                            describe_bn(OP_BN_APPLY, N, C, h, w, true, 0),
                            describe_maxpool(OP_MAXPOOL_FWD, N, C, h, w, p, WITH(INDEX)),
                            describe_maxpool(OP_MAXPOOL_BWD, N, C, h, w, p, with),
                            describe_bn(OP_BN_BWD, N, C, h, w, true, 0)},
                      .stored = stored};
    for (int i = 0; i < COUNT; i++) {
        for (int r = 0; r < ROLE_COUNT; r++)
            if (s->d[i].t[r].ndim == 4 && s->d[i].t[r].type == DTYPE_F32)
                s->d[i].t[r].rounds = type;
        OK(operands_new(&s->d[i], &s->o[i]));
    }
}

static void run(struct device *dev, struct set *s, int k)
{
    struct op_desc d = s->d[k];
    struct operands o;
    if (!s->stored) {
        OK(run_once(dev, &d, &s->o[k]));
        return;
    }
    for (int r = 0; r < ROLE_COUNT; r++)
        if (d.t[r].ndim == 4) {
            d.t[r].type = d.t[r].rounds == DTYPE_F32 ? d.t[r].type : d.t[r].rounds;
            d.t[r].rounds = DTYPE_F32;
            d.t[r] = in_layout(d.t[r], LAYOUT_NHWC);
        }
    OK(operands_narrow(&d, &s->o[k], &o));
    OK(run_once(dev, &d, &o));
    operands_widen(&d, &o, &s->o[k]);
    operands_free(&o);
}

static void give(struct set *s, int to, enum role as, int from, enum role role)
{
    memcpy(s->o[to].p[as], s->o[from].p[role], operand_bytes(&s->d[from], role));
}

static void put(struct set *s, int to, enum role role, double low, double high)
{
    const struct op_desc *d = &s->d[to];
    struct rng r = rng_at(7, RNG_TEST, (uint64_t)role, 0);
    int64_t n = operand_count(d, role);
    float *v = operand_f32(&s->o[to], role);
    fill_uniform(&r, v, n, low, high);
    for (int64_t i = 0; i < n; i++)
        v[i] = dtype_round(d->t[role].rounds, v[i]);
}

static void run_forward(struct device *dev, struct set *s)
{
    static const enum role both[] = {ROLE_X, ROLE_GAMMA, ROLE_BETA, ROLE_MEAN, ROLE_INVSTD};
    put(s, STATISTICS, ROLE_X, -1, 1);
    put(s, STATISTICS, ROLE_RMEAN, -1, 1);
    put(s, STATISTICS, ROLE_RVAR, 0.5, 1.5);
    run(dev, s, STATISTICS);
    put(s, FWD, ROLE_GAMMA, -1, 1); /* a negative gamma reverses the order of a channel's values */
    put(s, FWD, ROLE_BETA, -0.5, 0.5);
    give(s, FWD, ROLE_X, STATISTICS, ROLE_X);
    give(s, FWD, ROLE_MEAN, STATISTICS, ROLE_MEAN);
    give(s, FWD, ROLE_INVSTD, STATISTICS, ROLE_INVSTD);
    operand_f32(&s->o[FWD], ROLE_X)[3] = NAN;
    for (int i = 0; i < 5; i++)
        give(s, APPLY, both[i], FWD, both[i]);
    run(dev, s, FWD);
    run(dev, s, APPLY);
    give(s, POOL, ROLE_X, APPLY, ROLE_Y);
    run(dev, s, POOL);
}

static void check_forward(const struct set *s)
{
    const float *y = operand_f32(&s->o[FWD], ROLE_Y), *want = operand_f32(&s->o[POOL], ROLE_Y);
    const uint8_t *index = s->o[FWD].p[ROLE_INDEX], *place = s->o[POOL].p[ROLE_INDEX];
    int none = 0;
    for (int64_t i = 0; i < operand_count(&s->d[FWD], ROLE_Y); i++) {
        assert_true(y[i] == want[i] || (isnan(y[i]) && isnan(want[i])));
        assert_int_equal(index[i], want[i] > 0 ? place[i] : POOL_NO_INDEX);
        none += index[i] == POOL_NO_INDEX;
    }
    assert_true(none > 0);
}

static void run_backward(struct device *dev, struct set *s)
{
    static const enum role same[] = {ROLE_GAMMA, ROLE_MEAN, ROLE_INVSTD};
    operand_f32(&s->o[FWD], ROLE_X)[3] = 0; /* a NaN would make all gradients of its channel NaN */
    give(s, APPLY, ROLE_X, FWD, ROLE_X);
    run(dev, s, FWD);
    run(dev, s, APPLY);
    give(s, POOL, ROLE_X, APPLY, ROLE_Y);
    run(dev, s, POOL);
    put(s, BWD, ROLE_DY, -1, 1);
    if (s->d[BWD].t[ROLE_DY2].ndim)
        put(s, BWD, ROLE_DY2, -1, 1);
    for (int i = 0; i < 3; i++) {
        give(s, BWD, same[i], FWD, same[i]);
        give(s, BN_BWD, same[i], FWD, same[i]);
    }
    give(s, BWD, ROLE_X, FWD, ROLE_X);
    give(s, BWD, ROLE_INDEX, FWD, ROLE_INDEX);
    run(dev, s, BWD);
    give(s, POOL_BWD, ROLE_INDEX, POOL, ROLE_INDEX);
    give(s, POOL_BWD, ROLE_DY, BWD, ROLE_DY);
    if (s->d[BWD].t[ROLE_DY2].ndim)
        give(s, POOL_BWD, ROLE_DY2, BWD, ROLE_DY2);
    run(dev, s, POOL_BWD);
    give(s, BN_BWD, ROLE_X, FWD, ROLE_X);
    give(s, BN_BWD, ROLE_Y, APPLY, ROLE_Y);
    give(s, BN_BWD, ROLE_DY, POOL_BWD, ROLE_DX);
    run(dev, s, BN_BWD);
}

/* `tolerance` is a fraction of the largest gradient. */
static void check_backward(const struct set *s, double tolerance)
{
    static const enum role results[] = {ROLE_DX, ROLE_DGAMMA, ROLE_DBETA};
    for (int k = 0; k < 3; k++) {
        const float *got = operand_f32(&s->o[BWD], results[k]);
        const float *want = operand_f32(&s->o[BN_BWD], results[k]);
        int64_t n = operand_count(&s->d[BWD], results[k]);
        double largest = 0;
        for (int64_t i = 0; i < n; i++)
            largest = fmax(largest, fabs((double)want[i]));
        assert_true(largest > 0);
        for (int64_t i = 0; i < n; i++)
            if (!(fabs((double)got[i] - (double)want[i]) <= tolerance * largest))
                fail_msg("%s[%d] is %.9g, not %.9g", role_str(results[k]), (int)i, (double)got[i],
                         (double)want[i]);
    }
}

static void set_free(struct set *s)
{
    for (int i = 0; i < COUNT; i++)
        operands_free(&s->o[i]);
}

static void check_all(struct device *dev, bool stored, bool exact)
{
    static const double unit[] = {0x1p-22, 0x1p-10, 0x1p-7};
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++)
        for (size_t k = 0; k < sizeof windows / sizeof *windows; k++)
            for (int t = 0; t < 3; t++) {
                struct set s;
                set_new(&s, sides[i], &windows[k], types[t], stored, i == 0 ? 0 : WITH(DY2));
                run_forward(dev, &s);
                check_forward(&s);
                run_backward(dev, &s);
                check_backward(&s, exact ? 0 : unit[t]);
                set_free(&s);
            }
}

/* On the reference, fused and separate operations give the same bits, in fp32 and with rounding to
 * fp16 or bf16. */
static void the_reference_is_its_parts(void **state)
{
    struct device *ref;
    (void)state;
    OK(device_open("ref", 1, &ref));
    check_all(ref, false, true);
    check_all(ref, true, true);
    device_close(ref);
}

/* On the GPU, fused and separate operations give the same bits in the forward pass. In the backward
 * pass, they add in different orders. */
static void the_gpu_is_its_parts(void **state)
{
    struct device *gpu;
    (void)state;
    if (!getenv("AMPSCALE_CUDA_MODULE"))
        skip();
    OK(device_open("cuda:0", 1, &gpu));
    check_all(gpu, true, false);
    device_close(gpu);
}

/* --- finite differences --- */

static double projection(struct device *ref, struct set *s)
{
    double f = 0;
    run(ref, s, STATISTICS);
    give(s, FWD, ROLE_X, STATISTICS, ROLE_X);
    give(s, FWD, ROLE_MEAN, STATISTICS, ROLE_MEAN);
    give(s, FWD, ROLE_INVSTD, STATISTICS, ROLE_INVSTD);
    run(ref, s, FWD);
    for (int64_t i = 0; i < operand_count(&s->d[FWD], ROLE_Y); i++)
        f += (double)operand_f32(&s->o[BWD], ROLE_DY)[i] *
             (double)operand_f32(&s->o[FWD], ROLE_Y)[i];
    return f;
}

static void check_difference(struct device *ref, struct set *s, int of, enum role role,
                             enum role gradient, int64_t i)
{
    const double step = 0x1p-6;
    static const double weight[] = {8, -8, -1, 1}, steps[] = {1, -1, 2, -2};
    float *value = &operand_f32(&s->o[of], role)[i], old = *value;
    double sum = 0, got = (double)operand_f32(&s->o[BWD], gradient)[i];
    for (int k = 0; k < 4; k++) {
        *value = old + (float)(steps[k] * step);
        sum += weight[k] * projection(ref, s);
    }
    *value = old;
    if (!(fabs(got - sum / (12 * step)) <= 2e-4))
        fail_msg("%s[%d] is %.9g, differences say %.9g", role_str(gradient), (int)i, got,
                 sum / (12 * step));
}

/* Values in a plane of X differ by at least four steps of the finite differences. A step therefore
 * changes no maximum, and no value is near the ReLU's kink. */
static void gradients_are_those_of_the_forward_pass(void **state)
{
    struct device *ref;
    struct set s;
    struct rng r = rng_at(9, RNG_TEST, 0, 0);
    (void)state;
    OK(device_open("ref", 1, &ref));
    set_new(&s, sides[1], &windows[0], DTYPE_F32, false, 0);
    int64_t n = operand_count(&s.d[STATISTICS], ROLE_X), plane = (int64_t)sides[1][0] * sides[1][1];
    float *x = operand_f32(&s.o[STATISTICS], ROLE_X);
    for (int64_t i = 0; i < n; i++)
        x[i] = 0.25f * ((float)(i % plane) - (float)(plane / 2) + 0.5f);
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t first = i / plane * plane, j = first + rng_below(&r, (uint32_t)(i - first) + 1);
        float swap = x[i];
        x[i] = x[j];
        x[j] = swap;
    }
    put(&s, STATISTICS, ROLE_RVAR, 0.5, 1.5);
    put(&s, FWD, ROLE_GAMMA, 0.75, 1.25);
    memset(s.o[FWD].p[ROLE_BETA], 0, operand_bytes(&s.d[FWD], ROLE_BETA));
    put(&s, BWD, ROLE_DY, -1, 1);
    projection(ref, &s);
    static const enum role left[] = {ROLE_X, ROLE_GAMMA, ROLE_MEAN, ROLE_INVSTD, ROLE_INDEX};
    for (int i = 0; i < 5; i++)
        give(&s, BWD, left[i], FWD, left[i]);
    run(ref, &s, BWD);
    for (int64_t i = 0; i < n; i += 7)
        check_difference(ref, &s, STATISTICS, ROLE_X, ROLE_DX, i);
    for (int64_t c = 0; c < C; c++) {
        check_difference(ref, &s, FWD, ROLE_GAMMA, ROLE_DGAMMA, c);
        check_difference(ref, &s, FWD, ROLE_BETA, ROLE_DBETA, c);
    }
    set_free(&s);
    device_close(ref);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_reference_is_its_parts),
        cmocka_unit_test(the_gpu_is_its_parts),
        cmocka_unit_test(gradients_are_those_of_the_forward_pass),
    };
    return cmocka_run_group_tests_name("bn_pool", tests, NULL, NULL);
}
