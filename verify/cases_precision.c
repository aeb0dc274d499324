/* Cases of narrow precision: every kind of operation with fp32 tensors that emulate a type (rounded
 * or unrounded), and with tensors of a 16-bit type; results that overflow, underflow or tie; and
 * every mix of precisions in the optimizer. */
#include "verify/cases.h"
#include "verify/describe.h"
#include "verify/precision.h"

/* The precision of a case's tensors. */
struct variant {
    enum dtype precision;
    bool raw;
    enum fill fill;
    bool stored;
};

static void add(struct case_list *list, const struct op_desc *d, const struct variant *v, int n)
{
    for (int i = 0; i < n; i++) {
        struct op_desc narrow = v[i].stored ? with_type(d, v[i].precision)
                                            : with_precision(d, v[i].precision, v[i].raw);
        if (op_in(d->kind, OPS_DROPOUT))
            cases_add_one(list, list->problems++, narrow, v[i].fill, "plain");
        else
            cases_add(list, narrow, v[i].fill);
    }
}

/* Adds cases for operations that libraries compute. Libraries do not support unrounded inputs; one
 * case requests them nevertheless. */
static void add_dense(struct case_list *list, struct op_desc d)
{
    static const struct variant v[] = {
        {DTYPE_F16, false, FILL_RANDOM},        {DTYPE_F16, false, FILL_HUGE},
        {DTYPE_F16, false, FILL_TINY},          {DTYPE_F16, true, FILL_RANDOM},
        {DTYPE_BF16, false, FILL_RANDOM},       {DTYPE_TF32, false, FILL_RANDOM},
        {DTYPE_BF16, false, FILL_RANDOM, true}, {DTYPE_BF16, false, FILL_HUGE, true},
        {DTYPE_BF16, false, FILL_TINY, true},   {DTYPE_F16, false, FILL_RANDOM, true},
        {DTYPE_F16, false, FILL_HUGE, true},
    };
    add(list, &d, v, sizeof v / sizeof *v);
}

static void add_fused(struct case_list *list, struct op_desc d)
{
    static const struct variant v[] = {
        {DTYPE_F16, false, FILL_RANDOM},        {DTYPE_F16, true, FILL_RANDOM},
        {DTYPE_F16, true, FILL_HUGE},           {DTYPE_F16, true, FILL_TINY},
        {DTYPE_BF16, false, FILL_RANDOM},       {DTYPE_BF16, true, FILL_RANDOM},
        {DTYPE_BF16, false, FILL_RANDOM, true}, {DTYPE_F16, false, FILL_RANDOM, true},
        {DTYPE_F16, false, FILL_HUGE, true},    {DTYPE_F16, false, FILL_TINY, true},
    };
    add(list, &d, v, sizeof v / sizeof *v);
}

/* Adds cases for operations in which each element of the result is an input value or the sum of two
 * input values. */
static void add_simple(struct case_list *list, struct op_desc d)
{
    static const struct variant v[] = {
        {DTYPE_F16, false, FILL_TIES},       {DTYPE_F16, true, FILL_TIES},
        {DTYPE_F16, false, FILL_HUGE},       {DTYPE_F16, true, FILL_HUGE},
        {DTYPE_F16, false, FILL_TINY},       {DTYPE_F16, true, FILL_TINY},
        {DTYPE_BF16, true, FILL_TIES},       {DTYPE_BF16, false, FILL_RANDOM},
        {DTYPE_F16, false, FILL_TIES, true}, {DTYPE_F16, false, FILL_HUGE, true},
        {DTYPE_F16, false, FILL_TINY, true}, {DTYPE_BF16, false, FILL_TIES, true},
    };
    static const struct variant nan[] = {{DTYPE_F16, true, FILL_NAN},
                                         {DTYPE_F16, false, FILL_NAN, true},
                                         {DTYPE_BF16, false, FILL_NAN, true}};
    add(list, &d, v, sizeof v / sizeof *v);
    if (op_roles(d.kind).reads & WITH(X))
        add(list, &d, nan, 3);
}

static void cases_dense(struct case_list *list)
{
    static const struct conv_shape shape[] = {
        {2, 32, 5, 5, 32, {3, 3}, {1, 1}, {1, 1}, 1},
        {2, 17, 6, 5, 9, {1, 1}, {2, 2}, {0, 0}, 1},
        {3, 20, 6, 5, 9, {1, 1}, {1, 1}, {0, 0}, 1},
        {2, 32, 4, 7, 48, {3, 3}, {1, 1}, {2, 0}, 1},
    };
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++) {
        struct op_desc forward = describe_conv(OP_CONV_FWD, &shape[i], WITH(B));
        add_dense(list, forward);
        forward.attr.conv.relu = true;
        add_dense(list, forward);
        add_dense(list, describe_conv(OP_CONV_BWD_DATA, &shape[i], 0));
        add_dense(list, describe_conv(OP_CONV_BWD_WEIGHTS, &shape[i], WITH(DB)));
    }
    /* Weight gradients in a 16-bit type: they are rounded only when they are stored. */
    for (int i = 0; i < 6; i++) {
        enum dtype type = i % 2 ? DTYPE_BF16 : DTYPE_F16;
        struct op_desc plain = describe_conv(OP_CONV_BWD_WEIGHTS, &shape[i / 2], 0);
        struct op_desc d = with_type(&plain, type);
        d.t[ROLE_DW].rounds = DTYPE_F32;
        d.t[ROLE_DW].type = type;
        d.t[ROLE_DW] = in_layout(d.t[ROLE_DW], d.t[ROLE_DW].layout);
        cases_add(list, d, FILL_RANDOM);
        cases_add(list, d, FILL_HUGE);
    }
    add_dense(list, describe_linear(OP_LINEAR_FWD, 5, 64, 33, WITH(B)));
    add_dense(list, describe_linear(OP_LINEAR_BWD_DATA, 5, 64, 33, 0));
    add_dense(list, describe_linear(OP_LINEAR_BWD_WEIGHTS, 5, 64, 33, WITH(DB)));
}

static void cases_batch_norm(struct case_list *list)
{
    static const int shape[][4] = {{2, 64, 7, 7}, {3, 17, 9, 5}, {8, 32, 1, 1}};
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        for (int relu = 0; relu < 2; relu++) {
            const int *s = shape[i];
            const uint64_t gradients = WITH(DY2) | WITH(DZ);
            add_fused(list, describe_bn(OP_BN_FWD_TRAIN, s[0], s[1], s[2], s[3], relu, 0));
            add_fused(list, describe_bn(OP_BN_FWD_TRAIN, s[0], s[1], s[2], s[3], relu, WITH(Z)));
            add_fused(list, describe_bn(OP_BN_FWD_EVAL, s[0], s[1], s[2], s[3], relu, WITH(Z)));
            add_fused(list, describe_bn(OP_BN_BWD, s[0], s[1], s[2], s[3], relu, 0));
            add_fused(list, describe_bn(OP_BN_BWD, s[0], s[1], s[2], s[3], relu, WITH(DY2)));
            add_fused(list, describe_bn(OP_BN_BWD, s[0], s[1], s[2], s[3], relu, gradients));
        }
    static const enum op_kind kind[] = {OP_BN_FWD_TRAIN, OP_BN_FWD_EVAL, OP_BN_BWD};
    for (int k = 0; k < 3; k++) {
        static const struct variant nan = {DTYPE_F16, true, FILL_NAN};
        static const struct variant streamed[] = {{DTYPE_F16, true, FILL_RANDOM},
                                                  {DTYPE_BF16, false, FILL_RANDOM, true}};
        struct op_desc d = describe_bn(kind[k], 2, 48, 5, 5, true, 0);
        struct op_desc large = describe_bn(kind[k], 2, 128, 25, 23, true, 0);
        cases_add(list, with_narrow_batch_norm(&d, DTYPE_F16), FILL_RANDOM);
        cases_add(list, with_narrow_batch_norm(&d, DTYPE_BF16), FILL_RANDOM);
        if (kind[k] != OP_BN_BWD)
            add(list, &d, &nan, 1);
        add(list, &large, streamed, 2);
    }
}

static void cases_pool(struct case_list *list)
{
    static const struct pool_attr window = {{3, 3}, {2, 2}, {1, 1}}, tiles = {{2, 2}, {2, 2}};
    add_simple(list, describe_maxpool(OP_MAXPOOL_FWD, 2, 32, 9, 8, &window, WITH(INDEX)));
    add_simple(list, describe_maxpool(OP_MAXPOOL_FWD, 2, 5, 9, 8, &tiles, 0));
    add_simple(list, describe_maxpool(OP_MAXPOOL_BWD, 2, 32, 9, 8, &window, WITH(DY2)));
    add_simple(list, describe_maxpool(OP_MAXPOOL_BWD, 2, 5, 9, 8, &tiles, 0));
    static const enum op_kind kind[] = {OP_AVGPOOL_FWD, OP_AVGPOOL_BWD};
    for (int k = 0; k < 2; k++) {
        add_fused(list, describe_avgpool(kind[k], 2, 64, 7, 7, 1, 1));
        add_fused(list, describe_avgpool(kind[k], 2, 5, 6, 7, 3, 4));
    }
}

static void cases_one_by_one(struct case_list *list)
{
    const struct tensor_desc shape[] = {plain_4d(2, 32, 7, 7), tensor_2d(DTYPE_F32, 3, 1001)};
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++) {
        add_simple(list, describe_like(OP_RELU_FWD, shape[i], 0));
        add_simple(list, describe_like(OP_RELU_BWD, shape[i], 0));
        add_simple(list, describe_like(OP_RELU_BWD, shape[i], WITH(DY2)));
        add_simple(list, describe_like(OP_ADD, shape[i], 0));
        static const float p[] = {0.5f, 0.3f};
        for (int k = 0; k < 2; k++) {
            struct op_desc forward = describe_like(OP_DROPOUT_FWD, shape[i], 0);
            struct op_desc backward = describe_like(OP_DROPOUT_BWD, shape[i], 0);
            forward.attr.dropout = backward.attr.dropout = (struct dropout_attr){p[k], k};
            add_simple(list, forward);
            add_simple(list, backward);
        }
    }
}

static void cases_ends(struct case_list *list)
{
    add_fused(list, describe_xent(8, 100, 0.1f, WITH(DX)));
    add_fused(list, describe_xent(3, 7, 0, WITH(DX)));
    add_fused(list, describe_xent(8, 100, 0.1f, WITH(DX) | WITH(PARTNER)));
    static const enum layout layout[] = {LAYOUT_PLAIN, LAYOUT_NHWC};
    for (int i = 0; i < 16; i++) {
        enum dtype precision = i % 4 < 2 ? DTYPE_F16 : DTYPE_BF16;
        struct op_desc d = describe_normalize(2, 7, 9, i < 8 ? 0 : WITH(PARTNER));
        d = i % 8 < 4 ? with_precision(&d, precision, false) : with_type(&d, precision);
        d.t[ROLE_Y] = in_layout(d.t[ROLE_Y], layout[i % 2]);
        cases_add_one(list, list->problems++, d, FILL_RANDOM, layout_str(layout[i % 2]));
    }
    static const struct variant moved[] = {{DTYPE_F16, false, FILL_HUGE},
                                           {DTYPE_F16, true, FILL_RANDOM}};
    struct op_desc reorder = describe_like(OP_REORDER, plain_4d(2, 16, 3, 3), 0);
    add(list, &reorder, moved, 2);
    /* Cases of a reorder from one type to another. Such a reorder casts weights stored in fp32. */
    static const enum dtype type[] = {DTYPE_BF16, DTYPE_F16};
    for (int i = 0; i < 2; i++) {
        struct op_desc d = with_type(&reorder, type[i]), narrowing = d, widening = d;
        narrowing.t[ROLE_X] = widening.t[ROLE_Y] = reorder.t[ROLE_X];
        cases_add(list, d, FILL_RANDOM);
        cases_add(list, narrowing, FILL_TIES);
        cases_add(list, widening, FILL_RANDOM);
    }
}

/* Cases of OP_ROUND. The input is an fp32 tensor that needs no rounding, or an unrounded tensor. */
static void cases_round(struct case_list *list)
{
    static const enum dtype precision[] = {DTYPE_F16, DTYPE_BF16, DTYPE_TF32};
    static const enum fill fill[] = {FILL_RANDOM, FILL_HUGE, FILL_TINY, FILL_TIES, FILL_NAN};
    const struct tensor_desc shape[] = {plain_4d(2, 32, 7, 5), tensor_2d(DTYPE_F32, 3, 1001),
                                        tensor_1d(DTYPE_F32, 1), tensor_1d(DTYPE_F32, 100003)};
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        for (int k = 0; k < 3; k++)
            for (size_t f = 0; f < sizeof fill / sizeof *fill; f++) {
                struct op_desc d = describe_like(OP_ROUND, shape[i], 0);
                d.t[ROLE_Y].rounds = precision[k];
                for (int layout = LAYOUT_PLAIN; layout <= LAYOUT_NCHW16C; layout++) {
                    struct op_desc laid = d;
                    if (layout != LAYOUT_PLAIN && shape[i].ndim != 4)
                        continue;
                    laid.t[ROLE_X] = in_layout(d.t[ROLE_X], (enum layout)layout);
                    laid.t[ROLE_Y] = in_layout(d.t[ROLE_Y], (enum layout)layout);
                    cases_add_one(list, list->problems, laid, fill[f],
                                  layout_str((enum layout)layout));
                }
                list->problems++;
                d.t[ROLE_X].rounds = precision[k];
                d.t[ROLE_X].raw = true;
                cases_add_one(list, list->problems++, d, fill[f], "plain");
            }
}

/* --- segments --- */

/* Two segments: one has a mix of types (gradient, master, copy), the other the types of fp32
 * training. */
/* clang-format off */
#define MIX(gradient, master, copy) \
    {{0, 101, 1e-2f, DTYPE_##gradient, DTYPE_##master, DTYPE_##copy}, {101, 1003, 0}}
/* clang-format on */
#define MIX_COPIES(gradient, master)                                                               \
    MIX(gradient, master, F32), MIX(gradient, master, F16), MIX(gradient, master, BF16),           \
        MIX(gradient, master, TF32)
#define MIX_MASTERS(gradient)                                                                      \
    MIX_COPIES(gradient, F32), MIX_COPIES(gradient, F16), MIX_COPIES(gradient, BF16)

static const struct sgd_segment mix[][2] = {MIX_MASTERS(F32), MIX_MASTERS(F16), MIX_MASTERS(BF16)};

/* Segments of different precisions, as in a network; one is empty. */
static const struct sgd_segment many[] = {{0, 7, 1e-2f, DTYPE_F16, DTYPE_F32, DTYPE_F16},
                                          {7, 7, 1, DTYPE_F16, DTYPE_F16, DTYPE_F16},
                                          {7, 40, 0, DTYPE_F32, DTYPE_F32, DTYPE_F32},
                                          {40, 1000, 1e-4f, DTYPE_BF16, DTYPE_F32, DTYPE_BF16},
                                          {1000, 100003, 5e-4f, DTYPE_F16, DTYPE_F16, DTYPE_F16}};
enum { MANY = sizeof many / sizeof *many };

static const struct sgd_segment lars[] = {
    {0, 40, 1e-2f, DTYPE_F16, DTYPE_F32, DTYPE_F16, 0.02f},
    {40, 20000, 1e-4f, DTYPE_BF16, DTYPE_F32, DTYPE_BF16, 0.001f},
    {20000, 20007, 1e-4f, DTYPE_F32, DTYPE_F32, DTYPE_F32, 0},
    {20007, 40003, 5e-4f, DTYPE_F16, DTYPE_F16, DTYPE_F16, 0.001f}};
enum { LARS = sizeof lars / sizeof *lars };

static void add_sgd(struct case_list *list, int64_t n, const struct sgd_attr *attr)
{
    static const enum fill fill[] = {FILL_RANDOM, FILL_FOUND_INF, FILL_HUGE, FILL_TINY, FILL_TIES};
    struct op_desc d = describe_sgd(n, attr), with_copy = d;
    with_copy.t[ROLE_WCOPY] = d.t[ROLE_W];
    for (size_t f = 0; f < sizeof fill / sizeof *fill; f++) {
        cases_add(list, d, fill[f]);
        cases_add(list, with_copy, fill[f]);
    }
}

static void cases_sgd(struct case_list *list)
{
    struct sgd_attr attr = {.momentum = 0.9f, .n_segments = 2};
    for (size_t i = 0; i < sizeof mix / sizeof *mix; i++) {
        attr.segment = mix[i];
        attr.nesterov = i % 2;
        add_sgd(list, 1003, &attr);
    }
    attr.n_segments = MANY;
    attr.segment = many;
    add_sgd(list, 100003, &attr);
    attr.n_segments = LARS;
    attr.segment = lars;
    add_sgd(list, 40003, &attr);
}

/* Segments whose gradients are in DW_HALF, and between them segments whose gradients are in DW. */
static const struct sgd_segment halves[] = {
    {0, 7, 1e-2f, DTYPE_F16, DTYPE_F32, DTYPE_F16, 0, true},
    {7, 40, 0, DTYPE_F32, DTYPE_F32, DTYPE_F32},
    {40, 1000, 1e-4f, DTYPE_BF16, DTYPE_F32, DTYPE_BF16},
    {1000, 9001, 0, DTYPE_F16, DTYPE_F16, DTYPE_F16, 0, true}};
static const struct sgd_segment half_lars[] = {
    {0, 40, 1e-2f, DTYPE_F32, DTYPE_F32, DTYPE_F16, 0.02f, true},
    {40, 5000, 1e-4f, DTYPE_F32, DTYPE_F32, DTYPE_F32, 0},
    {5000, 9001, 1e-4f, DTYPE_F16, DTYPE_F32, DTYPE_F16, 0.001f, true}};

/* DW_HALF in each type: for plain SGD, with a limit of the gradient's norm, and with LARS. */
static void cases_half(struct case_list *list)
{
    static const enum dtype type[] = {DTYPE_F16, DTYPE_BF16, DTYPE_F32};
    static const enum fill fill[] = {FILL_RANDOM, FILL_FOUND_INF, FILL_HUGE, FILL_NAN};
    const struct sgd_attr attr[] = {
        {.momentum = 0.9f, .n_segments = 4, .segment = halves},
        {.momentum = 0.9f, .n_segments = 4, .segment = halves, .clip = 0.5f},
        {.momentum = 0.9f, .nesterov = true, .n_segments = 3, .segment = half_lars}};
    for (int i = 0; i < 3; i++) {
        struct op_desc check = describe_check_finite(9001, 4, halves);
        check.t[ROLE_DW_HALF] = tensor_1d(type[i], 9001);
        for (size_t f = 0; f < sizeof fill / sizeof *fill; f++)
            cases_add(list, check, fill[f]);
        for (int k = 0; k < 3; k++) {
            struct op_desc step = describe_sgd(9001, &attr[k]);
            step.t[ROLE_DW_HALF] = tensor_1d(type[i], 9001);
            cases_add(list, step, FILL_RANDOM);
            cases_add(list, step, k ? FILL_TIES : FILL_HUGE);
            cases_add(list, step, FILL_FOUND_INF);
        }
    }
}

static void cases_check_finite(struct case_list *list)
{
    static const struct sgd_segment whole[] = {
        {0, 4099, 0, DTYPE_F32}, {0, 4099, 0, DTYPE_F16}, {0, 4099, 0, DTYPE_BF16}};
    static const enum fill fill[] = {FILL_RANDOM, FILL_FOUND_INF, FILL_HUGE, FILL_NAN};
    for (size_t f = 0; f < sizeof fill / sizeof *fill; f++) {
        cases_add(list, describe_check_finite(100003, MANY, many), fill[f]);
        for (int i = 0; i < 3; i++) {
            cases_add(list, describe_check_finite(4099, 1, &whole[i]), fill[f]);
        }
    }
}

void cases_precision(struct case_list *list)
{
    cases_dense(list);
    cases_batch_norm(list);
    cases_pool(list);
    cases_one_by_one(list);
    cases_ends(list);
    cases_round(list);
    cases_sgd(list);
    cases_half(list);
    cases_check_finite(list);
}
