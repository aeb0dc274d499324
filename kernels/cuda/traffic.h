/* What the plans of the CUDA backend launch: the function `traffic` of its struct backend. */
#pragma once

#include "kernels/backend.h"

/* See `traffic` of struct backend. */
void cuda_traffic(const struct op_plan *plan, struct traffic *t);
