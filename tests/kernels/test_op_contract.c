/* Tests which operations can be planned. Invalid descriptions are refused before a backend gets
 * them. The reference chooses a layout for LAYOUT_ANY, and refuses what its header excludes. */
#include "tests/kernels/group.h"
#include "verify/describe.h"
#include "verify/rig.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct sgd_segment whole[] = {{0, 10, 0}};

static const struct pool_attr pool = {{3, 3}, {2, 2}, {1, 1}};

/* Valid descriptions of operations other than convolution and batch norm. */
static struct op_desc sound_rest(enum op_kind kind)
{
    struct tensor_desc like = plain_4d(2, 4, 3, 3);
    switch (kind) {
    case OP_MAXPOOL_FWD:
        return describe_maxpool(kind, 2, 4, 8, 8, &pool, WITH(INDEX));
    case OP_MAXPOOL_BWD:
        return describe_maxpool(kind, 2, 4, 8, 8, &pool, WITH(DY2));
    case OP_AVGPOOL_FWD:
    case OP_AVGPOOL_BWD:
        return describe_avgpool(kind, 2, 4, 7, 7, 1, 1);
    case OP_ADD_STRIDED:
        return describe_add_strided(2, 4, 7, 8, &(struct grid_attr){{2, 3}});
    case OP_LINEAR_FWD:
        return describe_linear(kind, 2, 7, 5, WITH(B));
    case OP_LINEAR_BWD_DATA:
        return describe_linear(kind, 2, 7, 5, 0);
    case OP_LINEAR_BWD_WEIGHTS:
        return describe_linear(kind, 2, 7, 5, WITH(DB));
    case OP_RELU_BWD:
        return describe_like(kind, like, WITH(DY2));
    case OP_SOFTMAX_XENT:
        return describe_xent(4, 6, 0.1f, WITH(DX));
    case OP_SGD:
        return describe_sgd(10, &(struct sgd_attr){0.9f, false, 1, whole});
    case OP_CHECK_FINITE:
        return describe_check_finite(10, 1, whole);
    case OP_SCALE_SET:
        return (struct op_desc){.kind = kind};
    case OP_SCALE_UPDATE:
        return (struct op_desc){.kind = kind,
                                .attr.scaler = {true, 65536, 2, 0.5, 2000, 16777216, 1}};
    case OP_ROUND: {
        struct op_desc d = describe_like(kind, like, 0);
        d.t[ROLE_Y].rounds = DTYPE_F16;
        return d;
    }
    case OP_NORMALIZE:
        return describe_normalize(2, 4, 4, 0);
    default:
        return describe_like(kind, like, 0);
    }
}

/* A valid description of every kind. */
static struct op_desc sound(enum op_kind kind)
{
    static const struct conv_shape conv = {2, 4, 8, 8, 6, {3, 3}, {2, 2}, {1, 1}, 2};
    switch (kind) {
    case OP_CONV_FWD:
        return describe_conv(kind, &conv, WITH(B));
    case OP_CONV_BWD_DATA:
        return describe_conv(kind, &conv, 0);
    case OP_CONV_BWD_WEIGHTS:
        return describe_conv(kind, &conv, WITH(DB));
    case OP_CONV_STATS_FWD:
        return describe_conv(kind, &conv, WITH_END | WITH(Z_AFFINE));
    case OP_CONV_APPLY_BWD_WEIGHTS:
        return describe_conv(kind, &conv, 0);
    case OP_CONV_BWD_DATA_BN:
        return describe_conv(kind, &conv, WITH(DY2) | WITH_DATA_BN_OF_Z);
    case OP_BN_FWD_TRAIN:
    case OP_BN_APPLY:
        return describe_bn(kind, 2, 4, 3, 3, true, WITH(Z) | WITH(Z_AFFINE) | WITH(MASK));
    case OP_BN_FINALIZE:
        return describe_bn(kind, 2, 4, 3, 3, true, WITH(AFFINE));
    case OP_BN_BWD_APPLY:
        return describe_bn(kind, 2, 4, 3, 3, true, WITH(Z) | WITH(Z_EQ) | WITH(DZ));
    case OP_BN_FWD_EVAL:
        return describe_bn(kind, 2, 4, 3, 3, true, WITH(Z));
    case OP_BN_BWD:
        return describe_bn(kind, 2, 4, 3, 3, true, WITH(DY2) | WITH(DZ) | WITH_BN_OF_Z);
    case OP_BN_STATISTICS:
    case OP_BN_POOL_FWD:
        return describe_bn_pool(kind, 2, 4, 8, 8, &pool, 0);
    case OP_BN_POOL_BWD:
        return describe_bn_pool(kind, 2, 4, 8, 8, &pool, WITH(DY2));
    default:
        return sound_rest(kind);
    }
}

static void assert_refused(const struct op_desc *d, const char *what)
{
    enum status st = op_check(d);
    if (st != STATUS_INVALID)
        fail_msg("%s: %s is %s", op_str(d->kind), what, status_str(st));
    assert_true(strlen(status_message()) > 0);
}

static void test_sound_ones_pass(void **state)
{
    (void)state;
    for (int kind = 0; kind < OP_KIND_COUNT; kind++) {
        struct op_desc d = sound((enum op_kind)kind);
        OK(op_check(&d));
    }
}

static void test_missing_tensors(void **state)
{
    (void)state;
    for (int kind = 0; kind < OP_KIND_COUNT; kind++) {
        struct op_roles roles = op_roles((enum op_kind)kind);
        uint64_t needed = (roles.reads | roles.writes) & ~roles.optional;
        for (int r = 0; r < ROLE_COUNT; r++) {
            struct op_desc d = sound((enum op_kind)kind);
            if (!(needed >> r & 1) || r == ROLE_STATE || r == ROLE_METRICS || r == ROLE_SCALER)
                continue;
            d.t[r] = (struct tensor_desc){0};
            assert_refused(&d, role_str((enum role)r));
            assert_non_null(strstr(status_message(), "missing"));
        }
    }
    struct op_desc d = sound(OP_BN_BWD);
    d.t[ROLE_Y] = (struct tensor_desc){0};
    assert_refused(&d, "ReLU without Y");
}

/* A description must have either all tensors of the residual's batch norm, or none of them. */
static void test_parts_of_the_residual(void **state)
{
    static const enum op_kind kinds[] = {OP_CONV_BWD_DATA_BN, OP_BN_BWD, OP_BN_BWD_APPLY};
    (void)state;
    for (int k = 0; k < 3; k++)
        for (int r = ROLE_Z_GAMMA; r <= ROLE_Z_EQ; r++) {
            struct op_desc d = sound(kinds[k]);
            if (d.t[r].ndim == 0)
                continue;
            d.t[r] = (struct tensor_desc){0};
            assert_refused(&d, role_str((enum role)r));
        }
    static const enum op_kind without_z[] = {OP_BN_FWD_TRAIN, OP_BN_APPLY, OP_BN_BWD,
                                             OP_CONV_BWD_DATA_BN, OP_BN_BWD_APPLY};
    for (int k = 0; k < 5; k++) {
        struct op_desc d = sound(without_z[k]);
        d.t[ROLE_Z] = (struct tensor_desc){0};
        assert_refused(&d, "no Z");
    }
    struct op_desc d = sound(OP_BN_BWD);
    d.t[ROLE_DZ] = (struct tensor_desc){0};
    assert_refused(&d, "no DZ");
}

/* The size of most tensors follows from another tensor. A change of such a dimension must be
 * refused, and so must a size of 0 or below. */
static void test_shapes_that_disagree(void **state)
{
    (void)state;
    for (int kind = 0; kind < OP_KIND_COUNT; kind++)
        for (int r = 0; r < ROLE_COUNT; r++)
            for (int i = 0; i < sound((enum op_kind)kind).t[r].ndim; i++) {
                struct op_desc d = sound((enum op_kind)kind);
                bool free_size = ((kind == OP_AVGPOOL_FWD || kind == OP_AVGPOOL_BWD) && i >= 2) ||
                                 (kind == OP_BN_STATISTICS && r == ROLE_X && i != 1);
                if (!free_size) {
                    d.t[r].dim[i] += 5;
                    assert_refused(&d, role_str((enum role)r));
                }
                d = sound((enum op_kind)kind);
                d.t[r].dim[i] = 0;
                assert_refused(&d, "an empty tensor");
                d.t[r].dim[i] = -3;
                assert_refused(&d, "a negative size");
            }
}

static void test_tensors_that_are_none(void **state)
{
    (void)state;
    for (int kind = 0; kind < OP_KIND_COUNT; kind++)
        for (int r = 0; r < ROLE_COUNT; r++) {
            struct op_desc good = sound((enum op_kind)kind), d = good;
            if (good.t[r].ndim == 0)
                continue;
            d.t[r].ndim = TENSOR_MAX_DIMS + 1;
            assert_refused(&d, "too many dimensions");
            d.t[r].ndim = -1;
            assert_refused(&d, "negative dimensions");
            d = good;
            d.t[r].type = DTYPE_COUNT;
            assert_refused(&d, "an unknown type");
            d = good;
            d.t[r].layout = (enum layout)(LAYOUT_OPAQUE + 1);
            assert_refused(&d, "an unknown layout");
            d = good;
            d.t[r].layout = LAYOUT_NCHW16C;
            assert_refused(&d, "a layout that does not allow the number of channels");
        }
}

/* Sets one attribute at a time to a value out of range. */
#define REFUSE(kind_, change)                                                                      \
    do {                                                                                           \
        struct op_desc d = sound(kind_);                                                           \
        change;                                                                                    \
        assert_refused(&d, #change);                                                               \
    } while (0)

static void test_attributes(void **state)
{
    (void)state;
    static const enum op_kind conv[] = {OP_CONV_FWD, OP_CONV_BWD_DATA, OP_CONV_BWD_WEIGHTS};
    for (int i = 0; i < 3; i++) {
        REFUSE(conv[i], d.attr.conv.stride[0] = 0);
        REFUSE(conv[i], d.attr.conv.stride[1] = -1);
        REFUSE(conv[i], d.attr.conv.stride[1] = 3);
        REFUSE(conv[i], d.attr.conv.pad[0] = -1);
        REFUSE(conv[i], d.attr.conv.pad[1] = 3);
        REFUSE(conv[i], d.attr.conv.groups = 0);
        REFUSE(conv[i], d.attr.conv.groups = 3);
        REFUSE(conv[i], d.attr.conv.groups = 4);
    }
    REFUSE(OP_CONV_STATS_FWD, d.attr.conv.relu = true);
    REFUSE(OP_CONV_STATS_FWD, d.attr.conv.stride[1] = 3);
    REFUSE(OP_CONV_APPLY_BWD_WEIGHTS, d.attr.conv.groups = 3);
    REFUSE(OP_CONV_BWD_DATA_BN, d.attr.conv.pad[0] = -1);
    REFUSE(OP_BN_FINALIZE, d.attr.bn.eps = 0);
    REFUSE(OP_BN_FINALIZE, d.attr.bn.count = 0);
    REFUSE(OP_BN_FINALIZE, d.attr.bn.count = 1);
    REFUSE(OP_BN_FWD_TRAIN, d.t[ROLE_MASK].type = DTYPE_F32);
    REFUSE(OP_BN_FWD_TRAIN, d.attr.bn.eps = 0);
    REFUSE(OP_BN_FWD_EVAL, d.attr.bn.eps = -1e-5f);
    REFUSE(OP_BN_BWD, d.attr.bn.eps = NAN);
    static const enum op_kind maxpool[] = {OP_MAXPOOL_FWD, OP_MAXPOOL_BWD};
    for (int i = 0; i < 2; i++) {
        REFUSE(maxpool[i], d.attr.pool.kernel[0] = 0);
        REFUSE(maxpool[i], d.attr.pool.kernel[1] = 300);
        REFUSE(maxpool[i], d.attr.pool.stride[0] = 0);
        REFUSE(maxpool[i], d.attr.pool.pad[0] = -1);
        REFUSE(maxpool[i], d.attr.pool.pad[1] = 2);
        REFUSE(maxpool[i], d.t[ROLE_INDEX].type = DTYPE_F32);
    }
    static const struct bn_sync sync = {0};
    static const enum op_kind pooled[] = {OP_BN_POOL_FWD, OP_BN_POOL_BWD};
    for (int i = 0; i < 2; i++) {
        REFUSE(pooled[i], d.attr.bn.eps = 0);
        REFUSE(pooled[i], d.attr.bn.sync = &sync);
        REFUSE(pooled[i], d.attr.bn.pool.kernel[0] = 0);
        REFUSE(pooled[i], d.attr.bn.pool.stride[1] = 0);
        REFUSE(pooled[i], d.attr.bn.pool.pad[1] = 2);
        REFUSE(pooled[i], d.t[ROLE_INDEX].type = DTYPE_F32);
    }
    REFUSE(OP_BN_STATISTICS, d.t[ROLE_X].dim[0] = d.t[ROLE_X].dim[2] = d.t[ROLE_X].dim[3] = 1);
    REFUSE(OP_ADD_STRIDED, d.attr.grid.stride[0] = 0);
    REFUSE(OP_ADD_STRIDED, d.attr.grid.stride[1] = 2);
    REFUSE(OP_ADD_STRIDED, d.t[ROLE_Y].dim[1] = 5);
    REFUSE(OP_DROPOUT_FWD, d.attr.dropout.p = 1);
    REFUSE(OP_DROPOUT_BWD, d.attr.dropout.p = -0.1f);
    REFUSE(OP_DROPOUT_FWD, d.attr.dropout.p = NAN);
    REFUSE(OP_SOFTMAX_XENT, d.attr.xent.label_smoothing = 1.5f);
    REFUSE(OP_SOFTMAX_XENT, d.attr.xent.label_smoothing = -0.1f);
    REFUSE(OP_SOFTMAX_XENT, d.attr.xent.label_smoothing = NAN);
    REFUSE(OP_SOFTMAX_XENT, d.t[ROLE_LABEL].type = DTYPE_F32);
    REFUSE(OP_SOFTMAX_XENT, d.t[ROLE_PARTNER] = tensor_1d(DTYPE_I32, 3));
    REFUSE(OP_SOFTMAX_XENT, d.t[ROLE_PARTNER] = tensor_1d(DTYPE_F32, 4));
    REFUSE(OP_NORMALIZE, d.t[ROLE_PARTNER] = tensor_1d(DTYPE_I32, 3));
    REFUSE(OP_NORMALIZE, d.t[ROLE_PARTNER] = tensor_1d(DTYPE_F32, 2));
    REFUSE(OP_NORMALIZE, d.t[ROLE_PARTNER] = tensor_2d(DTYPE_I32, 2, 1));
    REFUSE(OP_NORMALIZE, d.attr.normalize.std[2] = 0);
    REFUSE(OP_NORMALIZE, d.t[ROLE_X].type = DTYPE_F32);
    REFUSE(OP_NORMALIZE, d.t[ROLE_X].layout = LAYOUT_PLAIN);
}

static void test_sgd_segments(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        int n;
        struct sgd_segment s[3];
    } table[] = {
        {"no segment", 0, {{0, 10, 0}}},
        {"a late begin", 1, {{1, 10, 0}}},
        {"an early end", 1, {{0, 9, 0}}},
        {"an end past the buffer", 1, {{0, 11, 0}}},
        {"a hole", 2, {{0, 4, 0}, {5, 10, 0}}},
        {"an overlap", 2, {{0, 6, 0}, {5, 10, 0}}},
        {"a segment backwards", 3, {{0, 8, 0}, {8, 4, 0}, {4, 10, 0}}},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct sgd_attr attr = {0.9f, false, table[i].n, table[i].s};
        struct op_desc d = describe_sgd(10, &attr);
        assert_refused(&d, table[i].what);
    }
    static const struct sgd_segment half[] = {{.end = 10, .half = true}};
    REFUSE(OP_SGD, d.attr.sgd.segment = half); /* without DW_HALF */
    REFUSE(OP_CHECK_FINITE, d.attr.sgd.segment = half);
    REFUSE(OP_SGD, d.t[ROLE_DW_HALF] = tensor_1d(DTYPE_F16, 9));
    REFUSE(OP_CHECK_FINITE, d.t[ROLE_DW_HALF] = tensor_1d(DTYPE_F16, 9));
    static const struct sgd_segment distrust[] = {{.end = 10, .trust = -1}};
    static const struct sgd_segment unknown[] = {{.end = 10, .trust = NAN}};
    REFUSE(OP_SGD, d.attr.sgd.segment = distrust);
    REFUSE(OP_SGD, d.attr.sgd.segment = unknown);
    REFUSE(OP_SGD, d.attr.sgd.segment = NULL);
    REFUSE(OP_CHECK_FINITE, d.attr.sgd.n_segments = 0);
    REFUSE(OP_SCALE_UPDATE, d.attr.scaler.growth = 0.5);
    REFUSE(OP_SCALE_UPDATE, d.attr.scaler.backoff = 0);
    REFUSE(OP_SCALE_UPDATE, d.attr.scaler.backoff = NAN);
    REFUSE(OP_SCALE_UPDATE, d.attr.scaler.interval = 0);
    REFUSE(OP_SCALE_UPDATE, d.attr.scaler.min = 1e30);
}

static void test_precisions(void **state)
{
    (void)state;
    REFUSE(OP_ADD, d.t[ROLE_X].type = DTYPE_TF32);
    REFUSE(OP_ADD, d.t[ROLE_X].rounds = DTYPE_U8);
    REFUSE(OP_ADD, d.t[ROLE_X].raw = true);
    REFUSE(OP_SOFTMAX_XENT, d.t[ROLE_LABEL].rounds = DTYPE_F16);
    REFUSE(OP_ROUND, d.t[ROLE_Y].raw = true);
    REFUSE(OP_ROUND, d.t[ROLE_Y].layout = LAYOUT_NHWC);
    static const struct sgd_segment odd[] = {{0, 10, 0, DTYPE_F32, DTYPE_I32, DTYPE_F32}};
    REFUSE(OP_SGD, d.attr.sgd.segment = odd);
    REFUSE(OP_CHECK_FINITE, d.attr.sgd.segment = odd);
    /* segments give the rounding, tensors must not */
    REFUSE(OP_SGD, d.t[ROLE_W].rounds = DTYPE_F16);
    REFUSE(OP_CHECK_FINITE, d.t[ROLE_DW].rounds = DTYPE_BF16);
}

static void test_what_the_user_may_cause(void **state)
{
    (void)state;
    struct op_desc d = describe_bn(OP_BN_FWD_TRAIN, 1, 4, 1, 1, false, 0);
    assert_refused(&d, "one value per channel");
    assert_non_null(strstr(status_message(), "larger batch"));
    d = describe_bn(OP_BN_FWD_EVAL, 1, 4, 1, 1, false, 0);
    OK(op_check(&d));

    d = sound(OP_CONV_FWD);
    d.t[ROLE_X].dim[2] = 0;
    assert_refused(&d, "no image");
    d = sound(OP_CONV_FWD);
    d.attr.conv.pad[0] = d.attr.conv.pad[1] = 0;
    d.t[ROLE_X].dim[2] = 2;
    assert_refused(&d, "an image smaller than the window");
    assert_non_null(strstr(status_message(), "smaller than"));
}

static void test_unknown_kinds(void **state)
{
    (void)state;
    struct op_desc d = sound(OP_ADD);
    d.kind = OP_KIND_COUNT;
    assert_int_equal(op_check(&d), STATUS_INVALID);
    d.kind = (enum op_kind) - 1;
    assert_int_equal(op_check(&d), STATUS_INVALID);
}

/* op_plan checks the description first. After a failure the plan is NULL. */
static void test_plan_refuses(void **state)
{
    struct op_desc d = sound(OP_CONV_FWD);
    d.attr.conv.groups = 0;
    struct op_plan *plan = (struct op_plan *)&d;
    assert_int_equal(op_plan(*state, &d, &plan), STATUS_INVALID);
    assert_null(plan);
    op_plan_free(plan);
}

static enum status refuse(struct device *dev, const struct op_desc *desc, struct op_plan **plan)
{
    (void)dev;
    (void)desc;
    *plan = NULL;
    return status_fail(STATUS_UNSUPPORTED, "a library is not there");
}

/* If no implementation covers an operation, the message may contain only the library's reason. */
static void test_plan_says_why(void **state)
{
    const struct device *ref = *state;
    const struct op_record record = {OP_SET(ADD), ~0u, ~0u, refuse};
    struct backend refusing = *ref->backend;
    struct device dev = *ref;
    struct op_desc d = sound(OP_ADD);
    struct op_plan *plan;
    refusing.n_records = 1;
    refusing.record = &record;
    dev.backend = &refusing;
    assert_int_equal(op_plan(&dev, &d, &plan), STATUS_UNSUPPORTED);
    assert_null(plan);
    assert_non_null(strstr(status_message(), "device 'ref' has no "));
    assert_non_null(strstr(status_message(), ": a library is not there"));
    d = sound(OP_RELU_FWD);
    assert_int_equal(op_plan(&dev, &d, &plan), STATUS_UNSUPPORTED);
    assert_null(strstr(status_message(), "a library is not there"));
}

/* --- properties of the reference --- */

static void test_ref_declines(void **state)
{
    struct op_plan *plan;
    for (int kind = 0; kind < OP_KIND_COUNT; kind++) {
        struct op_desc good = sound((enum op_kind)kind);
        OK(op_plan(*state, &good, &plan));
        assert_string_equal(plan->impl, "ref");
        op_plan_free(plan);
        for (int r = 0; r < ROLE_COUNT; r++) {
            struct op_desc d = good;
            if (d.t[r].ndim == 0 || d.t[r].type != DTYPE_F32)
                continue;
            d.t[r].layout = LAYOUT_OPAQUE;
            if (kind == OP_ROUND) /* OP_ROUND requires one layout for X and Y */
                d.t[ROLE_X].layout = d.t[ROLE_Y].layout = LAYOUT_OPAQUE;
            assert_int_equal(op_plan(*state, &d, &plan), STATUS_UNSUPPORTED);
            d = good;
            d.t[r].type = DTYPE_F64;
            d.t[r].rounds = DTYPE_F32; /* no rounding: only F32 tensors may be rounded */
            assert_int_equal(op_plan(*state, &d, &plan), STATUS_UNSUPPORTED);
            assert_null(plan);
        }
    }
}

/* An input tensor may be unrounded (`raw`). An output tensor is never unrounded, even if the
 * description says so. */
static void test_ref_rounds(void **state)
{
    static const enum dtype precision[] = {DTYPE_F16, DTYPE_BF16, DTYPE_TF32};
    for (int kind = 0; kind < OP_KIND_COUNT; kind++)
        for (int r = 0; r < ROLE_COUNT; r++) {
            struct op_desc d = sound((enum op_kind)kind);
            bool segments = kind == OP_SGD || kind == OP_CHECK_FINITE;
            if (d.t[r].ndim == 0 || d.t[r].type != DTYPE_F32 || segments)
                continue;
            bool written = op_roles((enum op_kind)kind).writes >> r & 1;
            for (int i = 0; i < 3; i++) {
                struct op_plan *plan;
                d.t[r].rounds = precision[i];
                d.t[r].raw = kind != OP_ROUND || !written;
                OK(op_plan(*state, &d, &plan));
                assert_int_equal(plan->desc.t[r].rounds, precision[i]);
                assert_int_equal(plan->desc.t[r].raw, !written);
                op_plan_free(plan);
            }
        }
}

/* A skipped optimizer step leaves its outputs unchanged, so the outputs count as inputs too. A
 * finite check writes only one flag. */
static void test_partial_writes_are_reads(void **state)
{
    (void)state;
    struct op_roles sgd = op_roles(OP_SGD), check = op_roles(OP_CHECK_FINITE);
    assert_int_equal(sgd.writes & ~sgd.reads, 0);
    assert_int_equal(check.writes, WITH(STATE));
    assert_int_equal(check.writes & ~check.reads, 0);
}

static enum layout chosen(struct device *ref, const struct op_desc *d, enum role role)
{
    struct op_plan *plan;
    OK(op_plan(ref, d, &plan));
    enum layout layout = plan->desc.t[role].layout;
    const struct tensor_desc *t = &plan->desc.t[role];
    assert_int_equal(t->bytes, tensor_count(t) * (int64_t)dtype_size(t->type));
    op_plan_free(plan);
    return layout;
}

static void test_ref_resolves_layouts(void **state)
{
    struct conv_shape shape = {1, 16, 4, 4, 12, {1, 1}, {1, 1}, {0, 0}, 1};
    struct op_desc d = describe_conv(OP_CONV_FWD, &shape, 0);
    for (int r = 0; r < ROLE_COUNT; r++)
        if (d.t[r].ndim)
            d.t[r] = in_layout(d.t[r], LAYOUT_ANY);
    assert_int_equal(chosen(*state, &d, ROLE_X), LAYOUT_PLAIN);
    d.t[ROLE_X].layout = LAYOUT_NHWC;
    assert_int_equal(chosen(*state, &d, ROLE_Y), LAYOUT_NHWC);
    assert_int_equal(chosen(*state, &d, ROLE_W), LAYOUT_PLAIN);
    d.t[ROLE_X].layout = LAYOUT_NCHW16C;
    assert_int_equal(chosen(*state, &d, ROLE_X), LAYOUT_NCHW16C);
    assert_int_equal(chosen(*state, &d, ROLE_Y), LAYOUT_PLAIN); /* 12 channels do not fit NCHW16C */

    d = describe_normalize(1, 2, 2, 0);
    d.t[ROLE_Y].layout = LAYOUT_ANY;
    assert_int_equal(chosen(*state, &d, ROLE_Y), LAYOUT_PLAIN);
    d = describe_like(OP_RELU_BWD, plain_4d(1, 8, 2, 2), 0);
    d.t[ROLE_DX].layout = d.t[ROLE_Y].layout = LAYOUT_ANY;
    d.t[ROLE_DY].layout = LAYOUT_NCHW8C;
    assert_int_equal(chosen(*state, &d, ROLE_DX), LAYOUT_NCHW8C);
    assert_int_equal(chosen(*state, &d, ROLE_Y), LAYOUT_NCHW8C);
}

static void test_ref_has_one_thread(void **state)
{
    struct device *dev = *state;
    char line[256];
    dev->backend->describe(dev, line, sizeof line);
    assert_non_null(strstr(line, "reference"));
    assert_int_equal(dev->threads, 1);
    assert_int_equal(device_open("ref:1", 2, &dev), STATUS_OK);
    assert_int_equal(dev->index, 1);
    assert_int_equal(dev->threads, 1);
    device_close(dev);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sound_ones_pass),
        cmocka_unit_test(test_parts_of_the_residual),
        cmocka_unit_test(test_missing_tensors),
        cmocka_unit_test(test_shapes_that_disagree),
        cmocka_unit_test(test_tensors_that_are_none),
        cmocka_unit_test(test_attributes),
        cmocka_unit_test(test_sgd_segments),
        cmocka_unit_test(test_precisions),
        cmocka_unit_test(test_what_the_user_may_cause),
        cmocka_unit_test(test_unknown_kinds),
        cmocka_unit_test(test_plan_refuses),
        cmocka_unit_test(test_plan_says_why),
        cmocka_unit_test(test_ref_declines),
        cmocka_unit_test(test_ref_resolves_layouts),
        cmocka_unit_test(test_ref_has_one_thread),
        cmocka_unit_test(test_ref_rounds),
        cmocka_unit_test(test_partial_writes_are_reads),
    };
    return cmocka_run_group_tests(tests, rig_group_setup, rig_group_teardown);
}
