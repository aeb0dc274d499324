/* Plans of the reference: formulas between unpacked and packed tensors. */
#ifndef KERNELS_REF_PLAN_H
#define KERNELS_REF_PLAN_H

#include "kernels/backend.h"
#include "kernels/ref/formulas.h"

/* Plans `desc` as `formula`. A layout of ANY becomes PLAIN for weights, and for activations the
 * layout of the first of X, DY, Y, DX that names one (PLAIN where channels do not fit it, or where
 * none does; NORMALIZE gives PLAIN). Where a kind has fp32, fp16 and bf16 do as well; other types
 * and opaque layouts are STATUS_UNSUPPORTED. Every value is rounded as its tensor says, when it is
 * read and when it is written, so that inputs may be raw and results never are. The workspace holds
 * every tensor as doubles. */
MUST_CHECK enum status ref_plan_formula(struct device *dev, const struct op_desc *desc,
                                        void (*formula)(const struct ref_args *),
                                        struct op_plan **plan);

#endif
