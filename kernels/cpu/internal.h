/* What the files of the CPU backend share: the device, and how plans of own kernels are made. */
#ifndef KERNELS_CPU_INTERNAL_H
#define KERNELS_CPU_INTERNAL_H

#include "kernels/backend.h"

struct cpu_kernels;
struct onednn_engine;

struct cpu_device {
    struct device base;
    const struct cpu_kernels *kernels; /* inner loops for this machine's instruction set */
    struct onednn_engine *onednn;
    size_t stream_bytes; /* results at least this large are written past the caches: they will have
                            left them by the time that they are read */
};

static inline struct cpu_device *cpu_device_of(struct device *dev)
{
    return (struct cpu_device *)dev;
}

/* Makes a plan of `size` bytes, zero after its struct op_plan, around a copy of `desc`, in which
 * every tensor has been taken. Freed with free(), so it may not own anything else. */
MUST_CHECK enum status cpu_plan_new(struct device *dev, const struct op_desc *desc, size_t size,
                                    enum status (*execute)(struct op_plan *plan,
                                                           void *const arg[ROLE_COUNT],
                                                           struct stream *s),
                                    struct op_plan **plan);

/* Takes a tensor of `desc` as one that the kernel handles: gives it `layout` where it is ANY and
 * fills in its bytes. STATUS_UNSUPPORTED where it has another type or layout or is to be rounded;
 * an absent tensor is fine. */
MUST_CHECK enum status cpu_take(struct op_desc *desc, enum role role, enum dtype type,
                                enum layout layout);

/* The same for a tensor whose elements are of the kind of those of `like`, which has a floating
 * type: STATUS_UNSUPPORTED where the tensor has another type or rounds to another. What the
 * operation writes is not raw. */
MUST_CHECK enum status cpu_take_like(struct op_desc *desc, enum role role, enum layout layout,
                                     const struct tensor_desc *like);

/* The same for an fp32 tensor that rounds to `rounds`. */
MUST_CHECK enum status cpu_take_rounded(struct op_desc *desc, enum role role, enum layout layout,
                                        enum dtype rounds);

/* The workspace of a plan is laid out in pieces of whole cache lines. */
static inline size_t cpu_align(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* The calling thread's part of n values, whole cache lines but at the end. For use inside a
 * parallel region; the parts of a team cover all values. */
struct cpu_share {
    int64_t begin;
    int64_t count;
};
struct cpu_share cpu_share_of(int64_t n);

/* Plan functions for the backend's records (see struct op_record). */
enum status cpu_plan_bn_fwd(struct device *dev, const struct op_desc *desc, struct op_plan **plan);
enum status cpu_plan_bn_bwd(struct device *dev, const struct op_desc *desc, struct op_plan **plan);
enum status cpu_plan_elementwise(struct device *dev, const struct op_desc *desc,
                                 struct op_plan **plan);
enum status cpu_plan_maxpool(struct device *dev, const struct op_desc *desc, struct op_plan **plan);
enum status cpu_plan_avgpool(struct device *dev, const struct op_desc *desc, struct op_plan **plan);
enum status cpu_plan_round(struct device *dev, const struct op_desc *desc, struct op_plan **plan);
enum status cpu_plan_dropout(struct device *dev, const struct op_desc *desc, struct op_plan **plan);
enum status cpu_plan_softmax_xent(struct device *dev, const struct op_desc *desc,
                                  struct op_plan **plan);
enum status cpu_plan_sgd(struct device *dev, const struct op_desc *desc, struct op_plan **plan);
enum status cpu_plan_check_finite(struct device *dev, const struct op_desc *desc,
                                  struct op_plan **plan);
enum status cpu_plan_scale(struct device *dev, const struct op_desc *desc, struct op_plan **plan);
enum status cpu_plan_normalize(struct device *dev, const struct op_desc *desc,
                               struct op_plan **plan);
#endif
