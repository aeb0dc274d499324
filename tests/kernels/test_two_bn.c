/* Tests the operation that adds the results of two batch norms. Its result is compared with that of
 * separate operations. Both run on the reference, in fp32 and in fp32 that is rounded to fp16 or
 * bf16. */
#include "tests/kernels/group.h"
#include "tests/kernels/random_operand.h"
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

enum { N = 3, C = 11, H = 5, W = 4, ROWS = N * H * W };

static const enum dtype precisions[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
enum { N_PRECISIONS = 3 };

static double unit_of(enum dtype precision)
{
    return precision == DTYPE_F16 ? 0x1p-11 : precision == DTYPE_BF16 ? 0x1p-8 : 0x1p-24;
}

/* Sets the precision of all four-dimensional tensors except weights. */
static struct op_desc rounded(struct op_desc d, enum dtype precision)
{
    for (int r = 0; r < ROLE_COUNT; r++)
        if (d.t[r].ndim == 4 && r != ROLE_W && r != ROLE_DW)
            d.t[r].rounds = precision;
    return d;
}

static struct op_desc bn(enum op_kind kind, bool relu, uint64_t with, enum dtype precision)
{
    return rounded(describe_bn(kind, N, C, H, W, relu, with), precision);
}

/* An operation with its operands. */
struct run {
    struct op_desc d;
    struct operands o;
};

static void run_new(struct run *r, struct op_desc d)
{
    r->d = d;
    OK(operands_new(&r->d, &r->o));
}

static void hand_over(struct run *to, enum role to_role, const struct run *from,
                      enum role from_role)
{
    assert_int_equal(operand_bytes(&to->d, to_role), operand_bytes(&from->d, from_role));
    memcpy(to->o.p[to_role], from->o.p[from_role], operand_bytes(&from->d, from_role));
}

static void assert_near(const char *what, const struct run *got, enum role role,
                        const struct run *want, enum role as, double tolerance)
{
    const float *a = operand_f32(&got->o, role), *b = operand_f32(&want->o, as);
    int64_t n = operand_count(&got->d, role);
    double largest = 0;
    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, fabs((double)b[i]));
    for (int64_t i = 0; i < n; i++)
        if (!(fabs((double)a[i] - (double)b[i]) <= tolerance * largest))
            fail_msg("%s[%d] is %.9g, not %.9g", what, (int)i, (double)a[i], (double)b[i]);
}

/* --- forward --- */

/* Computes the batch norm of the residual from given statistics, and stores its result rounded. */
static void plain_residual(struct device *ref, const struct run *fused, struct run *z,
                           enum dtype precision)
{
    run_new(z, bn(OP_BN_APPLY, false, 0, precision));
    hand_over(z, ROLE_X, fused, ROLE_Z);
    put_random(&z->o, &z->d, ROLE_GAMMA, 0.5, 1.5);
    put_random(&z->o, &z->d, ROLE_BETA, -1, 1);
    put_random(&z->o, &z->d, ROLE_MEAN, -1, 1);
    put_random(&z->o, &z->d, ROLE_INVSTD, 0.5, 1.5);
    OK(run_once(ref, &z->d, &z->o));
}

/* Computes the scale and shift of the residual's batch norm. */
static void put_affine(struct run *fused, const struct run *z)
{
    float *affine = operand_f32(&fused->o, ROLE_Z_AFFINE);
    for (int c = 0; c < C; c++) {
        affine[c] = operand_f32(&z->o, ROLE_GAMMA)[c] * operand_f32(&z->o, ROLE_INVSTD)[c];
        affine[C + c] =
            operand_f32(&z->o, ROLE_BETA)[c] - operand_f32(&z->o, ROLE_MEAN)[c] * affine[c];
    }
}

static void check_forward(struct device *ref, enum op_kind kind, enum dtype precision)
{
    static const enum role shared[] = {ROLE_X,      ROLE_Z,     ROLE_GAMMA, ROLE_BETA,
                                       ROLE_INVSTD, ROLE_RMEAN, ROLE_RVAR,  ROLE_MEAN};
    struct run fused, plain, z;
    run_new(&fused, bn(kind, true, WITH(Z) | WITH(Z_AFFINE) | WITH(MASK), precision));
    run_new(&plain, bn(kind, true, WITH(Z) | WITH(MASK), precision));
    for (int i = 0; i < 8; i++)
        if (fused.d.t[shared[i]].ndim) {
            put_random(&fused.o, &fused.d, shared[i], i < 4 ? -1.5 : 0.5, 1.5);
            hand_over(&plain, shared[i], &fused, shared[i]);
        }
    plain_residual(ref, &fused, &z, precision);
    put_affine(&fused, &z);
    hand_over(&plain, ROLE_Z, &z, ROLE_Y);
    OK(run_once(ref, &fused.d, &fused.o));
    OK(run_once(ref, &plain.d, &plain.o));
    /* the separate operations also round the residual */
    assert_near("Y", &fused, ROLE_Y, &plain, ROLE_Y, 2 * unit_of(precision) + 1e-6);
    const float *y = operand_f32(&fused.o, ROLE_Y);
    const uint8_t *mask = fused.o.p[ROLE_MASK];
    for (int64_t i = 0; i < operand_count(&fused.d, ROLE_Y); i++) {
        int64_t c = i / (H * W) % C, row = i / (H * W) / C * H * W + i % (H * W);
        assert_int_equal(mask[row * ((C + 7) / 8) + c / 8] >> c % 8 & 1, y[i] > 0);
    }
    operands_free(&fused.o);
    operands_free(&plain.o);
    operands_free(&z.o);
}

static void a_residual_is_normalised_as_it_is_added(void **state)
{
    for (int k = 0; k < N_PRECISIONS; k++) {
        check_forward(*state, OP_BN_APPLY, precisions[k]);
        check_forward(*state, OP_BN_FWD_TRAIN, precisions[k]);
    }
}

/* --- backward --- */

static void put_backward(struct run *fused)
{
    static const enum role about_zero[] = {ROLE_X, ROLE_Z, ROLE_DY, ROLE_MEAN, ROLE_Z_MEAN};
    static const enum role positive[] = {ROLE_GAMMA, ROLE_INVSTD, ROLE_Z_GAMMA, ROLE_Z_INVSTD};
    for (int i = 0; i < 5; i++)
        put_random(&fused->o, &fused->d, about_zero[i], -1, 1.25);
    for (int i = 0; i < 4; i++)
        put_random(&fused->o, &fused->d, positive[i], 0.5, 1.5);
    if (fused->d.t[ROLE_DY2].ndim)
        put_random(&fused->o, &fused->d, ROLE_DY2, -1, 1);
    if (fused->d.t[ROLE_Y].ndim)
        put_random(&fused->o, &fused->d, ROLE_Y, -1, 1);
    struct rng r = rng_at(9, RNG_INIT, 0, 0);
    if (fused->d.t[ROLE_MASK].ndim)
        for (size_t i = 0; i < operand_bytes(&fused->d, ROLE_MASK); i++)
            ((uint8_t *)fused->o.p[ROLE_MASK])[i] = (uint8_t)rng_below(&r, 256);
}

/* Runs the backward pass of the block's batch norm, which reads a stored residual. Then runs the
 * backward pass of the residual's batch norm. */
static void run_plain(struct device *ref, const struct run *fused, struct run *main_path,
                      struct run *z)
{
    static const enum role shared[] = {ROLE_X,     ROLE_DY,   ROLE_DY2,    ROLE_Y,
                                       ROLE_GAMMA, ROLE_MEAN, ROLE_INVSTD, ROLE_MASK};
    static const enum role own[] = {ROLE_X, ROLE_GAMMA, ROLE_MEAN, ROLE_INVSTD};
    static const enum role of_z[] = {ROLE_Z, ROLE_Z_GAMMA, ROLE_Z_MEAN, ROLE_Z_INVSTD};
    for (int i = 0; i < 8; i++)
        if (fused->d.t[shared[i]].ndim)
            hand_over(main_path, shared[i], fused, shared[i]);
    OK(run_once(ref, &main_path->d, &main_path->o));
    for (int i = 0; i < 4; i++)
        hand_over(z, own[i], fused, of_z[i]);
    hand_over(z, ROLE_DY, main_path, ROLE_DZ);
    OK(run_once(ref, &z->d, &z->o));
}

static void check_backward(struct device *ref, uint64_t with, bool relu, enum dtype precision)
{
    struct run fused, main_path, z;
    double unit = unit_of(precision) + 1e-6;
    run_new(&fused, bn(OP_BN_BWD, relu, with | WITH(DZ) | WITH_BN_OF_Z, precision));
    run_new(&main_path, bn(OP_BN_BWD, relu, with | WITH(DZ), precision));
    run_new(&z, bn(OP_BN_BWD, false, 0, precision));
    put_backward(&fused);
    run_plain(ref, &fused, &main_path, &z);
    OK(run_once(ref, &fused.d, &fused.o));
    assert_near("DX", &fused, ROLE_DX, &main_path, ROLE_DX, 0);
    assert_near("DGAMMA", &fused, ROLE_DGAMMA, &main_path, ROLE_DGAMMA, 0);
    assert_near("DBETA", &fused, ROLE_DBETA, &main_path, ROLE_DBETA, 0);
    assert_near("DZ", &fused, ROLE_DZ, &z, ROLE_DX, unit);
    assert_near("Z_DGAMMA", &fused, ROLE_Z_DGAMMA, &z, ROLE_DGAMMA, 1e-6);
    assert_near("Z_DBETA", &fused, ROLE_Z_DBETA, &z, ROLE_DBETA, 1e-6);
    operands_free(&fused.o);
    operands_free(&main_path.o);
    operands_free(&z.o);
}

static void both_gradients_are_those_of_two_operations(void **state)
{
    for (int k = 0; k < N_PRECISIONS; k++) {
        check_backward(*state, 0, false, precisions[k]);
        check_backward(*state, 0, true, precisions[k]);
        check_backward(*state, WITH(MASK), true, precisions[k]);
        check_backward(*state, WITH(MASK) | WITH(DY2), true, precisions[k]);
    }
}

/* --- with the data gradient --- */

static const struct conv_shape shape = {N, C, H, W, 6, {3, 3}, {1, 1}, {1, 1}, 1};

static void put_data(struct run *fused)
{
    static const enum role about_zero[] = {ROLE_X,    ROLE_Z,      ROLE_DY,      ROLE_W,
                                           ROLE_MEAN, ROLE_Z_MEAN, ROLE_BN_BETA, ROLE_Z_BETA};
    static const enum role positive[] = {ROLE_BN_GAMMA, ROLE_INVSTD, ROLE_Z_GAMMA, ROLE_Z_INVSTD};
    for (int i = 0; i < 8; i++)
        put_random(&fused->o, &fused->d, about_zero[i], -1, 1.25);
    for (int i = 0; i < 4; i++)
        put_random(&fused->o, &fused->d, positive[i], 0.5, 1.5);
    if (fused->d.t[ROLE_DY2].ndim)
        put_random(&fused->o, &fused->d, ROLE_DY2, -1, 1);
}

/* Prepares an operation that computes the same gradient from a stored residual. Z is the unrounded
 * result of the residual's batch norm, so the same values pass the ReLU. */
static void put_stored(struct run *stored, const struct run *fused)
{
    static const enum role shared[] = {ROLE_X,       ROLE_W,        ROLE_DY,   ROLE_DY2,
                                       ROLE_BN_BETA, ROLE_BN_GAMMA, ROLE_MEAN, ROLE_INVSTD};
    for (int i = 0; i < 8; i++)
        if (fused->d.t[shared[i]].ndim)
            hand_over(stored, shared[i], fused, shared[i]);
    for (int64_t i = 0; i < operand_count(&fused->d, ROLE_Z); i++) {
        int64_t c = i / (H * W) % C;
        double z = (double)operand_f32(&fused->o, ROLE_Z)[i];
        double normal = (z - (double)operand_f32(&fused->o, ROLE_Z_MEAN)[c]) *
                        (double)operand_f32(&fused->o, ROLE_Z_INVSTD)[c];
        operand_f32(&stored->o, ROLE_Z)[i] =
            (float)(normal * (double)operand_f32(&fused->o, ROLE_Z_GAMMA)[c] +
                    (double)operand_f32(&fused->o, ROLE_Z_BETA)[c]);
    }
}

/* The fused result has a multiply-add for each of the two batch norms. Compares both with the
 * backward passes of the batch norms. */
static void check_lines(struct device *ref, const struct run *fused, enum dtype precision)
{
    static const enum role from[2][5] = {
        {ROLE_X, ROLE_BN_GAMMA, ROLE_MEAN, ROLE_INVSTD, ROLE_DGAMMA},
        {ROLE_Z, ROLE_Z_GAMMA, ROLE_Z_MEAN, ROLE_Z_INVSTD, ROLE_Z_DGAMMA}};
    static const enum role to[] = {ROLE_X, ROLE_GAMMA, ROLE_MEAN, ROLE_INVSTD};
    static const enum role handed[][2] = {{ROLE_DY, ROLE_DX},
                                          {ROLE_X, ROLE_X},
                                          {ROLE_Z, ROLE_Z},
                                          {ROLE_EQ, ROLE_EQ},
                                          {ROLE_Z_EQ, ROLE_Z_EQ}};
    struct run lines, plain;
    run_new(&lines, bn(OP_BN_BWD_APPLY, false, WITH(Z) | WITH(Z_EQ) | WITH(DZ), precision));
    for (int i = 0; i < 5; i++)
        hand_over(&lines, handed[i][0], fused, handed[i][1]);
    OK(run_once(ref, &lines.d, &lines.o));
    for (int k = 0; k < 2; k++) {
        run_new(&plain, bn(OP_BN_BWD, false, 0, precision));
        for (int i = 0; i < 4; i++)
            hand_over(&plain, to[i], fused, from[k][i]);
        hand_over(&plain, ROLE_DY, fused, ROLE_DX);
        OK(run_once(ref, &plain.d, &plain.o));
        double unit = 4 * unit_of(precision) + 1e-6;
        assert_near("a gradient", &lines, k ? ROLE_DZ : ROLE_DX, &plain, ROLE_DX, unit);
        assert_near("DGAMMA", fused, from[k][4], &plain, ROLE_DGAMMA, 1e-6);
        assert_near("DBETA", fused, k ? ROLE_Z_DBETA : ROLE_DBETA, &plain, ROLE_DBETA, 1e-6);
        operands_free(&plain.o);
    }
    operands_free(&lines.o);
}

static void check_data(struct device *ref, uint64_t with, enum dtype precision)
{
    struct run fused, stored;
    struct op_desc plain = describe_conv(OP_CONV_BWD_DATA_BN, &shape, with | WITH(Z));
    run_new(&fused, rounded(describe_conv(OP_CONV_BWD_DATA_BN, &shape, with | WITH_DATA_BN_OF_Z),
                            precision));
    plain = rounded(plain, precision);
    plain.t[ROLE_Z].rounds = DTYPE_F32;
    run_new(&stored, plain);
    put_data(&fused);
    put_stored(&stored, &fused);
    OK(run_once(ref, &fused.d, &fused.o));
    OK(run_once(ref, &stored.d, &stored.o));
    assert_near("DX", &fused, ROLE_DX, &stored, ROLE_DX, 0);
    assert_near("EQ", &fused, ROLE_EQ, &stored, ROLE_EQ, 0);
    check_lines(ref, &fused, precision);
    operands_free(&fused.o);
    operands_free(&stored.o);
}

static void a_data_gradient_sums_for_both(void **state)
{
    for (int k = 0; k < N_PRECISIONS; k++) {
        check_data(*state, 0, precisions[k]);
        check_data(*state, WITH(DY2), precisions[k]);
    }
}

/* --- the end of a block in the next convolution --- */

static void check_end(struct device *ref, bool two, enum dtype precision)
{
    static const enum role filled[] = {ROLE_X, ROLE_Z, ROLE_W, ROLE_AFFINE, ROLE_Z_AFFINE};
    struct run fused, plain;
    run_new(&fused,
            rounded(describe_conv(OP_CONV_STATS_FWD, &shape, WITH_END | (two ? WITH(Z_AFFINE) : 0)),
                    precision));
    run_new(&plain, rounded(describe_conv(OP_CONV_STATS_FWD, &shape, 0), precision));
    for (int i = 0; i < 4 + two; i++)
        put_random(&fused.o, &fused.d, filled[i], -1, 1.25);
    const float *affine = operand_f32(&fused.o, ROLE_AFFINE);
    for (int64_t i = 0; i < operand_count(&fused.d, ROLE_X); i++) {
        int64_t c = i / (H * W) % C;
        double z = (double)operand_f32(&fused.o, ROLE_Z)[i];
        if (two)
            z = z * (double)operand_f32(&fused.o, ROLE_Z_AFFINE)[c] +
                (double)operand_f32(&fused.o, ROLE_Z_AFFINE)[C + c];
        double v = (double)operand_f32(&fused.o, ROLE_X)[i] * (double)affine[c] +
                   (double)affine[C + c] + z;
        operand_f32(&plain.o, ROLE_X)[i] = dtype_round(precision, (float)fmax(v, 0));
    }
    hand_over(&plain, ROLE_W, &fused, ROLE_W);
    OK(run_once(ref, &fused.d, &fused.o));
    OK(run_once(ref, &plain.d, &plain.o));
    assert_near("APPLIED", &fused, ROLE_APPLIED, &plain, ROLE_X, 0);
    assert_near("Y", &fused, ROLE_Y, &plain, ROLE_Y, 0);
    assert_near("SUMS", &fused, ROLE_SUMS, &plain, ROLE_SUMS, 0);
    operands_free(&fused.o);
    operands_free(&plain.o);
}

static void a_convolution_ends_the_block_before_it(void **state)
{
    for (int k = 0; k < N_PRECISIONS; k++) {
        check_end(*state, false, precisions[k]);
        check_end(*state, true, precisions[k]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_residual_is_normalised_as_it_is_added),
        cmocka_unit_test(both_gradients_are_those_of_two_operations),
        cmocka_unit_test(a_data_gradient_sums_for_both),
        cmocka_unit_test(a_convolution_ends_the_block_before_it),
    };
    return cmocka_run_group_tests_name("two_bn", tests, rig_group_setup, rig_group_teardown);
}
