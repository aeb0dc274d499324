/* Compares kernels with the reference, through the shim: the batch norm kernels that run before or
 * after fused convolutions. */
#include "tests/kernels/cuda/backend.h"
#include "tests/kernels/group.h"
#include "tests/kernels/random_operand.h"
#include "verify/describe.h"
#include "verify/fill.h"

#include "base/half.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const enum dtype types[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
/* n, c, h, w. The shapes have whole and partial units of channels, more rows than a block processes
 * at a time, and more rows than a thread loads ahead. */
static const int shapes[][4] = {
    {2, 64, 5, 5}, {3, 17, 4, 3}, {1, 3, 40, 41}, {2, 8, 40, 41}, {2, 520, 3, 2}};
enum { N_TYPES = 3, N_SHAPES = sizeof shapes / sizeof *shapes };

/* Returns a copy of the values in the type `type`. The copy is aligned to 16 bytes, as the kernels
 * require. The caller frees it. */
static void *stored(enum dtype type, const float *from, int64_t n)
{
    size_t bytes = (size_t)n * dtype_size(type);
    void *p = aligned_alloc(16, (bytes + 15) / 16 * 16);
    assert_non_null(p);
    for (int64_t i = 0; i < n; i++) {
        if (type == DTYPE_F16)
            ((uint16_t *)p)[i] = f16_from_float(from[i]);
        else if (type == DTYPE_BF16)
            ((uint16_t *)p)[i] = bf16_from_float(from[i]);
        else
            ((float *)p)[i] = from[i];
    }
    return p;
}

static float loaded(enum dtype type, const void *p, int64_t i)
{
    return type == DTYPE_F16    ? f16_to_float(((const uint16_t *)p)[i])
           : type == DTYPE_BF16 ? bf16_to_float(((const uint16_t *)p)[i])
                                : ((const float *)p)[i];
}

/* The tolerance for a stored value: at least the distance between two values of the type near `v`.
 */
static double step_at(enum dtype type, double v)
{
    double unit = type == DTYPE_F16 ? 0x1p-10 : type == DTYPE_BF16 ? 0x1p-7 : 0x1p-21;
    return unit * fabs(v) + 0x1p-22;
}

static void assert_stored(enum dtype type, const void *got, const float *want, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!(fabs((double)loaded(type, got, i) - (double)want[i]) <=
              step_at(type, (double)want[i])))
            fail_msg("element %d is %.9g, not %.9g", (int)i, (double)loaded(type, got, i),
                     (double)want[i]);
}

/* --- statistics from sums --- */

static void check_from_sums(struct device *ref, const int s[4], enum dtype type)
{
    struct op_desc d = describe_bn(OP_BN_FINALIZE, s[0], s[1], s[2], s[3], false, WITH(AFFINE));
    static const enum role channel_wise[] = {ROLE_RMEAN, ROLE_RVAR, ROLE_MEAN, ROLE_INVSTD,
                                             ROLE_GAMMA, ROLE_BETA, ROLE_SUMS};
    enum { N_ROLES = sizeof channel_wise / sizeof *channel_wise, WRITTEN = 4 };
    struct operands o;
    struct cu_queue q = shim_queue();
    float *v[ROLE_COUNT] = {NULL};
    d.t[ROLE_AFFINE].rounds = type;
    OK(operands_new(&d, &o));
    put_random(&o, &d, ROLE_GAMMA, -1, 1);
    put_random(&o, &d, ROLE_BETA, -1, 1);
    put_random(&o, &d, ROLE_RMEAN, -1, 1);
    put_random(&o, &d, ROLE_RVAR, 0.5, 1.5);
    put_random(&o, &d, ROLE_SUMS, -10, 10);
    /* Sums of squares. The first is so small that the computed variance is negative. */
    for (int c = s[1]; c < 2 * s[1]; c++)
        operand_f32(&o, ROLE_SUMS)[c] = c == s[1] ? 0 : 200 + (float)c;
    for (int i = 0; i < N_ROLES; i++)
        v[channel_wise[i]] =
            stored(DTYPE_F32, operand_f32(&o, channel_wise[i]), operand_count(&d, channel_wise[i]));
    void *affine = stored(type, operand_f32(&o, ROLE_AFFINE), 2 * s[1]);
    struct cu_bn_statistics statistics = {v[ROLE_MEAN], v[ROLE_INVSTD], v[ROLE_RMEAN],
                                          v[ROLE_RVAR], d.attr.bn.eps,  d.attr.bn.momentum};
    struct cu_bn_from_sums a = {s[1], d.attr.bn.count, v[ROLE_SUMS], v[ROLE_GAMMA], v[ROLE_BETA],
                                type, affine};
    OK(cu_bn_from_sums(&q, &a, &statistics));
    OK(run_once(ref, &d, &o));
    for (int i = 0; i < WRITTEN; i++)
        assert_stored(DTYPE_F32, v[channel_wise[i]], operand_f32(&o, channel_wise[i]), s[1]);
    assert_stored(type, affine, operand_f32(&o, ROLE_AFFINE), 2 * s[1]);
    for (int i = 0; i < N_ROLES; i++)
        free(v[channel_wise[i]]);
    free(affine);
    operands_free(&o);
}

static void statistics_follow_from_sums(void **state)
{
    for (int i = 0; i < N_SHAPES; i++)
        for (int t = 0; t < N_TYPES; t++)
            check_from_sums(*state, shapes[i], types[t]);
}

/* --- the gradient as a multiply-add --- */

static void check_line(struct device *ref, const int s[4], enum dtype type, bool in_place)
{
    struct op_desc d = describe_bn(OP_BN_BWD_APPLY, s[0], s[1], s[2], s[3], false, 0);
    struct tensor_desc nhwc = in_layout(d.t[ROLE_X], LAYOUT_NHWC);
    struct operands o;
    struct cu_queue q = shim_queue();
    int64_t n = tensor_count(&nhwc);
    struct cu_bn_shape shape = {type, n / s[1], s[1]};
    nhwc.rounds = type;
    d.t[ROLE_X] = d.t[ROLE_DY] = d.t[ROLE_DX] = nhwc;
    OK(operands_new(&d, &o));
    put_random(&o, &d, ROLE_X, -1, 1);
    put_random(&o, &d, ROLE_DY, -1, 1);
    put_random(&o, &d, ROLE_EQ, -2, 2);
    OK(run_once(ref, &d, &o));
    /* The operands are in the order of ops.h (NCHW); the kernel reads rows of channels (NHWC). */
    int64_t plane = (int64_t)s[2] * s[3];
    float *turned[3],
        *plain[] = {operand_f32(&o, ROLE_X), operand_f32(&o, ROLE_DY), operand_f32(&o, ROLE_DX)};
    for (int k = 0; k < 3; k++) {
        turned[k] = malloc((size_t)n * sizeof **turned);
        assert_non_null(turned[k]);
        for (int64_t i = 0; i < n; i++) {
            int64_t row = i / s[1], c = i % s[1];
            turned[k][i] = plain[k][(row / plane * s[1] + c) * plane + row % plane];
        }
    }
    void *x = stored(type, turned[0], n), *dy = stored(type, turned[1], n);
    void *dx = in_place ? dy : stored(type, turned[0], n);
    float *eq = stored(DTYPE_F32, operand_f32(&o, ROLE_EQ), 3 * s[1]);
    OK(cu_bn_bwd_line(&q, &shape, dy, x, eq, dx));
    assert_stored(type, dx, turned[2], n);
    for (int k = 0; k < 3; k++)
        free(turned[k]);
    free(x);
    free(dy);
    if (!in_place)
        free(dx);
    free(eq);
    operands_free(&o);
}

static void gradients_are_a_multiply_add(void **state)
{
    for (int i = 0; i < N_SHAPES; i++)
        for (int t = 0; t < N_TYPES; t++) {
            check_line(*state, shapes[i], types[t], false);
            check_line(*state, shapes[i], types[t], true);
        }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(statistics_follow_from_sums),
        cmocka_unit_test(gradients_are_a_multiply_add),
    };
    return cmocka_run_group_tests_name("cuda_fused_kernels", tests, rig_group_setup,
                                       rig_group_teardown);
}
