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

#endif
