/* Loads and stores lines of a tensor, for the sources that are compiled once for each kind of
 * element. A line in registers is fp32, whatever the type in memory. `stored` is the C type of an
 * element in memory. */
#pragma once

#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/isa/narrow.h"
#include "kernels/cpu/isa/round.h"

typedef CPU_STORED stored;

#define ELEMENT ISA_PASTE(ELEMENT, CPU_ELEMENT)

/* The precision that elements stored as fp32 are rounded to. */
#define ROUNDING                                                                                   \
    (ELEMENT == ELEMENT_ROUNDS_F16    ? ROUND_F16                                                  \
     : ELEMENT == ELEMENT_ROUNDS_BF16 ? ROUND_BF16                                                 \
     : ELEMENT == ELEMENT_ROUNDS_TF32 ? ROUND_TF32                                                 \
                                      : ROUND_NONE)

/* Functions that ignore ROUNDING: loads do not round, and stores round only to the type in
 * memory. */
static inline struct line element_load_exact(const void *p)
{
    return ELEMENT == ELEMENT_F16    ? line_from_f16(narrow_load(p))
           : ELEMENT == ELEMENT_BF16 ? line_from_bf16(narrow_load(p))
                                     : line_load(p);
}

static inline struct narrow_line element_narrowed(struct line a)
{
    return ELEMENT == ELEMENT_F16 ? line_to_f16(a) : line_to_bf16(a);
}

static inline void element_store_exact(void *p, struct line a)
{
    if (element_is_narrow(ELEMENT))
        narrow_store(p, element_narrowed(a));
    else
        line_store(p, a);
}

/* Loads the first n <= LINE values at p; zero in the other lanes. */
static inline struct line element_get_exact(const stored *p, int n)
{
    if (n == LINE)
        return element_load_exact(p);
#if defined(__AVX512F__)
    __mmask16 first = (__mmask16)((1u << n) - 1);
    if (!element_is_narrow(ELEMENT))
        return (struct line){{_mm512_maskz_loadu_ps(first, p)}};
    struct narrow_line a = {{(vec_narrow)_mm256_maskz_loadu_epi16(first, p)}};
    return ELEMENT == ELEMENT_F16 ? line_from_f16(a) : line_from_bf16(a);
#else
    stored lane[LINE] = {0};
    for (int i = 0; i < n; i++)
        lane[i] = p[i];
    return element_load_exact(lane);
#endif
}

/* Stores the first n <= LINE lanes of a line at p. */
static inline void element_put_exact(stored *p, struct line a, int n)
{
    if (n == LINE) {
        element_store_exact(p, a);
        return;
    }
    stored lane[LINE];
    element_store_exact(lane, a);
    for (int i = 0; i < n; i++)
        p[i] = lane[i];
}

/* The same as element_get_exact and element_put_exact, but with rounding to ROUNDING. */
static inline struct line element_get(const stored *p, int n)
{
    return line_round(element_get_exact(p, n), ROUNDING);
}

static inline void element_put(stored *p, struct line a, int n)
{
    element_put_exact(p, line_round(a, ROUNDING), n);
}

/* `a` after rounding to the type in which elements are stored. */
static inline struct line element_held(struct line a)
{
    return ELEMENT == ELEMENT_F16    ? line_from_f16(line_to_f16(a))
           : ELEMENT == ELEMENT_BF16 ? line_from_bf16(line_to_bf16(a))
                                     : line_round(a, ROUNDING);
}

/* element_stream stores a line without using the caches (line_stream). Call it only if
 * element_can_stream(p). */
static inline bool element_can_stream(const stored *p)
{
    return (uintptr_t)p % (VEC_LANES * sizeof *p) == 0;
}

static inline void element_stream(void *p, struct line a)
{
    if (element_is_narrow(ELEMENT))
        narrow_stream(p, element_narrowed(a));
    else
        line_stream(p, line_round(a, ROUNDING));
}

/* The largest float that rounds to 0. For F16 and BF16 it is half of the smallest subnormal value.
 * For TF32 it is the float just below this half, because TF32 rounds the half itself up. */
#define ZERO_AS_F16  0x1p-25f
#define ZERO_AS_BF16 0x1p-134f
#define ZERO_AS_TF32 0x1.ffep-138f
#define ROUNDED_ZERO                                                                               \
    (ROUNDING == ROUND_F16    ? ZERO_AS_F16                                                        \
     : ROUNDING == ROUND_BF16 ? ZERO_AS_BF16                                                       \
     : ROUNDING == ROUND_TF32 ? ZERO_AS_TF32                                                       \
                              : 0.0f)

/* A bit for each lane: 1 if the value is above 0 after it has been stored. */
static inline uint16_t element_signs(struct line a)
{
    return line_signs(a, ELEMENT == ELEMENT_F16    ? ZERO_AS_F16
                         : ELEMENT == ELEMENT_BF16 ? ZERO_AS_BF16
                                                   : ROUNDED_ZERO);
}

/* Returns `a` in the lanes where the rounded value at p is positive, and zero in the other lanes.
 * Reads the first n values at p. */
static inline struct line element_where_positive(struct line a, const stored *p, int n)
{
    return line_where_above(a, element_get_exact(p, n), ROUNDED_ZERO);
}
