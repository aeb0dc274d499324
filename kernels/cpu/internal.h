/* Declarations for the files of the CPU backend: the device, and functions that make plans with
 * the backend's own kernels. */
#pragma once

#include "kernels/backend.h"

struct cpu_kernels;
struct onednn_engine;

struct cpu_device {
    struct device base;
    const struct cpu_kernels *kernels; /* inner loops for this machine's instruction set */
    struct onednn_engine *onednn;
    /* Stores of results of this size or more bypass the caches: before their next use, such results
     * would no longer be in a cache. */
    size_t stream_bytes;
};

static inline struct cpu_device *cpu_device_of(struct device *dev)
{
    return (struct cpu_device *)dev;
}

/* The same as op_plan_new, but for own kernels. The plan has a copy of `desc`, whose tensors
 * cpu_take has prepared. */
MUST_CHECK enum status cpu_plan_new(struct device *dev, const struct op_desc *desc, size_t size,
                                    op_executor *execute, struct op_plan **plan);

/* Prepares a tensor of `desc` for the kernel: replaces layout ANY by `layout` and fills in its
 * bytes. STATUS_UNSUPPORTED if the tensor has another type or layout, or if its values are rounded
 * to another type. Does nothing if the tensor is absent. */
MUST_CHECK enum status cpu_take(struct op_desc *desc, enum role role, enum dtype type,
                                enum layout layout);

/* Does the same as cpu_take for a tensor that must have the type and rounding of `like`.
 * STATUS_UNSUPPORTED if the tensor has another type or rounding, or if `like` has no floating type.
 * Marks results as rounded. */
MUST_CHECK enum status cpu_take_like(struct op_desc *desc, enum role role, enum layout layout,
                                     const struct tensor_desc *like);

/* Does the same as cpu_take for an fp32 tensor whose values are rounded to `rounds`. */
MUST_CHECK enum status cpu_take_rounded(struct op_desc *desc, enum role role, enum layout layout,
                                        enum dtype rounds);

/* Rounds a size, such as the size of a piece of a workspace, up to whole cache lines. */
static inline size_t cpu_align(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static inline int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static inline int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The calling thread's part of n values: whole lines of LINE values, except at the end. Call it
 * inside a parallel region: the parts of all threads of the region cover all values. */
struct cpu_share {
    int64_t begin;
    int64_t count;
};
struct cpu_share cpu_share_of(int64_t n);

/* Plan functions for the backend's records (see struct op_record). */
op_planner cpu_plan_bn_fwd;
op_planner cpu_plan_bn_bwd;
op_planner cpu_plan_elementwise;
op_planner cpu_plan_maxpool;
op_planner cpu_plan_avgpool;
op_planner cpu_plan_round;
op_planner cpu_plan_dropout;
op_planner cpu_plan_softmax_xent;
op_planner cpu_plan_sgd;
op_planner cpu_plan_check_finite;
op_planner cpu_plan_scale;
op_planner cpu_plan_normalize;
op_planner cpu_plan_winograd; /* 3x3 convolutions, as conv_algorithm allows */
op_planner cpu_plan_weights;  /* gradients of the weights of bf16 convolutions */
