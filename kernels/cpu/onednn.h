/* What the rest of the CPU backend sees of oneDNN. */
#ifndef KERNELS_CPU_ONEDNN_H
#define KERNELS_CPU_ONEDNN_H

#include "kernels/backend.h"

struct onednn_engine;

/* One per device: engine, stream and the device's opaque layouts. */
MUST_CHECK enum status onednn_engine_open(struct onednn_engine **e);
void onednn_engine_close(struct onednn_engine *e); /* NULL is fine */

/* "2.6.3" of the library that is loaded. */
const char *onednn_version(void);

/* Whether the processor has instructions for products of this type (F16, BF16) and the library uses
 * them in convolution and linear, forward and in both gradients. */
bool onednn_native(const struct onednn_engine *e, enum dtype type);

/* Bits of the widest registers that the library may use: 512, 256 or 128 on x86-64. Less than the
 * machine has where ONEDNN_MAX_CPU_ISA says so. */
int onednn_vector_bits(void);

/* Plan functions for the backend's records (see struct op_record). */
enum status onednn_plan_conv(struct device *dev, const struct op_desc *desc, struct op_plan **plan);
enum status onednn_plan_linear(struct device *dev, const struct op_desc *desc,
                               struct op_plan **plan);
enum status onednn_plan_reorder(struct device *dev, const struct op_desc *desc,
                                struct op_plan **plan);

#endif
