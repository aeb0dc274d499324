/* How far a result computed in fp32 may be from the exact one.
 *
 * u = 2^-24 is the rounding error of one operation. Adding K terms one after another, with errors
 * that are as often up as down, errs by about sqrt(K)/3 * u * S at worst, S being the sum of the
 * terms' magnitudes (worst: all of one sign; blocked sums do better). The bound is
 *
 *     (2 sqrt(K) + 8) * u * S
 *
 * six standard deviations of that, and some roundings that do not depend on K. Leaving out one
 * term of K = 4608 (a 3x3 convolution of 512 channels) costs about S/4608 = 2e-4 S, the bound being
 * 9e-6 S. Tensor cores, which multiply narrow operands, cut off towards zero where fp32 rounds to
 * nearest, so that errors of sums of one sign add up: K/4 * u * S more, seen in models that agree
 * with the hardware (tests/kernels/cuda/fake/products.h): at K = 4608 977 u S on sm_75, 1075 on
 * sm_80 with TF32, 591 on sm_90 with TF32, of 1304. S is computed, per output element, by the
 * reference itself: the same operation on the magnitudes of its inputs, where every sum is of
 * positive terms. This serves all operations that are linear in each operand; the others have a
 * derivation of their own in bounds.c. Operations that only choose or move values (ReLU, maximum,
 * reorder) must be exact.
 *
 * Where the result is rounded to a narrow type, the exact value v and its bound b are still those
 * of the operation in fp32, on inputs as it reads them. Rounding R keeps order, so that a result in
 * fp32 within [v - b, v + b] becomes a narrow one within [R(v - b), R(v + b)], and this is asked of
 * it. As b is far below a unit of the narrow type's last place, both ends are mostly R(v) itself:
 * only a v within b of half-way between two narrow values may become either. Near the largest
 * number one of the ends may be infinite; where a sum cancels, b may be more than a unit, which
 * rounding cannot mend. Then the value must be one that the narrow type has. */
#ifndef VERIFY_BOUNDS_H
#define VERIFY_BOUNDS_H

#include "verify/rig.h"

/* Per output element; NULL where the result must be exact. For METRICS one bound, on loss_sum. */
struct bounds {
    double *p[ROLE_COUNT];
};

/* For the plain description `d`, which rounds nothing, with inputs in `o`. `narrow`: the operands
 * were of a narrow type, or rounded to one, so that tensor cores may multiply them. */
MUST_CHECK enum status bounds_new(struct device *ref, const struct op_desc *d, bool narrow,
                                  const struct operands *o, struct bounds *b);
/* The same for fused forms (is_fused), from their result in the reference, roundings included. A
 * library may round in between where the reference does not, and the other way round: four units of
 * the largest value, of 2^-19 in fp32. */
MUST_CHECK enum status bounds_fused(const struct op_desc *d, const struct operands *want,
                                    struct bounds *b);
void bounds_free(struct bounds *b);

/* STATUS_MISMATCH, and a message that names the worst element, when an output of `got` is further
 * from `want` than `b` allows, or is no value of the type that `d` rounds it to. `want` is as the
 * operation without rounding leaves it. A NaN must meet a NaN. With `b` NULL all must be equal to
 * `want`, rounded. */
MUST_CHECK enum status bounds_check(const struct op_desc *d, const struct bounds *b,
                                    const struct operands *want, const struct operands *got);

#endif
