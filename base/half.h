/* Narrow floating-point types: conversion as IEEE 754 says, and rounding of floats to the values
 * that a narrow type can hold.
 *
 * float16 (binary16): 5 exponent bits, 10 of mantissa; largest 65504, smallest normal 2^-14,
 * smallest subnormal 2^-24. bfloat16: fp32 with 7 bits of mantissa. TF32: fp32 with 10 bits of
 * mantissa. To nearest, ties to even; subnormals kept; overflow to infinity; a NaN stays a NaN
 * (quiet, its sign and the payload bits that fit kept; bf16_to_float alone moves bits and quiets
 * nothing). TF32 rounds ties away from zero, as cvt.rna.tf32.f32 does. */
#ifndef BASE_HALF_H
#define BASE_HALF_H

#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

uint16_t f16_from_float(float x);
float f16_to_float(uint16_t h);
uint16_t bf16_from_float(float x);
float bf16_to_float(uint16_t b);

/* The nearest value of the narrow type, as a float. */
float round_f16(float x);
float round_bf16(float x);
float round_tf32(float x);

#ifdef __cplusplus
}
#endif
#endif
