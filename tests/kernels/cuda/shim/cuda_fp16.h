/* fp16 for the shim, with the project's own conversions. */
#pragma once

#include "base/half.h"

#ifdef __cplusplus

struct __half {
    uint16_t bits;
};

static inline float __half2float(__half h)
{
    return f16_to_float(h.bits);
}

static inline __half __float2half_rn(float x)
{
    return __half{f16_from_float(x)};
}

#endif
