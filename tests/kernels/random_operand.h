/* Random values for an operand. */
#pragma once

#include "base/rng.h"
#include "verify/fill.h"
#include "verify/rig.h"

/* Fills the tensor of `role` with values between `low` and `high`, rounded as `d` says. A role gets
 * the same values in every operation. */
static inline void put_random(struct operands *o, const struct op_desc *d, enum role role,
                              double low, double high)
{
    struct rng r = rng_at(7, RNG_INIT, (uint64_t)role, 0);
    int64_t n = operand_count(d, role);
    fill_uniform(&r, operand_f32(o, role), n, low, high);
    for (int64_t i = 0; i < n; i++)
        operand_f32(o, role)[i] = dtype_round(d->t[role].rounds, operand_f32(o, role)[i]);
}
