/* The CPU backend: opening a device, and the list of what it covers. */
#include "kernels/cpu/cpu.h"
#include "base/host.h"

#include "kernels/cpu/internal.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/onednn.h"
#include "kernels/host.h"

#include <stdio.h>
#include <stdlib.h>

/* The best inner loops for this machine, no wider than oneDNN's: one setting limits both. */
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
        __builtin_cpu_supports("f16c"))
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
    struct cpu_device *cpu = calloc(1, sizeof *cpu);
    if (!cpu)
        return status_fail(STATUS_OOM, "no memory for a device");
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

/* The own kernels take whatever oneDNN multiplies. */
static bool cpu_native(struct device *dev, enum dtype type)
{
    return type == DTYPE_F32 || onednn_native(cpu_device_of(dev)->onednn, type);
}

/* Every layout; the oneDNN plans reorder inside where the library wants another, and rounding has
 * no need to know. */
#define ANY_LAYOUT (~0u)
#define F32        (1u << DTYPE_F32)
#define U8         (1u << DTYPE_U8)
#define FLOATS     (F32 | 1u << DTYPE_F16 | 1u << DTYPE_BF16)

/* Those whose order the own kernels know. */
#define KNOWN_LAYOUT                                                                               \
    (1u << LAYOUT_PLAIN | 1u << LAYOUT_NHWC | 1u << LAYOUT_NCHW8C | 1u << LAYOUT_NCHW16C)

static const struct op_record records[] = {
    {OP_CONV_FWD, FLOATS, ANY_LAYOUT, onednn_plan_conv},
    {OP_CONV_BWD_DATA, FLOATS, ANY_LAYOUT, onednn_plan_conv},
    {OP_CONV_BWD_WEIGHTS, FLOATS, ANY_LAYOUT, onednn_plan_conv},
    {OP_LINEAR_FWD, FLOATS, ANY_LAYOUT, onednn_plan_linear},
    {OP_LINEAR_BWD_DATA, FLOATS, ANY_LAYOUT, onednn_plan_linear},
    {OP_LINEAR_BWD_WEIGHTS, FLOATS, ANY_LAYOUT, onednn_plan_linear},
    {OP_REORDER, FLOATS | U8, ANY_LAYOUT, onednn_plan_reorder},
    {OP_BN_FWD_TRAIN, FLOATS, KNOWN_LAYOUT, cpu_plan_bn_fwd},
    {OP_BN_FWD_EVAL, FLOATS, KNOWN_LAYOUT, cpu_plan_bn_fwd},
    {OP_BN_BWD, FLOATS, KNOWN_LAYOUT, cpu_plan_bn_bwd},
    {OP_RELU_FWD, FLOATS, KNOWN_LAYOUT, cpu_plan_elementwise},
    {OP_RELU_BWD, FLOATS, KNOWN_LAYOUT, cpu_plan_elementwise},
    {OP_ADD, FLOATS, KNOWN_LAYOUT, cpu_plan_elementwise},
    {OP_MAXPOOL_FWD, FLOATS, KNOWN_LAYOUT, cpu_plan_maxpool},
    {OP_MAXPOOL_BWD, FLOATS, KNOWN_LAYOUT, cpu_plan_maxpool},
    {OP_AVGPOOL_FWD, FLOATS, KNOWN_LAYOUT, cpu_plan_avgpool},
    {OP_AVGPOOL_BWD, FLOATS, KNOWN_LAYOUT, cpu_plan_avgpool},
    {OP_DROPOUT_FWD, FLOATS, 1u << LAYOUT_PLAIN, cpu_plan_dropout},
    {OP_DROPOUT_BWD, FLOATS, 1u << LAYOUT_PLAIN, cpu_plan_dropout},
    {OP_SOFTMAX_XENT, FLOATS, 1u << LAYOUT_PLAIN, cpu_plan_softmax_xent},
    {OP_SGD, F32, 1u << LAYOUT_PLAIN, cpu_plan_sgd},
    {OP_CHECK_FINITE, F32, 1u << LAYOUT_PLAIN, cpu_plan_check_finite},
    {OP_SCALE_SET, F32, ANY_LAYOUT, cpu_plan_scale},
    {OP_SCALE_UPDATE, F32, ANY_LAYOUT, cpu_plan_scale},
    {OP_ROUND, F32, ANY_LAYOUT, cpu_plan_round},
    {OP_NORMALIZE, U8, 1u << LAYOUT_NHWC, cpu_plan_normalize},
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
