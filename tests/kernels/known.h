/* Sets operands to known values, and compares results with known values, for cmocka tests. */
#pragma once

#include "verify/rig.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* Unlike cmocka's comparison, this one fails for a NaN. */
static inline void assert_near(double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance))
        fail_msg("%.12g instead of %.12g", got, want);
}

/* The expected values have nine digits and are rounded to fp32. The tolerance is six times fp32's
 * rounding error. */
static inline void assert_all_near(const float *got, const double *want, int n)
{
    for (int i = 0; i < n; i++)
        assert_near((double)got[i], want[i], 4e-7 * fmax(1, fabs(want[i])));
}

/* Fills the first elements of an fp32 operand. */
#define SET(o, role, ...)                                                                          \
    do {                                                                                           \
        static const float values_[] = {__VA_ARGS__};                                              \
        memcpy((o)->p[role], values_, sizeof values_);                                             \
    } while (0)

/* Compares the first elements of an fp32 operand with expected values. */
#define WANT(o, role, ...)                                                                         \
    do {                                                                                           \
        static const double values_[] = {__VA_ARGS__};                                             \
        assert_all_near(operand_f32(o, role), values_, (int)(sizeof values_ / sizeof *values_));   \
    } while (0)
