/* A rig runs one operation on one device and checks its memory accesses.
 *
 * Every tensor lies between guard bytes. Before each run, outputs and workspace are filled with
 * NaN. After each run, guards and inputs must be unchanged. This finds a kernel that writes outside
 * its tensors, leaves part of an output unwritten, reads its workspace before writing it, or
 * changes an input. */
#pragma once

#include "kernels/backend.h"

/* Host arrays in plain logical order, one per tensor that an operation touches (STATE and METRICS
 * too); NULL: the operation has no such tensor. */
struct operands {
    void *p[ROLE_COUNT];
};

/* Makes zeroed arrays for every tensor of `d`. A failure leaves nothing allocated. */
MUST_CHECK enum status operands_new(const struct op_desc *d, struct operands *o);
void operands_free(struct operands *o);

/* operands_narrow makes new operands of `d` from `from`, the operands of emulated_form(d).
 * operands_widen does the reverse: it converts `from`, the operands of `d`, and writes the result
 * to the arrays of `to`. These arrays must exist. */
MUST_CHECK enum status operands_narrow(const struct op_desc *d, const struct operands *from,
                                       struct operands *to);
void operands_widen(const struct op_desc *d, const struct operands *from, struct operands *to);

/* Makes new arrays with the values of `from`. */
MUST_CHECK enum status operands_copy(const struct op_desc *d, const struct operands *from,
                                     struct operands *to);

/* The number of elements, and of bytes, of the array operands.p[role]; 0 if the operation has no
 * such tensor. */
int64_t operand_count(const struct op_desc *d, enum role role);
size_t operand_bytes(const struct op_desc *d, enum role role);

static inline float *operand_f32(const struct operands *o, enum role role)
{
    return o->p[role];
}

static inline struct step_state *operand_state(const struct operands *o)
{
    return o->p[ROLE_STATE];
}

static inline struct loss_metrics *operand_metrics(const struct operands *o)
{
    return o->p[ROLE_METRICS];
}

/* An output that uses the memory of an input. */
struct in_place {
    enum role out, in;
};

struct rig;

/* Plans `d` on `dev` (borrowed). If `share` is not NULL, the output share->out uses the memory of
 * the input share->in. STATUS_UNSUPPORTED if the device does not support `d`, or if these two
 * tensors have different layouts in the plan. */
MUST_CHECK enum status rig_open(struct device *dev, const struct op_desc *d,
                                const struct in_place *share, struct rig **rig);
void rig_close(struct rig *rig); /* NULL is fine */

/* The plan's description, in which each layout ANY is replaced by the layout that the plan chose,
 * and the name of the plan's implementation. */
const struct op_desc *rig_desc(const struct rig *rig);
const char *rig_impl(const struct rig *rig);

/* rig_put_all uploads all inputs of the operation; rig_get_all downloads all outputs. */
MUST_CHECK enum status rig_put_all(struct rig *rig, const struct operands *o);
MUST_CHECK enum status rig_get_all(struct rig *rig, struct operands *o);

/* Executes the operation once. STATUS_MISMATCH if guards or inputs have changed. */
MUST_CHECK enum status rig_run(struct rig *rig);

/* Opens a rig, executes the operation once with the inputs in `o`, and writes the outputs to
 * `o`. */
MUST_CHECK enum status run_once(struct device *dev, const struct op_desc *d, struct operands *o);
