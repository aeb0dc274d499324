/* For the sources that are compiled once for each rounding: lines of tensors that round. */
#ifndef KERNELS_CPU_ISA_ROUNDED_H
#define KERNELS_CPU_ISA_ROUNDED_H

#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/isa/round.h"

/* What every tensor of these kernels rounds to. */
#define ROUNDING ISA_PASTE(ROUND, CPU_ROUNDING)

/* The first n <= LINE values at p; zero in the other lanes. */
static inline struct line rounded_get(const float *p, int n)
{
    return line_round(line_get(p, n), ROUNDING);
}

/* The first n <= LINE lanes to p. */
static inline void rounded_put(float *p, struct line a, int n)
{
    line_put(p, line_round(a, ROUNDING), n);
}

/* The largest value that rounds to 0: half of the smallest subnormal, but for TF32, where a half
 * rounds away from 0 and it is the float below. */
#define ROUNDED_ZERO                                                                               \
    (ROUNDING == ROUND_F16    ? 0x1p-25f                                                           \
     : ROUNDING == ROUND_BF16 ? 0x1p-134f                                                          \
     : ROUNDING == ROUND_TF32 ? 0x1.ffep-138f                                                      \
                              : 0.0f)

/* a where the values at p are above 0 once rounded, else 0; n as above. */
static inline struct line rounded_where_positive(struct line a, const float *p, int n)
{
    return line_where_above(a, line_get(p, n), ROUNDED_ZERO);
}

#endif
