/* Arrays between fp32 and the narrow types of half.h, many values at a time where the processor
 * can; the results are half.h's, bit for bit, but that NaNs may differ in their payload. */
#ifndef BASE_HALF_ARRAY_H
#define BASE_HALF_ARRAY_H

#include <stdint.h>

/* y[i] = x[i] * scale, rounded. */
void f16_from_floats(const float *x, float scale, uint16_t *y, int64_t n);
void bf16_from_floats(const float *x, float scale, uint16_t *y, int64_t n);

void f16_to_floats(const uint16_t *x, float *y, int64_t n);
void bf16_to_floats(const uint16_t *x, float *y, int64_t n);
#endif
