/* Plans of the reference: formulas between unpacked and packed tensors. */
#ifndef KERNELS_REF_PLAN_H
#define KERNELS_REF_PLAN_H

#include "kernels/backend.h"
#include "kernels/ref/formulas.h"

/* Plans `desc` as `formula`. A layout of ANY becomes PLAIN for weights, and for activations the
 * layout of the first of X, DY, Y, DX that names one (PLAIN where channels do not fit it, or where
 * none does; NORMALIZE gives PLAIN). Types other than the kind's own, opaque layouts and
 * tensors that round are STATUS_UNSUPPORTED. The workspace holds every tensor as doubles. */
MUST_CHECK enum status ref_plan_formula(struct device *dev, const struct op_desc *desc,
                                        void (*formula)(const struct ref_args *),
                                        struct op_plan **plan);

#endif
