/* A GPU that is described instead of present (kernels/gpu_description.h). The device plans as the
 * device of a present GPU does: it chooses layouts and workspaces, and cuDNN's heuristics choose
 * engines for the description. Nothing can be executed: memory has addresses but no contents,
 * streams and events do nothing, and no call reaches the CUDA runtime. The time of a plan
 * (op_seconds) is predicted (kernels/gpu_time.h). The lowering compares predicted times to decide
 * which operations to fuse. Files of plans are neither read nor written. */
#pragma once

#include "kernels/cuda/device.h"

/* The predicted seconds of a plan. */
double described_seconds(const struct op_plan *plan);
