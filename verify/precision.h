/* The effect of narrow precision on values, for tests and independent of any backend. A tensor of a
 * narrow type and an fp32 tensor that rounds to this type hold the same values. precision_read,
 * precision_written and precision_of need fp32 tensors that round. For an operation with tensors of
 * a narrow type, pass its emulated_form. */
#pragma once

#include "kernels/ops.h"

/* The value that the operation reads if element `i` of the tensor holds `v`. */
float precision_read(const struct op_desc *d, enum role role, int64_t i, float v);

/* The value that the operation writes to element `i` if its fp32 result is `v`; `v` itself where
 * the tensor is raw. Monotonic in `v`. */
float precision_written(const struct op_desc *d, enum role role, int64_t i, float v);

/* The type to which element `i` is rounded when written; F32 where the tensor is raw. */
enum dtype precision_of(const struct op_desc *d, enum role role, int64_t i);

/* A copy of an operation in which no tensor rounds, except an output from which other outputs are
 * computed (batch norm's DZ). This struct must not be copied: `desc` points to `segment`. */
enum { PRECISION_SEGMENTS = 8 };
struct precision_none {
    struct op_desc desc;
    struct sgd_segment segment[PRECISION_SEGMENTS];
};
void precision_none(const struct op_desc *d, struct precision_none *none);

/* A copy of `d` in which the fp32 tensors that a policy stores in a 16-bit type round to
 * `precision`: activations, gradients of activations, and weights, but not batch norm's tensors per
 * channel. For TF32, which is not a storage type, only inputs round. `raw`: the rounded inputs are
 * raw. */
struct op_desc with_precision(const struct op_desc *d, enum dtype precision, bool raw);

/* As with_precision, but batch norm's parameters, their gradients and its statistics round too. */
struct op_desc with_narrow_batch_norm(const struct op_desc *d, enum dtype precision);

/* As with_precision, but the tensors have type `type`; weight gradients stay fp32 and round. */
struct op_desc with_type(const struct op_desc *d, enum dtype type);

/* A copy of `d` with each tensor of a narrow type replaced by an fp32 tensor that rounds to this
 * type. */
struct op_desc emulated_form(const struct op_desc *d);

/* Whether a tensor of `d` has a narrow type. */
bool precision_is_stored(const struct op_desc *d);

/* Whether a tensor or a segment of `d` rounds. */
bool precision_is_emulated(const struct op_desc *d);
