/* bf16 for the shim, with the project's own conversions. */
#pragma once

#include "base/half.h"

#ifdef __cplusplus

struct __nv_bfloat16 {
    uint16_t bits;
};

static inline float __bfloat162float(__nv_bfloat16 h)
{
    return bf16_to_float(h.bits);
}

static inline __nv_bfloat16 __float2bfloat16_rn(float x)
{
    return __nv_bfloat16{bf16_from_float(x)};
}

#endif
