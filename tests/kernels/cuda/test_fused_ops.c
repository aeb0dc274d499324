/* Compares the fused forms of convolution and batch norm of the CUDA backend with the reference, on
 * the fake GPU, and checks which forms it has. tests/kernels/test_fused.c compares the reference's
 * fused forms with plain operations. */
#include "tests/kernels/group.h"
#include "verify/comparison.h"
#include "verify/describe.h"

struct devices {
    struct device *gpu, *old, *ref;
};

static const enum dtype types[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
static const struct conv_shape shape = {2, 16, 6, 5, 8, {3, 3}, {1, 1}, {1, 1}, 1};

static bool has(struct device *dev, const struct op_desc *d)
{
    struct op_plan *plan;
    enum status st = op_plan(dev, d, &plan);
    op_plan_free(plan);
    if (st != STATUS_UNSUPPORTED)
        expect_ok(st);
    return st == STATUS_OK;
}

/* Whether an Ampere or later GPU has a form: in bf16, cuDNN applies no batch norm. The kernels
 * decline some windows of pooling. */
static bool is_expected(const struct op_desc *d, bool found)
{
    if (op_in(d->kind, OPS_BN_POOL))
        return found;
    return !op_in(d->kind, OPS_CONV_FUSED) || d->t[ROLE_X].type != DTYPE_BF16 ||
           (d->kind == OP_CONV_STATS_FWD && !d->t[ROLE_AFFINE].ndim);
}

/* Compares one of `stride` fused cases with the reference. */
static void compare(struct devices *t, const struct case_list *list, int stride)
{
    struct comparison c = {.dev = t->gpu, .ref = t->ref, .problem.number = -1};
    for (int i = 0; i < list->n; i++) {
        const struct op_desc *d = &list->item[i].desc;
        if (!is_fused(d))
            continue;
        bool found = has(t->gpu, d);
        if (found != is_expected(d, found))
            fail_msg("%s: the backend has %s plan", list->item[i].name, found ? "a" : "no");
        if (i % stride == 0)
            comparison_run(&c, i, &list->item[i]);
    }
    assert_int_equal(c.failed, 0);
    assert_true(c.passed > c.skipped);
    comparison_close(&c);
}

/* The rest of the table is compared by kernels_cuda_ops_whole. */
static void the_table_of_cases(void **state)
{
    struct case_list list;
    expect_ok(case_list_new(&list));
    compare(*state, &list, 4);
    case_list_free(&list);
}

/* Batch norms with more rows than a block processes at a time or a thread loads ahead, and with
 * whole and partial units of channels. */
static void long_batch_norms(void **state)
{
    static const int size[][4] = {{1, 3, 40, 41}, {2, 8, 40, 41}, {2, 64, 5, 5}, {2, 520, 3, 2}};
    static const struct {
        enum op_kind kind;
        uint64_t with;
    } form[] = {{OP_BN_FINALIZE, WITH(AFFINE)},
                {OP_BN_BWD_APPLY, 0},
                {OP_BN_APPLY, WITH(Z) | WITH(MASK)},
                {OP_BN_FWD_TRAIN, WITH(MASK)},
                {OP_BN_BWD, WITH(MASK) | WITH(DY2) | WITH(DZ)}};
    struct case_list list = {0};
    for (int i = 0; i < COUNT(size); i++)
        for (int f = 0; f < COUNT(form); f++)
            for (int k = 0; k < 3; k++) {
                const int *s = size[i];
                struct op_desc d =
                    describe_bn(form[f].kind, s[0], s[1], s[2], s[3], true, form[f].with);
                cases_add_one(&list, list.problems++, fused_of_type(d, types[k]), FILL_RANDOM, "");
            }
    expect_ok(list.status);
    compare(*state, &list, 1);
    case_list_free(&list);
}

/* The GPU declines unsuitable numbers of channels, Z without DY2 and DY2 without Z, statistics over
 * ranks, and emulated rounding. An older GPU declines all fused forms. */
static void the_rest_is_declined(void **state)
{
    static const struct bn_sync sync = {(enum status(*)(void *, double *, int64_t))1, NULL};
    const struct conv_shape few = {2, 3, 6, 6, 8, {3, 3}, {1, 1}, {1, 1}, 1};
    const struct conv_shape odd = {2, 8, 6, 6, 12, {3, 3}, {1, 1}, {1, 1}, 1};
    struct devices *t = *state;
    struct op_desc declined[] = {describe_conv(OP_CONV_STATS_FWD, &few, 0),
                                 describe_conv(OP_CONV_STATS_FWD, &odd, 0),
                                 describe_conv(OP_CONV_BWD_DATA_BN, &shape, WITH(Z)),
                                 describe_conv(OP_CONV_BWD_DATA_BN, &shape, WITH(DY2)),
                                 describe_bn(OP_BN_FINALIZE, 2, 8, 3, 3, false, 0)};
    declined[4].attr.bn.sync = &sync;
    for (int i = 0; i < COUNT(declined); i++) {
        struct op_desc d = fused_of_type(declined[i], DTYPE_F16);
        assert_false(has(t->gpu, &d));
    }
    struct op_desc d = describe_conv(OP_CONV_STATS_FWD, &shape, WITH(AFFINE));
    d.t[ROLE_X].rounds = d.t[ROLE_AFFINE].rounds = d.t[ROLE_Y].rounds = d.t[ROLE_W].rounds =
        DTYPE_BF16;
    d = fused_of_type(d, DTYPE_F32);
    assert_false(has(t->gpu, &d));
    d = fused_of_type(describe_conv(OP_CONV_STATS_FWD, &shape, 0), DTYPE_F16);
    assert_true(has(t->gpu, &d));
    assert_false(has(t->old, &d));
}

static int open_devices(void **state)
{
    static struct devices t;
    expect_ok(device_open("cuda:0", 1, &t.gpu));
    expect_ok(device_open("cuda:2", 1, &t.old));
    expect_ok(device_open("ref", 1, &t.ref));
    t.gpu->plans = 1; /* the first plan that runs: nothing is timed */
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
        cmocka_unit_test(the_table_of_cases),
        cmocka_unit_test(long_batch_norms),
        cmocka_unit_test(the_rest_is_declined),
    };
    return cmocka_run_group_tests(tests, open_devices, close_devices);
}
