/* The table of the reference backend: which formula computes which operation. */
#include "base/array.h"
#include "base/host.h"
#include "kernels/host.h"
#include "kernels/ref/plan.h"

#include <stdio.h>
#include <stdlib.h>

static enum status ref_open(const struct backend *b, int index, int threads, struct device **dev)
{
    (void)threads; /* always one thread, because formulas are plain loops */
    *dev = NULL;
    struct device *d;
    TRY(array_new(&d, 1));
    *d = (struct device){.backend = b, .index = index, .threads = 1};
    *dev = d;
    return STATUS_OK;
}

static void ref_close(struct device *dev)
{
    free(dev);
}

static void ref_describe(struct device *dev, char *out, size_t size)
{
    (void)dev;
    char cpu[128];
    host_cpu_name(cpu, sizeof cpu);
    snprintf(out, size, "%s, plain C reference, 1 thread", cpu);
}

/* 16-bit types are supported, but save no time, since the arithmetic is in double. */
static bool ref_native(struct device *dev, enum dtype type)
{
    (void)dev;
    return type == DTYPE_F32;
}

static enum status ref_plan(struct device *dev, const struct op_desc *desc, struct op_plan **plan)
{
    static void (*const formula[OP_KIND_COUNT])(const struct ref_args *) = {
        [OP_CONV_FWD] = ref_conv_fwd,
        [OP_CONV_BWD_DATA] = ref_conv_bwd_data,
        [OP_CONV_BWD_WEIGHTS] = ref_conv_bwd_weights,
        [OP_BN_FWD_TRAIN] = ref_bn_fwd_train,
        [OP_BN_FWD_EVAL] = ref_bn_fwd_eval,
        [OP_BN_BWD] = ref_bn_bwd,
        [OP_CONV_STATS_FWD] = ref_conv_stats_fwd,
        [OP_CONV_APPLY_BWD_WEIGHTS] = ref_conv_apply_bwd_weights,
        [OP_BN_FINALIZE] = ref_bn_finalize,
        [OP_BN_APPLY] = ref_bn_apply,
        [OP_CONV_BWD_DATA_BN] = ref_conv_bwd_data_bn,
        [OP_BN_BWD_APPLY] = ref_bn_bwd_apply,
        [OP_BN_STATISTICS] = ref_bn_statistics,
        [OP_BN_POOL_FWD] = ref_bn_pool_fwd,
        [OP_BN_POOL_BWD] = ref_bn_pool_bwd,
        [OP_RELU_FWD] = ref_relu_fwd,
        [OP_RELU_BWD] = ref_relu_bwd,
        [OP_ADD] = ref_add,
        [OP_ADD_STRIDED] = ref_add_strided,
        [OP_MAXPOOL_FWD] = ref_maxpool_fwd,
        [OP_MAXPOOL_BWD] = ref_maxpool_bwd,
        [OP_AVGPOOL_FWD] = ref_avgpool_fwd,
        [OP_AVGPOOL_BWD] = ref_avgpool_bwd,
        [OP_LINEAR_FWD] = ref_linear_fwd,
        [OP_LINEAR_BWD_DATA] = ref_linear_bwd_data,
        [OP_LINEAR_BWD_WEIGHTS] = ref_linear_bwd_weights,
        [OP_DROPOUT_FWD] = ref_dropout_fwd,
        [OP_DROPOUT_BWD] = ref_dropout_bwd,
        [OP_SOFTMAX_XENT] = ref_softmax_xent,
        [OP_SGD] = ref_sgd,
        [OP_CHECK_FINITE] = ref_check_finite,
        [OP_SCALE_SET] = ref_scale_set,
        [OP_SCALE_UPDATE] = ref_scale_update,
        [OP_ROUND] = ref_copy,
        [OP_NORMALIZE] = ref_normalize,
        [OP_REORDER] = ref_copy,
    };
    return ref_plan_formula(dev, desc, formula[desc->kind], plan);
}

enum {
    FLOATS = 1u << DTYPE_F32 | 1u << DTYPE_F16 | 1u << DTYPE_BF16,
    U8 = 1u << DTYPE_U8,
    I32 = 1u << DTYPE_I32,
    ALL_LAYOUTS = 1u << LAYOUT_ANY | 1u << LAYOUT_PLAIN | 1u << LAYOUT_NHWC | 1u << LAYOUT_NCHW8C |
                  1u << LAYOUT_NCHW16C,
};

static const struct op_record records[] = {
    {~(OP_SET(NORMALIZE) | OP_SET(REORDER)), FLOATS, ALL_LAYOUTS, ref_plan},
    {OP_SET(NORMALIZE), U8, ALL_LAYOUTS, ref_plan},
    {OP_SET(REORDER), FLOATS | U8 | I32, ALL_LAYOUTS, ref_plan},
};

const struct backend backend_ref = {
    .name = "ref",
    .native = ref_native,
    .n_records = sizeof records / sizeof *records,
    .record = records,
    .open = ref_open,
    .close = ref_close,
    .describe = ref_describe,
    HOST_BACKEND_MEMBERS,
};
