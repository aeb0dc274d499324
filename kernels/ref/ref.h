/* The reference backend: plain C, one loop per formula, sums in double. Slow, and right. */
#ifndef KERNELS_REF_H
#define KERNELS_REF_H

#include "kernels/backend.h"

extern const struct backend backend_ref;

#endif
