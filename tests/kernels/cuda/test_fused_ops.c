/* The fused forms of convolution and batch norm on the CUDA backend (on the fake GPU, where there
 * is none) against the reference's, in every type that the backend has them in. The reference's are
 * held against plain operations in tests/kernels/test_fused.c.
 *
 * The environment variable TEST_DEVICE names a device that is there instead ("cuda:0"): what of all
 * this it has is its library's to say. TEST_OWN_KERNELS leaves the library out, for tools that look
 * at each access: they find much in its kernels that is no error. */
#include "tests/kernels/group.h"
#include "verify/describe.h"
#include "verify/fill.h"
#include "verify/precision.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct devices {
    struct device *gpu, *old, *ref;
    const char *real; /* the device that is there; NULL: the fake */
    int compared;
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

static bool of_activations(int role)
{
    return role == ROLE_AFFINE || role == ROLE_X || role == ROLE_Y || role == ROLE_Z ||
           role == ROLE_DX || role == ROLE_DY || role == ROLE_DY2 || role == ROLE_DZ;
}

/* As the backend stores it: NHWC, activations and weights of a type; gradients of weights rounded
 * to it in fp32. */
static struct op_desc typed(struct op_desc d, enum dtype type)
{
    for (int r = 0; r < ROLE_COUNT; r++) {
        struct tensor_desc *t = &d.t[r];
        bool weights = (r == ROLE_W || r == ROLE_DW) && t->ndim == 4;
        if (t->ndim == 4)
            *t = in_layout(*t, LAYOUT_NHWC);
        if (r == ROLE_DW && weights) {
            t->rounds = type;
        } else if (of_activations(r) || weights) {
            t->type = type;
            t->bytes = (size_t)tensor_count(t) * dtype_size(type);
        }
    }
    return d;
}

/* Ordinary values: deviations are positive, masks are those of some ReLU. */
static void fill(const struct op_desc *d, struct operands *o)
{
    for (int role = 0; role < ROLE_COUNT; role++) {
        struct rng r = rng_at(23, RNG_TEST, (uint64_t)role, (uint64_t)d->kind);
        int64_t n = operand_count(d, (enum role)role);
        bool positive = role == ROLE_INVSTD || role == ROLE_RVAR;
        if (!(op_roles(d->kind).reads >> role & 1) || !o->p[role])
            continue;
        if (role == ROLE_MASK)
            for (int64_t i = 0; i < n; i++)
                ((uint8_t *)o->p[role])[i] = (uint8_t)rng_u32(&r);
        else
            fill_uniform(&r, operand_f32(o, (enum role)role), n, positive ? 0.5 : -1, 1.5);
        for (int64_t i = 0; role != ROLE_MASK && i < n; i++)
            operand_f32(o, (enum role)role)[i] =
                dtype_round(d->t[role].rounds, operand_f32(o, (enum role)role)[i]);
        for (int64_t i = n / 2; role == ROLE_SUMS && i < n; i++) /* of squares */
            operand_f32(o, ROLE_SUMS)[i] = 50 + (float)i;
    }
}

/* The result on one device, of the emulated form's values. */
static void run_on(struct device *dev, const struct op_desc *d, const struct op_desc *emulated,
                   const struct operands *in, struct operands *out)
{
    struct operands stored;
    OK(operands_narrow(d, in, &stored));
    OK(run_once(dev, d, &stored));
    OK(operands_copy(emulated, in, out));
    operands_widen(d, &stored, out);
    operands_free(&stored);
}

/* `slack` is how many roundings may differ: a library may round in between where the fake does not,
 * and the other way round. */
static void compare(const struct op_desc *d, enum dtype type, double slack,
                    const struct operands *got, const struct operands *want)
{
    double unit = slack * (type == DTYPE_F16 ? 0x1p-10 : type == DTYPE_BF16 ? 0x1p-7 : 0x1p-19);
    for (int role = 0; role < ROLE_COUNT; role++) {
        double largest = 0;
        int64_t n = operand_count(d, (enum role)role);
        if (!(op_roles(d->kind).writes >> role & 1) || !want->p[role])
            continue;
        if (role == ROLE_MASK) {
            assert_memory_equal(got->p[role], want->p[role], (size_t)n);
            continue;
        }
        const float *g = operand_f32(got, (enum role)role), *w = operand_f32(want, role);
        for (int64_t i = 0; i < n; i++)
            largest = fmax(largest, fabs((double)w[i]));
        for (int64_t i = 0; i < n; i++)
            if (!(fabs((double)g[i] - (double)w[i]) <= unit * largest))
                fail_msg("%s in %s: %s[%d] is %.9g, not %.9g", op_str(d->kind), dtype_str(type),
                         role_str((enum role)role), (int)i, (double)g[i], (double)w[i]);
    }
}

/* Whether the device has it; if so, its results have been compared. */
static bool check(struct devices *t, struct op_desc plain, enum dtype type)
{
    const struct op_desc d = typed(plain, type), emulated = emulated_form(&d);
    struct operands in, got, want;
    struct op_plan *plan;
    enum status st = op_plan(t->gpu, &d, &plan);
    op_plan_free(plan);
    if (st == STATUS_UNSUPPORTED)
        return false;
    OK(st);
    OK(operands_new(&emulated, &in));
    fill(&emulated, &in);
    run_on(t->gpu, &d, &emulated, &in, &got);
    run_on(t->ref, &d, &emulated, &in, &want);
    compare(&emulated, type, t->real ? 4 : 1, &got, &want);
    t->compared++;
    operands_free(&in);
    operands_free(&got);
    operands_free(&want);
    return true;
}

static void convolutions(void **state)
{
    static const struct {
        enum op_kind kind;
        unsigned with;
        bool bf16; /* cuDNN has it in bf16 too */
    } forms[] = {{OP_CONV_STATS_FWD, 0, true},
                 {OP_CONV_STATS_FWD, WITH(AFFINE), false},
                 {OP_CONV_APPLY_BWD_WEIGHTS, 0, false},
                 {OP_CONV_BWD_DATA_BN, 0, false},
                 {OP_CONV_BWD_DATA_BN, WITH(Z) | WITH(DY2), false}};
    if (getenv("TEST_OWN_KERNELS"))
        skip();
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++)
        for (int i = 0; i < N_SHAPES; i++)
            for (int k = 0; k < N_TYPES; k++) {
                struct op_desc d = describe_conv(forms[f].kind, &shapes[i], forms[f].with);
                struct devices *t = *state;
                bool expected = types[k] != DTYPE_BF16 || forms[f].bf16;
                bool found = check(t, d, types[k]);
                assert_true(t->real || found == expected);
            }
}

static void batch_norms(void **state)
{
    static const struct {
        enum op_kind kind;
        unsigned with;
    } forms[] = {{OP_BN_FINALIZE, 0},
                 {OP_BN_FINALIZE, WITH(AFFINE)},
                 {OP_BN_APPLY, 0},
                 {OP_BN_APPLY, WITH(Z)},
                 {OP_BN_APPLY, WITH(Z) | WITH(MASK)},
                 {OP_BN_FWD_TRAIN, WITH(MASK)},
                 {OP_BN_BWD, WITH(MASK)},
                 {OP_BN_BWD, WITH(MASK) | WITH(DY2) | WITH(DZ)},
                 {OP_BN_BWD_APPLY, 0}};
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++)
        for (int k = 0; k < N_TYPES; k++) {
            assert_true(check(*state, describe_bn(forms[f].kind, 2, 16, 5, 4, true, forms[f].with),
                              types[k]));
            assert_true(check(*state, describe_bn(forms[f].kind, 3, 13, 3, 3, true, forms[f].with),
                              types[k]));
        }
}

/* The channels of sets, one gradient of two, statistics over ranks, an older GPU, emulation. */
static void the_rest_is_declined(void **state)
{
    static const struct bn_sync sync = {(enum status(*)(void *, double *, int64_t))1, NULL};
    struct devices *t = *state;
    if (t->real)
        skip();
    const struct conv_shape few = {2, 3, 6, 6, 8, {3, 3}, {1, 1}, {1, 1}, 1};
    const struct conv_shape odd = {2, 8, 6, 6, 12, {3, 3}, {1, 1}, {1, 1}, 1};
    assert_false(check(t, describe_conv(OP_CONV_STATS_FWD, &few, 0), DTYPE_F16));
    assert_false(check(t, describe_conv(OP_CONV_STATS_FWD, &odd, 0), DTYPE_F16));
    assert_false(check(t, describe_conv(OP_CONV_BWD_DATA_BN, &shapes[0], WITH(Z)), DTYPE_F16));
    assert_false(check(t, describe_conv(OP_CONV_BWD_DATA_BN, &shapes[0], WITH(DY2)), DTYPE_F16));
    struct op_desc d = describe_bn(OP_BN_FINALIZE, 2, 8, 3, 3, false, 0);
    d.attr.bn.sync = &sync;
    assert_false(check(t, d, DTYPE_F16));
    d = describe_conv(OP_CONV_STATS_FWD, &shapes[0], WITH(AFFINE));
    d.t[ROLE_X].rounds = d.t[ROLE_AFFINE].rounds = d.t[ROLE_Y].rounds = d.t[ROLE_W].rounds =
        DTYPE_BF16;
    assert_false(check(t, d, DTYPE_F32));
    struct devices older = {.gpu = t->old, .ref = t->ref};
    assert_false(check(&older, describe_conv(OP_CONV_STATS_FWD, &shapes[0], 0), DTYPE_F16));
}

static int open_devices(void **state)
{
    static struct devices t;
    const char *real = getenv("TEST_DEVICE");
    t = (struct devices){.real = real};
    OK(device_open(real ? real : "cuda:0", 1, &t.gpu));
    if (!real)
        OK(device_open("cuda:2", 1, &t.old));
    OK(device_open("ref", 1, &t.ref));
    *state = &t;
    return 0;
}

static int close_devices(void **state)
{
    struct devices *t = *state;
    printf("%d fused operations compared\n", t->compared);
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
        cmocka_unit_test(the_rest_is_declined),
    };
    return cmocka_run_group_tests_name("cuda_fused_ops", tests, open_devices, close_devices);
}
