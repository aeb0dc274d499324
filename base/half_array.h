/* Converts arrays between fp32 and the types of half.h, with vector instructions if the processor
 * has them. Results have the same bits as in half.h; only the payloads of NaNs may differ. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Whether this processor has instructions that convert binary16 (AVX and F16C of x86). */
bool half_native(void);

/* y[i] = x[i] * scale, rounded. */
void f16_from_floats(const float *x, float scale, uint16_t *y, int64_t n);
void bf16_from_floats(const float *x, float scale, uint16_t *y, int64_t n);

void f16_to_floats(const uint16_t *x, float *y, int64_t n);
void bf16_to_floats(const uint16_t *x, float *y, int64_t n);
