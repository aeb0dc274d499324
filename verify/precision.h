/* What narrow precision makes of values, said once for tests and apart from any backend. A tensor
 * of a narrow type and one of fp32 that rounds to it hold the same values: what is said of the
 * latter goes for the former in its emulated form. */
#ifndef VERIFY_PRECISION_H
#define VERIFY_PRECISION_H

#include "kernels/ops.h"

/* What element `i` of the tensor, holding `v`, counts as when the operation reads it. */
float precision_read(const struct op_desc *d, enum role role, int64_t i, float v);

/* What the operation writes there when its result in fp32 is `v`; `v` itself where the tensor is
 * raw. Never falls as `v` rises. */
float precision_written(const struct op_desc *d, enum role role, int64_t i, float v);

/* The type that element `i` holds values of once written; F32 where the tensor is raw. */
enum dtype precision_of(const struct op_desc *d, enum role role, int64_t i);

/* The same operation without any rounding but of what other results are computed from. `desc`
 * points into `segment`: not to be copied. */
enum { PRECISION_SEGMENTS = 8 };
struct precision_none {
    struct op_desc desc;
    struct sgd_segment segment[PRECISION_SEGMENTS];
};
void precision_none(const struct op_desc *d, struct precision_none *none);

/* `d` with every fp32 tensor that a policy would narrow rounding to `precision`: activations,
 * their gradients, and weights, but not what batch norm keeps per channel. TF32, which is no
 * storage, is for what convolution and linear multiply. With `raw`, what is read is raw. */
struct op_desc with_precision(const struct op_desc *d, enum dtype precision, bool raw);

/* Batch norm's parameters, running statistics and their gradients too. */
struct op_desc with_narrow_batch_norm(const struct op_desc *d, enum dtype precision);

/* The same with tensors of the type itself; the gradients of weights stay fp32 that rounds. */
struct op_desc with_type(const struct op_desc *d, enum dtype type);

/* `d` with fp32 that rounds in place of narrow types. */
struct op_desc emulated_form(const struct op_desc *d);

/* Whether anything in `d` is of a narrow type. */
bool precision_is_stored(const struct op_desc *d);

/* Whether anything in `d` rounds. */
bool precision_is_emulated(const struct op_desc *d);

#endif
