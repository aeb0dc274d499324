/* Converts arrays between fp32 and the types of half.h, with vector instructions where there are
 * any. Results have the same bits as half.h's, but the payloads of NaNs may differ. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Does this processor convert binary16 by instructions (x86's AVX and F16C)? */
bool half_native(void);

/* y[i] = x[i] * scale, rounded. */
void f16_from_floats(const float *x, float scale, uint16_t *y, int64_t n);
void bf16_from_floats(const float *x, float scale, uint16_t *y, int64_t n);

void f16_to_floats(const uint16_t *x, float *y, int64_t n);
void bf16_to_floats(const uint16_t *x, float *y, int64_t n);
