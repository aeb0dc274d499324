/* Bounds on the error of a result computed in fp32.
 *
 * u = 2^-24 is the rounding error of one operation. If K terms are added one after another, with
 * rounding errors of random sign, the standard deviation of the error is at most about
 * sqrt(K)/3 * u * S, where S is the sum of the terms' magnitudes. The error is largest for terms of
 * one sign, and smaller for blocked sums. The bound is
 *
 *     (2 sqrt(K) + 8) * u * S
 *
 * which is six standard deviations plus some roundings that do not depend on K. Omitting one of
 * K = 4608 terms (a 3x3 convolution of 512 channels) changes the result by about S/4608 = 2e-4 S,
 * above the bound of 9e-6 S. Tensor cores, which multiply narrow operands, truncate towards zero
 * where fp32 rounds to nearest. In a sum of terms of one sign these errors add up, so K/4 * u * S
 * is added to the bound. In models that agree with the hardware
 * (tests/kernels/cuda/fake/products.h) the error at K = 4608 is 977 u S on sm_75, 1075 u S on sm_80
 * with TF32 and 591 u S on sm_90 with TF32; the bound is 1304 u S. The reference computes S for
 * each output element, by the same operation on the magnitudes of its inputs. This applies to all
 * operations that are linear in each operand; bounds.c derives the bounds of other operations.
 * Operations that only choose or move values (ReLU, maximum, reorder) must be exact.
 *
 * Winograd's F(4x4, 3x3) adds other terms, with up to 24 more roundings each: sums over the points
 * of |OUTPUT| (|WEIGHTS| |w|) (|INPUT| |x|), the magnitudes of its matrices (isa/winograd.c). Let
 * x' and w' be the largest magnitudes of a plane. Then the sum for a pixel of Y is at most 13.25^2
 * = 176 times that of |w'| x' over the kernel's 9 places and all input channels, and for DW at most
 * 28.33^2 = 803 times the sum of x' dy' over the tiles. 13.25 and 28.33 are the largest elements of
 * the products of magnitudes, in one dimension. The reference computes both sums, from planes that
 * hold x' alone.
 *
 * Where the result is rounded to a narrow type, v is the exact value and b the bound of the fp32
 * operation on its rounded inputs. Rounding R is monotonic, so an fp32 result within [v - b, v + b]
 * becomes a narrow value within [R(v - b), R(v + b)]; this is the condition that is checked. b is
 * far below a unit in the narrow type's last place, so both ends are mostly R(v). If v is within b
 * of half-way between two narrow values, both values are allowed. Near the largest number one end
 * may be infinite; where a sum cancels, b may exceed a unit. The result must be a value of the
 * narrow type. */
#pragma once

#include "verify/rig.h"

/* A bound per output element; NULL: the result must be exact. METRICS has one bound, for
 * loss_sum. */
struct bounds {
    double *p[ROLE_COUNT];
};

/* Computes the bounds of `d` for the inputs in `o`. `d` must have plain layouts and no rounding
 * (precision_none). `narrow`: the operands had a narrow type or were rounded to one, so a backend
 * may use tensor cores. `winograd`: `d` is a convolution computed by F(4x4, 3x3). */
MUST_CHECK enum status bounds_new(struct device *ref, const struct op_desc *d, bool narrow,
                                  bool winograd, const struct operands *o, struct bounds *b);
/* Computes the bounds of a fused form (is_fused) from `want`, the reference's result with all
 * roundings. The device and the reference may round different intermediate values: the bound is
 * four units of 2^-10 (fp16), 2^-7 (bf16) or 2^-19 (fp32) times the largest value. */
MUST_CHECK enum status bounds_fused(const struct op_desc *d, const struct operands *want,
                                    struct bounds *b);
void bounds_free(struct bounds *b);

/* Compares the outputs in `got` with the outputs in `want`. STATUS_MISMATCH if an element differs
 * by more than `b` allows, or is not a value of the type to which `d` rounds it; the message names
 * the worst element. `want` is the result without rounding. NaN matches only NaN. `b` NULL: the
 * outputs must equal `want` after rounding. */
MUST_CHECK enum status bounds_check(const struct op_desc *d, const struct bounds *b,
                                    const struct operands *want, const struct operands *got);
