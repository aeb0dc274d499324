/* A profile lists every kernel of one training step on a GPU. NVIDIA's profiler `ncu` measures the
 * kernel's time, DRAM traffic and tensor core use. The bytes and FLOPs are computed for the
 * operation that launched the kernel (bench/step.h, roofline.h).
 *
 * `ncu` runs this program again, as `bench step --profile-one-step`. After a warm-up step, that
 * process executes one step operation by operation, launches an empty kernel as a mark before each
 * operation (kernels/backend.h, enum profile_call), and prints its list of operations. The order of
 * the kernels then shows which operation launched each kernel. Graphs are off: ncu would report a
 * graph as a whole, or its nodes without the order of the marks.
 *
 * ncu runs kernels one at a time, several times each, with empty caches and unchanged clocks
 * (--clock-control none). So the sum of the times is not the time of a normal step. In a normal
 * step, kernels may overlap, and a kernel may find data of the previous kernel in the L2 cache. */
#pragma once

#include "bench/options.h"

/* Profiles one training step and prints the profile. Writes the record and ncu's files to o->dir.
 * Fails with STATUS_DATA if the device is not a GPU, if ncu is missing or may not read counters, or
 * if the budget is used up. The message names the cause in one line. */
MUST_CHECK enum status bench_profile(const struct bench_options *o);
