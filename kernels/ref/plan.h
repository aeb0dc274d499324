/* Plans of the reference: a plan unpacks tensors, runs a formula, and packs the results. */
#pragma once

#include "kernels/backend.h"
#include "kernels/ref/formulas.h"

/* Makes a plan of `desc` that executes `formula`. Weights of layout ANY become PLAIN. Activations
 * of layout ANY get the layout of X; if that is ANY too, the layout of DY, Y or DX, in this order.
 * They become PLAIN in three cases: all four are ANY, the layout does not allow the number of
 * channels, or the operation is NORMALIZE.
 *
 * Operations that support fp32 also support fp16 and bf16. Returns STATUS_UNSUPPORTED for other
 * types and for opaque layouts. Every value is rounded as its tensor's description says, both when
 * it is read and when it is written. So inputs may be unrounded, but results are rounded. The
 * workspace contains every tensor as doubles. */
MUST_CHECK enum status ref_plan_formula(struct device *dev, const struct op_desc *desc,
                                        void (*formula)(const struct ref_args *),
                                        struct op_plan **plan);
