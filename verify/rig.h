/* A rig runs one operation on one device and watches what it does to memory.
 *
 * Every tensor lies between guard bytes. Before each run, outputs and workspace are filled with
 * NaN; after it, guards and inputs must be as they were. So a kernel that writes outside its
 * tensors, leaves part of an output unwritten, reads its workspace before writing it, or changes
 * an input is found whatever values it computes. */
#ifndef VERIFY_RIG_H
#define VERIFY_RIG_H

#include "kernels/backend.h"

/* Host arrays in plain logical order, one per tensor that an operation touches (STATE and METRICS
 * too); NULL where there is none. */
struct operands {
    void *p[ROLE_COUNT];
};

/* Zeroed arrays for every tensor of `d`. A failure leaves nothing allocated. */
MUST_CHECK enum status operands_new(const struct op_desc *d, struct operands *o);
void operands_free(struct operands *o);

/* New arrays for `d` with the values of `from`, which belongs to the emulated form of `d`, and the
 * values of `from` in arrays of that form that exist. */
MUST_CHECK enum status operands_narrow(const struct op_desc *d, const struct operands *from,
                                       struct operands *to);
void operands_widen(const struct op_desc *d, const struct operands *from, struct operands *to);

/* New arrays with the values of `from`. */
MUST_CHECK enum status operands_copy(const struct op_desc *d, const struct operands *from,
                                     struct operands *to);

/* Elements and bytes of what `o->p[role]` points to; 0 where the operation has no such tensor. */
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

/* An output that takes the memory of an input. */
struct in_place {
    enum role out, in;
};

struct rig;

/* Plans `d` on `dev` (borrowed). With `share`, the output uses the input's memory; where the plan
 * gave them different layouts that is STATUS_UNSUPPORTED, as is an operation the device lacks. */
MUST_CHECK enum status rig_open(struct device *dev, const struct op_desc *d,
                                const struct in_place *share, struct rig **rig);
void rig_close(struct rig *rig); /* NULL is fine */

/* The description with every ANY resolved. */
const struct op_desc *rig_desc(const struct rig *rig);
const char *rig_impl(const struct rig *rig); /* the plan's */

/* Copies in all that the operation reads; copies out all that it writes. */
MUST_CHECK enum status rig_put_all(struct rig *rig, const struct operands *o);
MUST_CHECK enum status rig_get_all(struct rig *rig, struct operands *o);

/* Executes once. STATUS_MISMATCH with a message when memory was treated wrongly. */
MUST_CHECK enum status rig_run(struct rig *rig);

/* All of it for one execution: reads its inputs from `o` and leaves its outputs there. */
MUST_CHECK enum status run_once(struct device *dev, const struct op_desc *d, struct operands *o);

#endif
