/* Tests the fused forms of convolution and batch norm of the CUDA backend, on the fake GPU. The
 * test checks which forms the backend has in which types, and compares their results with the
 * reference. tests/kernels/test_fused.c compares the reference's fused forms with plain operations.
 */
#include "tests/kernels/group.h"
#include "verify/comparison.h"
#include "verify/describe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

struct devices {
    struct device *gpu, *old, *ref;
};

static const enum dtype types[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
enum { N_TYPES = 3 };

static const struct conv_shape shapes[] = {
    {2, 16, 6, 5, 8, {3, 3}, {1, 1}, {1, 1}, 1},
    {2, 8, 7, 7, 16, {3, 3}, {2, 2}, {1, 1}, 1},
    {1, 24, 4, 4, 8, {1, 1}, {1, 1}, {0, 0}, 1},
    {2, 64, 6, 6, 64, {3, 3}, {1, 1}, {1, 1}, 1},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

static bool has(struct device *dev, struct op_desc plain, enum dtype type)
{
    const struct op_desc d = fused_of_type(plain, type);
    struct op_plan *plan;
    enum status st = op_plan(dev, &d, &plan);
    op_plan_free(plan);
    if (st != STATUS_UNSUPPORTED)
        OK(st);
    return st == STATUS_OK;
}

static void convolutions(void **state)
{
    static const struct {
        enum op_kind kind;
        uint64_t with;
        bool bf16; /* whether cuDNN also has the form in bf16 */
    } forms[] = {{OP_CONV_STATS_FWD, 0, true},
                 {OP_CONV_STATS_FWD, WITH(AFFINE), false},
                 {OP_CONV_STATS_FWD, WITH_END, false},
                 {OP_CONV_STATS_FWD, WITH_END | WITH(Z_AFFINE), false},
                 {OP_CONV_APPLY_BWD_WEIGHTS, 0, false},
                 {OP_CONV_BWD_DATA_BN, 0, false},
                 {OP_CONV_BWD_DATA_BN, WITH(Z) | WITH(DY2), false},
                 {OP_CONV_BWD_DATA_BN, WITH_DATA_BN_OF_Z, false},
                 {OP_CONV_BWD_DATA_BN, WITH_DATA_BN_OF_Z | WITH(DY2), false}};
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++)
        for (int i = 0; i < N_SHAPES; i++)
            for (int k = 0; k < N_TYPES; k++) {
                struct op_desc d = describe_conv(forms[f].kind, &shapes[i], forms[f].with);
                struct devices *t = *state;
                bool expected = types[k] != DTYPE_BF16 || forms[f].bf16;
                assert_int_equal(has(t->gpu, d, types[k]), expected);
            }
}

static void batch_norms(void **state)
{
    static const struct {
        enum op_kind kind;
        uint64_t with;
    } forms[] = {{OP_BN_FINALIZE, 0},
                 {OP_BN_FINALIZE, WITH(AFFINE)},
                 {OP_BN_APPLY, 0},
                 {OP_BN_APPLY, WITH(Z)},
                 {OP_BN_APPLY, WITH(Z) | WITH(MASK)},
                 {OP_BN_FWD_TRAIN, WITH(MASK)},
                 {OP_BN_BWD, WITH(MASK)},
                 {OP_BN_BWD, WITH(MASK) | WITH(DY2) | WITH(DZ)},
                 {OP_BN_BWD_APPLY, 0},
                 {OP_BN_FWD_TRAIN, WITH(Z) | WITH(Z_AFFINE)},
                 {OP_BN_APPLY, WITH(Z) | WITH(Z_AFFINE) | WITH(MASK)},
                 {OP_BN_BWD, WITH(MASK) | WITH(DY2) | WITH(DZ) | WITH_BN_OF_Z},
                 {OP_BN_BWD_APPLY, WITH(Z) | WITH(Z_EQ) | WITH(DZ)}};
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++)
        for (int k = 0; k < N_TYPES; k++) {
            struct devices *t = *state;
            assert_true(has(t->gpu, describe_bn(forms[f].kind, 2, 16, 5, 4, true, forms[f].with),
                            types[k]));
            assert_true(has(t->gpu, describe_bn(forms[f].kind, 3, 13, 3, 3, true, forms[f].with),
                            types[k]));
        }
}

/* Compares every fused case of the table with the reference. */
static void results(void **state)
{
    struct devices *t = *state;
    struct comparison c = {.dev = t->gpu, .ref = t->ref, .problem.number = -1};
    struct case_list list;
    OK(case_list_new(&list));
    for (int i = 0; i < list.n; i++)
        if (is_fused(&list.item[i].desc))
            comparison_run(&c, i, &list.item[i]);
    assert_int_equal(c.failed, 0);
    assert_true(c.passed > c.skipped);
    comparison_close(&c);
    case_list_free(&list);
}

/* The GPU declines unsuitable numbers of channels, Z without DY2 and DY2 without Z, statistics over
 * ranks, and emulated rounding. An older GPU declines all fused forms. */
static void the_rest_is_declined(void **state)
{
    static const struct bn_sync sync = {(enum status(*)(void *, double *, int64_t))1, NULL};
    struct devices *t = *state;
    const struct conv_shape few = {2, 3, 6, 6, 8, {3, 3}, {1, 1}, {1, 1}, 1};
    const struct conv_shape odd = {2, 8, 6, 6, 12, {3, 3}, {1, 1}, {1, 1}, 1};
    assert_false(has(t->gpu, describe_conv(OP_CONV_STATS_FWD, &few, 0), DTYPE_F16));
    assert_false(has(t->gpu, describe_conv(OP_CONV_STATS_FWD, &odd, 0), DTYPE_F16));
    assert_false(has(t->gpu, describe_conv(OP_CONV_BWD_DATA_BN, &shapes[0], WITH(Z)), DTYPE_F16));
    assert_false(has(t->gpu, describe_conv(OP_CONV_BWD_DATA_BN, &shapes[0], WITH(DY2)), DTYPE_F16));
    struct op_desc d = describe_bn(OP_BN_FINALIZE, 2, 8, 3, 3, false, 0);
    d.attr.bn.sync = &sync;
    assert_false(has(t->gpu, d, DTYPE_F16));
    d = describe_conv(OP_CONV_STATS_FWD, &shapes[0], WITH(AFFINE));
    d.t[ROLE_X].rounds = d.t[ROLE_AFFINE].rounds = d.t[ROLE_Y].rounds = d.t[ROLE_W].rounds =
        DTYPE_BF16;
    assert_false(has(t->gpu, d, DTYPE_F32));
    assert_false(has(t->old, describe_conv(OP_CONV_STATS_FWD, &shapes[0], 0), DTYPE_F16));
}

static int open_devices(void **state)
{
    static struct devices t;
    OK(device_open("cuda:0", 1, &t.gpu));
    OK(device_open("cuda:2", 1, &t.old));
    OK(device_open("ref", 1, &t.ref));
    *state = &t;
    return 0;
}

static int close_devices(void **state)
{
    struct devices *t = *state;
    device_close(t->gpu);
    device_close(t->old);
    device_close(t->ref);
    return 0;
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions),
        cmocka_unit_test(batch_norms),
        cmocka_unit_test(results),
        cmocka_unit_test(the_rest_is_declined),
    };
    return cmocka_run_group_tests_name("cuda_fused_ops", tests, open_devices, close_devices);
}
