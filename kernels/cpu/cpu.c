/* The CPU backend: its device, plans for own kernels, and the operations that it supports. */
#include "base/array.h"
#include "base/half_array.h"
#include "base/host.h"
#include "kernels/cpu/internal.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/onednn.h"
#include "kernels/host.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

/* Returns the best inner loops that this machine can run. Their vectors are not wider than
 * oneDNN's, so that ONEDNN_MAX_CPU_ISA limits both. */
static const struct cpu_kernels *best_kernels(void)
{
#if defined(__x86_64__)
    int bits = onednn_vector_bits();
    __builtin_cpu_init();
    if (bits >= 512 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512cd"))
        return &cpu_kernels_avx512;
    if (bits >= 256 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
        half_native())
        return &cpu_kernels_avx2;
#endif
    return &cpu_kernels_generic;
}

static void cpu_close(struct device *base)
{
    onednn_engine_close(cpu_device_of(base)->onednn);
    free(base);
}

static enum status cpu_open(const struct backend *b, int index, int threads, struct device **dev)
{
    *dev = NULL;
    if (threads < 0)
        return status_fail(STATUS_INVALID, "a device cannot have %d threads", threads);
    struct cpu_device *cpu;
    TRY(array_new(&cpu, 1));
    cpu->base = (struct device){b, index, threads ? threads : host_cores()};
    cpu->kernels = best_kernels();
    cpu->stream_bytes = 4 << 20;
    enum status st = onednn_engine_open(&cpu->onednn);
    if (st != STATUS_OK) {
        free(cpu);
        return st;
    }
    *dev = &cpu->base;
    return STATUS_OK;
}

static void cpu_describe(struct device *dev, char *out, size_t size)
{
    char name[128];
    host_cpu_name(name, sizeof name);
    snprintf(out, size, "%s, oneDNN %s, own kernels for %s, %d thread%s", name, onednn_version(),
             cpu_device_of(dev)->kernels->isa, dev->threads, dev->threads == 1 ? "" : "s");
}

/* Returns whether oneDNN multiplies this type. The backend's own kernels need no check, because
 * they support every type that oneDNN multiplies. */
static bool cpu_native(struct device *dev, enum dtype type)
{
    return type == DTYPE_F32 || onednn_native(cpu_device_of(dev)->onednn, type);
}

enum status cpu_plan_new(struct device *dev, const struct op_desc *desc, size_t size,
                         op_executor *execute, struct op_plan **plan)
{
    return op_plan_new(dev, desc, size, cpu_device_of(dev)->kernels->impl, execute, plan);
}

static enum status take(struct op_desc *desc, enum role role, enum dtype type, enum layout layout,
                        enum dtype rounds)
{
    struct tensor_desc *t = &desc->t[role];
    if (t->ndim == 0)
        return STATUS_OK;
    if (t->layout == LAYOUT_ANY)
        t->layout = layout;
    if (t->type != type || t->layout != layout)
        return status_fail(STATUS_UNSUPPORTED,
                           "%s: no kernel takes a tensor of type %s and layout %s (only %s and %s)",
                           op_str(desc->kind), dtype_str(t->type), layout_str(t->layout),
                           dtype_str(type), layout_str(layout));
    if (t->rounds != rounds)
        return status_fail(STATUS_UNSUPPORTED, "%s: no kernel that rounds %s to %s",
                           op_str(desc->kind), role_str(role), dtype_str(t->rounds));
    t->bytes = (size_t)tensor_count(t) * dtype_size(type);
    if (op_roles(desc->kind).writes >> role & 1)
        t->raw = false;
    return STATUS_OK;
}

enum status cpu_take(struct op_desc *desc, enum role role, enum dtype type, enum layout layout)
{
    return take(desc, role, type, layout, DTYPE_F32);
}

enum status cpu_take_like(struct op_desc *desc, enum role role, enum layout layout,
                          const struct tensor_desc *like)
{
    if (!dtype_is_float(like->type))
        return status_fail(STATUS_UNSUPPORTED, "%s: no kernel for type %s", op_str(desc->kind),
                           dtype_str(like->type));
    return take(desc, role, like->type, layout, like->rounds);
}

enum status cpu_take_rounded(struct op_desc *desc, enum role role, enum layout layout,
                             enum dtype rounds)
{
    return take(desc, role, DTYPE_F32, layout, rounds);
}

struct cpu_share cpu_share_of(int64_t n)
{
    int64_t team = omp_get_num_threads(), me = omp_get_thread_num();
    int64_t lines = (n + LINE - 1) / LINE;
    int64_t begin = lines * me / team * LINE, end = lines * (me + 1) / team * LINE;
    return (struct cpu_share){begin, (end < n ? end : n) - begin};
}

/* For operations that support every layout: plans of oneDNN reorder tensors if the library needs
 * another layout, and OP_ROUND does not depend on the layout. */
#define ANY_LAYOUT (~0u)
#define F32        (1u << DTYPE_F32)
#define U8         (1u << DTYPE_U8)
#define FLOATS     (F32 | 1u << DTYPE_F16 | 1u << DTYPE_BF16)

/* The layouts that this backend's own kernels support. */
#define KNOWN_LAYOUT                                                                               \
    (1u << LAYOUT_PLAIN | 1u << LAYOUT_NHWC | 1u << LAYOUT_NCHW8C | 1u << LAYOUT_NCHW16C)

static const struct op_record records[] = {
    {OPS_CONV, F32, ANY_LAYOUT, cpu_plan_winograd},
    {OP_SET(CONV_BWD_WEIGHTS), 1u << DTYPE_BF16, ANY_LAYOUT, cpu_plan_weights},
    {OPS_CONV, FLOATS, ANY_LAYOUT, onednn_plan_conv},
    {OPS_LINEAR, FLOATS, ANY_LAYOUT, onednn_plan_linear},
    {OP_SET(REORDER), FLOATS | U8, ANY_LAYOUT, onednn_plan_reorder},
    {OP_SET(BN_FWD_TRAIN) | OP_SET(BN_FWD_EVAL), FLOATS, KNOWN_LAYOUT, cpu_plan_bn_fwd},
    {OP_SET(BN_BWD), FLOATS, KNOWN_LAYOUT, cpu_plan_bn_bwd},
    {OP_SET(RELU_FWD) | OP_SET(RELU_BWD) | OP_SET(ADD), FLOATS, KNOWN_LAYOUT, cpu_plan_elementwise},
    {OPS_MAXPOOL, FLOATS, KNOWN_LAYOUT, cpu_plan_maxpool},
    {OPS_AVGPOOL, FLOATS, KNOWN_LAYOUT, cpu_plan_avgpool},
    {OPS_DROPOUT, FLOATS, 1u << LAYOUT_PLAIN, cpu_plan_dropout},
    {OP_SET(SOFTMAX_XENT), FLOATS, 1u << LAYOUT_PLAIN, cpu_plan_softmax_xent},
    {OP_SET(SGD), F32, 1u << LAYOUT_PLAIN, cpu_plan_sgd},
    {OP_SET(CHECK_FINITE), F32, 1u << LAYOUT_PLAIN, cpu_plan_check_finite},
    {OPS_SCALE, F32, ANY_LAYOUT, cpu_plan_scale},
    {OP_SET(ROUND), F32, ANY_LAYOUT, cpu_plan_round},
    {OP_SET(NORMALIZE), U8, 1u << LAYOUT_NHWC, cpu_plan_normalize},
};

const struct backend backend_cpu = {
    .name = "cpu",
    .library = "oneDNN",
    .library_version = onednn_version,
    .native = cpu_native,
    .n_records = sizeof records / sizeof *records,
    .record = records,
    .open = cpu_open,
    .close = cpu_close,
    .describe = cpu_describe,
    HOST_BACKEND_MEMBERS,
};
