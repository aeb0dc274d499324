/* Tests which operations can be planned. Invalid descriptions are refused before a backend gets
 * them, and the reference refuses what its header excludes. */
#include "tests/kernels/group.h"
#include "verify/cases.h"
#include "verify/describe.h"
#include "verify/precision.h"

/* One valid description of each kind: the fp32 case of the table with the most tensors, in plain
 * layouts. */
static struct op_desc sound[OP_KIND_COUNT];

static int count_tensors(const struct op_desc *d)
{
    int n = 0;
    for (int r = 0; r < ROLE_COUNT; r++)
        n += d->t[r].ndim > 0;
    return n;
}

static void choose_sound(void)
{
    struct case_list list;
    expect_ok(case_list_new(&list));
    for (int kind = 0; kind < OP_KIND_COUNT; kind++)
        sound[kind].kind = (enum op_kind)kind;
    for (int i = 0; i < list.n; i++) {
        const struct op_desc *d = &list.item[i].desc;
        struct op_desc *best = &sound[d->kind];
        bool fp32 = !precision_is_stored(d) && !precision_is_emulated(d);
        if ((fp32 || d->kind == OP_ROUND) && count_tensors(d) > count_tensors(best))
            *best = plain_form(d);
    }
    case_list_free(&list);
    static const struct sgd_segment whole[] = {{0, 10, 0}};
    sound[OP_SGD] = describe_sgd(10, &(struct sgd_attr){0.9f, false, 1, whole});
    sound[OP_CHECK_FINITE] = describe_check_finite(10, 1, whole);
    /* the table has no cases of the following kind */
    sound[OP_SCALE_UPDATE].attr.scaler =
        (struct scaler_rule){true, 65536, 2, 0.5, 2000, 16777216, 1};
}

static int setup(void **state)
{
    choose_sound();
    return rig_group_setup(state);
}

static void assert_refused(const struct op_desc *d, const char *what)
{
    enum status st = op_check(d);
    if (st != STATUS_INVALID)
        fail_msg("%s: %s is %s", op_str(d->kind), what, status_str(st));
    assert_true(strlen(status_message()) > 0);
}

static void missing_tensors(void **state)
{
    const uint64_t shapeless = WITH(STATE) | WITH(METRICS) | WITH(SCALER);
    for (int kind = 0; kind < OP_KIND_COUNT; kind++) {
        struct op_roles roles = op_roles((enum op_kind)kind);
        uint64_t needed = (roles.reads | roles.writes) & ~roles.optional & ~shapeless;
        for (int r = 0; r < ROLE_COUNT; r++) {
            struct op_desc d = sound[kind];
            if (!(needed >> r & 1))
                continue;
            d.t[r] = (struct tensor_desc){0};
            assert_refused(&d, role_str((enum role)r));
            assert_non_null(strstr(status_message(), "missing"));
        }
    }
}

/* Optional tensors that another tensor makes necessary: of a residual's batch norm, all or none. */
static void tensors_that_belong_together(void **state)
{
    static const struct {
        enum op_kind kind;
        uint64_t roles;
    } table[] = {
        {OP_CONV_BWD_DATA_BN, WITH_DATA_BN_OF_Z},
        {OP_BN_BWD, WITH_BN_OF_Z | WITH(DZ) | WITH(MASK)},
        {OP_BN_BWD_APPLY, WITH(Z) | WITH(Z_EQ) | WITH(DZ)},
        {OP_BN_FWD_TRAIN, WITH(Z)},
        {OP_BN_APPLY, WITH(Z)},
    };
    for (int k = 0; k < COUNT(table); k++)
        for (int r = 0; r < ROLE_COUNT; r++) {
            struct op_desc d = sound[table[k].kind];
            if (!(table[k].roles >> r & 1))
                continue;
            assert_true(d.t[r].ndim > 0);
            d.t[r] = (struct tensor_desc){0};
            assert_refused(&d, role_str((enum role)r));
        }
}

/* The size of most tensors follows from another tensor. A change of such a dimension must be
 * refused, and so must a size of 0 or below. */
static void shapes_that_disagree(void **state)
{
    for (int kind = 0; kind < OP_KIND_COUNT; kind++)
        for (int r = 0; r < ROLE_COUNT; r++)
            for (int i = 0; i < sound[kind].t[r].ndim; i++) {
                struct op_desc d = sound[kind];
                bool free_size = ((kind == OP_AVGPOOL_FWD || kind == OP_AVGPOOL_BWD) && i >= 2) ||
                                 (kind == OP_BN_STATISTICS && r == ROLE_X && i != 1);
                d.t[r].dim[i] += 5;
                if (!free_size)
                    assert_refused(&d, role_str((enum role)r));
                d.t[r].dim[i] = 0;
                assert_refused(&d, "an empty tensor");
                d.t[r].dim[i] = -3;
                assert_refused(&d, "a negative size");
            }
}

/* Makes one change to a sound description, and expects a refusal. */
#define REFUSE(kind_, change)                                                                      \
    do {                                                                                           \
        struct op_desc d = sound[kind_];                                                           \
        change;                                                                                    \
        assert_refused(&d, #change);                                                               \
    } while (0)

static void tensors_that_are_none(void **state)
{
    for (int kind = 0; kind < OP_KIND_COUNT; kind++)
        for (int r = 0; r < ROLE_COUNT; r++) {
            if (sound[kind].t[r].ndim == 0)
                continue;
            REFUSE(kind, d.t[r].ndim = TENSOR_MAX_DIMS + 1);
            REFUSE(kind, d.t[r].ndim = -1);
            REFUSE(kind, d.t[r].type = DTYPE_COUNT);
            REFUSE(kind, d.t[r].layout = (enum layout)(LAYOUT_OPAQUE + 1));
            if (!layout_fits(&sound[kind].t[r], LAYOUT_NCHW16C))
                REFUSE(kind, d.t[r].layout = LAYOUT_NCHW16C);
        }
}

static void attributes_of_windows(void **state)
{
    static const enum op_kind conv[] = {OP_CONV_FWD, OP_CONV_BWD_DATA, OP_CONV_BWD_WEIGHTS};
    static const enum op_kind maxpool[] = {OP_MAXPOOL_FWD, OP_MAXPOOL_BWD};
    static const enum op_kind pooled[] = {OP_BN_POOL_FWD, OP_BN_POOL_BWD};
    static const struct bn_sync sync = {0};
    for (int i = 0; i < 3; i++) {
        REFUSE(conv[i], d.attr.conv.stride[0] = 0);
        REFUSE(conv[i], d.attr.conv.stride[1] = -1);
        REFUSE(conv[i], d.attr.conv.stride[1] = 3);
        REFUSE(conv[i], d.attr.conv.pad[0] = -1);
        REFUSE(conv[i], d.attr.conv.pad[1] = (int)d.t[i == 2 ? ROLE_DW : ROLE_W].dim[3]);
        REFUSE(conv[i], d.attr.conv.groups = 0);
        REFUSE(conv[i], d.attr.conv.groups = 3);
        REFUSE(conv[i], d.attr.conv.groups = 4);
    }
    REFUSE(OP_CONV_STATS_FWD, d.attr.conv.relu = true);
    REFUSE(OP_CONV_STATS_FWD, d.attr.conv.stride[1] = 3);
    REFUSE(OP_CONV_APPLY_BWD_WEIGHTS, d.attr.conv.groups = 3);
    REFUSE(OP_CONV_BWD_DATA_BN, d.attr.conv.pad[0] = -1);
    for (int i = 0; i < 2; i++) {
        REFUSE(maxpool[i], d.attr.pool.kernel[0] = 0);
        REFUSE(maxpool[i], d.attr.pool.kernel[1] = 300);
        REFUSE(maxpool[i], d.attr.pool.stride[0] = 0);
        REFUSE(maxpool[i], d.attr.pool.pad[0] = -1);
        REFUSE(maxpool[i], d.attr.pool.pad[1] = 2);
        REFUSE(maxpool[i], d.t[ROLE_INDEX].type = DTYPE_F32);
        REFUSE(pooled[i], d.attr.bn.eps = 0);
        REFUSE(pooled[i], d.attr.bn.sync = &sync);
        REFUSE(pooled[i], d.attr.bn.pool.kernel[0] = 0);
        REFUSE(pooled[i], d.attr.bn.pool.stride[1] = 0);
        REFUSE(pooled[i], d.attr.bn.pool.pad[1] = 2);
        REFUSE(pooled[i], d.t[ROLE_INDEX].type = DTYPE_F32);
    }
    REFUSE(OP_ADD_STRIDED, d.attr.grid.stride[0] = 0);
    REFUSE(OP_ADD_STRIDED, d.attr.grid.stride[1] = 3);
    REFUSE(OP_ADD_STRIDED, d.t[ROLE_Y].dim[1] = 5);
}

static void other_attributes(void **state)
{
    REFUSE(OP_BN_FINALIZE, d.attr.bn.eps = 0);
    REFUSE(OP_BN_FINALIZE, d.attr.bn.count = 0);
    REFUSE(OP_BN_FINALIZE, d.attr.bn.count = 1);
    REFUSE(OP_BN_APPLY, d.t[ROLE_MASK].type = DTYPE_F32);
    REFUSE(OP_BN_FWD_TRAIN, d.attr.bn.eps = 0);
    REFUSE(OP_BN_FWD_EVAL, d.attr.bn.eps = -1e-5f);
    REFUSE(OP_BN_BWD, d.attr.bn.eps = NAN);
    REFUSE(OP_BN_STATISTICS, d.t[ROLE_X].dim[0] = d.t[ROLE_X].dim[2] = d.t[ROLE_X].dim[3] = 1);
    REFUSE(OP_DROPOUT_FWD, d.attr.dropout.p = 1);
    REFUSE(OP_DROPOUT_BWD, d.attr.dropout.p = -0.1f);
    REFUSE(OP_DROPOUT_FWD, d.attr.dropout.p = NAN);
    REFUSE(OP_SOFTMAX_XENT, d.attr.xent.label_smoothing = 1.5f);
    REFUSE(OP_SOFTMAX_XENT, d.attr.xent.label_smoothing = -0.1f);
    REFUSE(OP_SOFTMAX_XENT, d.attr.xent.label_smoothing = NAN);
    REFUSE(OP_SOFTMAX_XENT, d.t[ROLE_LABEL].type = DTYPE_F32);
    REFUSE(OP_SOFTMAX_XENT, d.t[ROLE_PARTNER] = tensor_1d(DTYPE_I32, 3));
    REFUSE(OP_SOFTMAX_XENT, d.t[ROLE_PARTNER].type = DTYPE_F32);
    REFUSE(OP_NORMALIZE, d.t[ROLE_PARTNER] = tensor_1d(DTYPE_I32, 3));
    REFUSE(OP_NORMALIZE, d.t[ROLE_PARTNER].type = DTYPE_F32);
    REFUSE(OP_NORMALIZE, d.t[ROLE_PARTNER] = tensor_2d(DTYPE_I32, 4, 1));
    REFUSE(OP_NORMALIZE, d.attr.normalize.std[2] = 0);
    REFUSE(OP_NORMALIZE, d.t[ROLE_X].type = DTYPE_F32);
    REFUSE(OP_NORMALIZE, d.t[ROLE_X].layout = LAYOUT_PLAIN);
    REFUSE(OP_SCALE_UPDATE, d.attr.scaler.growth = 0.5);
    REFUSE(OP_SCALE_UPDATE, d.attr.scaler.backoff = 0);
    REFUSE(OP_SCALE_UPDATE, d.attr.scaler.backoff = NAN);
    REFUSE(OP_SCALE_UPDATE, d.attr.scaler.interval = 0);
    REFUSE(OP_SCALE_UPDATE, d.attr.scaler.min = 1e30);
    REFUSE(OP_ADD, d.kind = OP_KIND_COUNT);
    REFUSE(OP_ADD, d.kind = (enum op_kind) - 1);
}

static void segments(void **state)
{
    static const struct {
        const char *what;
        int n;
        struct sgd_segment s[3];
        bool finite_too; /* OP_CHECK_FINITE refuses them as well */
    } table[] = {
        {"no segment", 0, {{0, 10, 0}}, true},
        {"a late begin", 1, {{1, 10, 0}}, true},
        {"an early end", 1, {{0, 9, 0}}, true},
        {"an end past the buffer", 1, {{0, 11, 0}}, true},
        {"a hole", 2, {{0, 4, 0}, {5, 10, 0}}, true},
        {"an overlap", 2, {{0, 6, 0}, {5, 10, 0}}, true},
        {"a segment backwards", 3, {{0, 8, 0}, {8, 4, 0}, {4, 10, 0}}, true},
        {"half without DW_HALF", 1, {{.end = 10, .half = true}}, true},
        {"an unknown type", 1, {{0, 10, 0, DTYPE_F32, DTYPE_I32, DTYPE_F32}}, true},
        {"a negative trust", 1, {{.end = 10, .trust = -1}}, false},
        {"a trust of NaN", 1, {{.end = 10, .trust = NAN}}, false},
    };
    for (int i = 0; i < COUNT(table); i++)
        for (int k = 0; k <= table[i].finite_too; k++) {
            struct op_desc d = sound[k ? OP_CHECK_FINITE : OP_SGD];
            d.attr.sgd.n_segments = table[i].n;
            d.attr.sgd.segment = table[i].s;
            assert_refused(&d, table[i].what);
        }
    REFUSE(OP_SGD, d.attr.sgd.segment = NULL);
    REFUSE(OP_SGD, d.t[ROLE_DW_HALF] = tensor_1d(DTYPE_F16, 9));
    REFUSE(OP_CHECK_FINITE, d.t[ROLE_DW_HALF] = tensor_1d(DTYPE_F16, 9));
    /* segments give the rounding, tensors must not */
    REFUSE(OP_SGD, d.t[ROLE_W].rounds = DTYPE_F16);
    REFUSE(OP_CHECK_FINITE, d.t[ROLE_DW].rounds = DTYPE_BF16);
}

static void precisions(void **state)
{
    REFUSE(OP_ADD, d.t[ROLE_X].type = DTYPE_TF32);
    REFUSE(OP_ADD, d.t[ROLE_X].rounds = DTYPE_U8);
    REFUSE(OP_ADD, d.t[ROLE_X].raw = true);
    REFUSE(OP_SOFTMAX_XENT, d.t[ROLE_LABEL].rounds = DTYPE_F16);
    REFUSE(OP_ROUND, d.t[ROLE_Y].raw = true);
    REFUSE(OP_ROUND, d.t[ROLE_Y].layout = LAYOUT_NHWC);
}

static void what_the_user_may_cause(void **state)
{
    struct op_desc d = describe_bn(OP_BN_FWD_TRAIN, 1, 4, 1, 1, false, 0);
    assert_refused(&d, "one value per channel");
    assert_non_null(strstr(status_message(), "larger batch"));
    d = describe_bn(OP_BN_FWD_EVAL, 1, 4, 1, 1, false, 0);
    expect_ok(op_check(&d));
    d = sound[OP_CONV_FWD];
    d.attr.conv.pad[0] = d.attr.conv.pad[1] = 0;
    d.t[ROLE_X].dim[2] = 2;
    assert_refused(&d, "an image smaller than the window");
    assert_non_null(strstr(status_message(), "smaller than"));
}

static enum status refuse(struct device *dev, const struct op_desc *desc, struct op_plan **plan)
{
    (void)dev;
    (void)desc;
    *plan = NULL;
    return status_fail(STATUS_UNSUPPORTED, "a library is not there");
}

/* op_plan checks the description first. After a failure the plan is NULL. If no implementation
 * covers an operation, the message has the library's reason. */
static void plans_are_refused(void **state)
{
    const struct device *ref = *state;
    const struct op_record record = {OP_SET(ADD), ~0u, ~0u, refuse};
    struct backend refusing = *ref->backend;
    struct device dev = *ref;
    struct op_desc d = sound[OP_CONV_FWD];
    struct op_plan *plan = (struct op_plan *)&d;
    d.attr.conv.groups = 0;
    assert_int_equal(op_plan(*state, &d, &plan), STATUS_INVALID);
    assert_null(plan);
    op_plan_free(plan);
    refusing.n_records = 1;
    refusing.record = &record;
    dev.backend = &refusing;
    assert_int_equal(op_plan(&dev, &sound[OP_ADD], &plan), STATUS_UNSUPPORTED);
    assert_null(plan);
    assert_non_null(strstr(status_message(), ": a library is not there"));
    assert_int_equal(op_plan(&dev, &sound[OP_RELU_FWD], &plan), STATUS_UNSUPPORTED);
    assert_null(strstr(status_message(), "a library is not there"));
}

static void the_reference_declines(void **state)
{
    struct op_plan *plan;
    for (int kind = 0; kind < OP_KIND_COUNT; kind++) {
        expect_ok(op_plan(*state, &sound[kind], &plan));
        op_plan_free(plan);
        for (int r = 0; r < ROLE_COUNT; r++) {
            struct op_desc d = sound[kind];
            if (d.t[r].ndim == 0 || d.t[r].type != DTYPE_F32)
                continue;
            d.t[r].layout = LAYOUT_OPAQUE;
            if (kind == OP_ROUND) /* OP_ROUND requires one layout for X and Y */
                d.t[ROLE_X].layout = d.t[ROLE_Y].layout = LAYOUT_OPAQUE;
            assert_int_equal(op_plan(*state, &d, &plan), STATUS_UNSUPPORTED);
            d = sound[kind];
            d.t[r].type = DTYPE_F64;
            d.t[r].rounds = DTYPE_F32; /* no rounding: only F32 tensors may be rounded */
            assert_int_equal(op_plan(*state, &d, &plan), STATUS_UNSUPPORTED);
            assert_null(plan);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(missing_tensors),
        cmocka_unit_test(tensors_that_belong_together),
        cmocka_unit_test(shapes_that_disagree),
        cmocka_unit_test(tensors_that_are_none),
        cmocka_unit_test(attributes_of_windows),
        cmocka_unit_test(other_attributes),
        cmocka_unit_test(segments),
        cmocka_unit_test(precisions),
        cmocka_unit_test(what_the_user_may_cause),
        cmocka_unit_test(plans_are_refused),
        cmocka_unit_test(the_reference_declines),
    };
    return cmocka_run_group_tests_name("op_contract", tests, setup, rig_group_teardown);
}
