/* Cases of fused convolution and batch norm, with tensors as the CUDA backend stores them: NHWC,
 * activations and weights of one type, weight gradients in fp32, rounded to that type. */
#include "verify/cases.h"
#include "verify/describe.h"

static void add_types(struct case_list *list, struct op_desc d)
{
    static const enum dtype type[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
    for (size_t i = 0; i < sizeof type / sizeof *type; i++)
        cases_add_one(list, list->problems++, fused_of_type(d, type[i]), FILL_RANDOM,
                      layout_str(LAYOUT_NHWC));
}

/* Two batch norms whose results are added. */
static void add_two(struct case_list *list, const int s[4])
{
    static const struct {
        enum op_kind kind;
        uint64_t with;
    } form[] = {
        {OP_BN_FWD_TRAIN, WITH(Z) | WITH(Z_AFFINE)},
        {OP_BN_APPLY, WITH(Z) | WITH(Z_AFFINE)},
        {OP_BN_APPLY, WITH(Z) | WITH(Z_AFFINE) | WITH(MASK)},
        {OP_BN_BWD, WITH_BN_OF_Z | WITH(DZ)},
        {OP_BN_BWD, WITH_BN_OF_Z | WITH(DZ) | WITH(MASK)},
        {OP_BN_BWD, WITH_BN_OF_Z | WITH(DZ) | WITH(MASK) | WITH(DY2)},
        {OP_BN_BWD_APPLY, WITH(Z) | WITH(Z_EQ) | WITH(DZ)},
    };
    for (size_t i = 0; i < sizeof form / sizeof *form; i++)
        add_types(list, describe_bn(form[i].kind, s[0], s[1], s[2], s[3], true, form[i].with));
}

/* The last window is not square; no kernel needs to support it. */
static void add_pooled(struct case_list *list)
{
    static const struct pool_attr window[] = {
        {{3, 3}, {2, 2}, {1, 1}}, {{2, 2}, {2, 2}, {0, 0}}, {{2, 3}, {1, 2}, {1, 0}}};
    static const int size[][4] = {{2, 16, 7, 6}, {3, 8, 4, 5}, {2, 24, 37, 20}, {2, 13, 5, 5}};
    for (size_t i = 0; i < sizeof size / sizeof *size; i++)
        for (size_t k = 0; k < sizeof window / sizeof *window; k++) {
            const struct pool_attr *p = &window[k];
            const int *s = size[i];
            if (k == 0)
                add_types(list, describe_bn_pool(OP_BN_STATISTICS, s[0], s[1], s[2], s[3], p, 0));
            add_types(list, describe_bn_pool(OP_BN_POOL_FWD, s[0], s[1], s[2], s[3], p, 0));
            add_types(list, describe_bn_pool(OP_BN_POOL_BWD, s[0], s[1], s[2], s[3], p, 0));
            add_types(list, describe_bn_pool(OP_BN_POOL_BWD, s[0], s[1], s[2], s[3], p, WITH(DY2)));
        }
}

void cases_fused(struct case_list *list)
{
    add_pooled(list);
    static const struct conv_shape shape[] = {
        {2, 16, 6, 5, 8, {3, 3}, {1, 1}, {1, 1}, 1},
        {2, 8, 7, 7, 16, {3, 3}, {2, 2}, {1, 1}, 1},
        {1, 24, 4, 4, 8, {1, 1}, {1, 1}, {0, 0}, 1},
        {2, 64, 6, 6, 64, {3, 3}, {1, 1}, {1, 1}, 1},
    };
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++) {
        const struct conv_shape *s = &shape[i];
        add_types(list, describe_conv(OP_CONV_STATS_FWD, s, 0));
        add_types(list, describe_conv(OP_CONV_STATS_FWD, s, WITH(AFFINE)));
        add_types(list, describe_conv(OP_CONV_STATS_FWD, s, WITH_END));
        add_types(list, describe_conv(OP_CONV_STATS_FWD, s, WITH_END | WITH(Z_AFFINE)));
        add_types(list, describe_conv(OP_CONV_APPLY_BWD_WEIGHTS, s, 0));
        add_types(list, describe_conv(OP_CONV_BWD_DATA_BN, s, 0));
        add_types(list, describe_conv(OP_CONV_BWD_DATA_BN, s, WITH(Z) | WITH(DY2)));
        add_types(list, describe_conv(OP_CONV_BWD_DATA_BN, s, WITH_DATA_BN_OF_Z));
        add_types(list, describe_conv(OP_CONV_BWD_DATA_BN, s, WITH_DATA_BN_OF_Z | WITH(DY2)));
    }
    static const int size[][4] = {{2, 16, 5, 4}, {3, 13, 3, 3}};
    for (int i = 0; i < 2; i++) {
        const int *s = size[i];
        const uint64_t gradients = WITH(MASK) | WITH(DY2) | WITH(DZ);
        add_types(list, describe_bn(OP_BN_FINALIZE, s[0], s[1], s[2], s[3], true, 0));
        add_types(list, describe_bn(OP_BN_FINALIZE, s[0], s[1], s[2], s[3], true, WITH(AFFINE)));
        add_types(list, describe_bn(OP_BN_APPLY, s[0], s[1], s[2], s[3], true, 0));
        add_types(list, describe_bn(OP_BN_APPLY, s[0], s[1], s[2], s[3], true, WITH(Z)));
        add_types(list,
                  describe_bn(OP_BN_APPLY, s[0], s[1], s[2], s[3], true, WITH(Z) | WITH(MASK)));
        add_types(list, describe_bn(OP_BN_FWD_TRAIN, s[0], s[1], s[2], s[3], true, WITH(MASK)));
        add_types(list, describe_bn(OP_BN_BWD, s[0], s[1], s[2], s[3], true, WITH(MASK)));
        add_types(list, describe_bn(OP_BN_BWD, s[0], s[1], s[2], s[3], true, gradients));
        add_types(list, describe_bn(OP_BN_BWD_APPLY, s[0], s[1], s[2], s[3], true, 0));
        add_two(list, s);
    }
}
