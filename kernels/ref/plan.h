/* Plans of the reference: formulas between unpacked and packed tensors. */
#pragma once

#include "kernels/backend.h"
#include "kernels/ref/formulas.h"

/* Plans `desc` as `formula`. A layout of ANY becomes PLAIN for weights, and for activations the
 * first layout of X, DY, Y, DX that is not ANY (PLAIN if there is none or if the channels do not
 * fit it; NORMALIZE gives PLAIN). Kinds that take fp32 also take fp16 and bf16; other types and
 * opaque layouts are STATUS_UNSUPPORTED. Every value is rounded as its tensor's description says,
 * when it is read and when it is written, so inputs may be raw and results never are. The workspace
 * has every tensor as doubles. */
MUST_CHECK enum status ref_plan_formula(struct device *dev, const struct op_desc *desc,
                                        void (*formula)(const struct ref_args *),
                                        struct op_plan **plan);
