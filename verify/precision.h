/* The effect of narrow precision on values, for tests and independent of any backend. An fp32
 * tensor whose values are rounded to a narrow type has the same values as a tensor of this type.
 * precision_read, precision_written and precision_of accept only operations with fp32 tensors. If
 * an operation has tensors of a narrow type, pass the result of emulated_form instead. */
#pragma once

#include "kernels/ops.h"

/* The value that the operation reads if element `i` of the tensor is `v`. */
float precision_read(const struct op_desc *d, enum role role, int64_t i, float v);

/* The value that the operation writes to element `i` if its fp32 result is `v`. Returns `v` if the
 * tensor is unrounded (`raw`, kernels/ops.h). The function is monotonic in `v`. */
float precision_written(const struct op_desc *d, enum role role, int64_t i, float v);

/* The type to which element `i` is rounded when written; F32 if the tensor is unrounded. */
enum dtype precision_of(const struct op_desc *d, enum role role, int64_t i);

/* A copy of an operation in which tensors are not rounded. Only batch norm's DZ is still rounded,
 * because the operation computes other outputs from the stored DZ. Do not copy this struct: `desc`
 * points to `segment`. */
enum { PRECISION_SEGMENTS = 8 };
struct precision_none {
    struct op_desc desc;
    struct sgd_segment segment[PRECISION_SEGMENTS];
};
void precision_none(const struct op_desc *d, struct precision_none *none);

/* Returns a copy of `d` in which fp32 tensors are rounded to `precision`: those that a policy would
 * store in a 16-bit type. These are activations, gradients of activations, and weights, but not
 * batch norm's tensors per channel. If `precision` is TF32, only inputs are rounded, because TF32
 * is not a storage type. If `raw` is true, the inputs with `rounds` are marked as unrounded. */
struct op_desc with_precision(const struct op_desc *d, enum dtype precision, bool raw);

/* The same as with_precision(), but batch norm's parameters, their gradients and its statistics are
 * rounded too. */
struct op_desc with_narrow_batch_norm(const struct op_desc *d, enum dtype precision);

/* The same as with_precision(), but the tensors that with_precision() rounds have type `type`. The
 * gradients of weights and biases are an exception: they stay fp32, and their values are rounded to
 * `type`. */
struct op_desc with_type(const struct op_desc *d, enum dtype type);

/* Returns a copy of `d` in which each tensor of a narrow type is replaced by an fp32 tensor whose
 * values are rounded to this type. */
struct op_desc emulated_form(const struct op_desc *d);

/* Whether a tensor of `d` has a narrow type. */
bool precision_is_stored(const struct op_desc *d);

/* Whether `d` has a tensor or a segment that is rounded. */
bool precision_is_emulated(const struct op_desc *d);
