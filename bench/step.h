/* Times one training step, operation by operation. */
#pragma once

#include "bench/noise_step.h"

/* Times each operation of a training step in its place, `rounds` times. Prints its median time, its
 * least bytes and FLOPs, and its bound: the least time in which this device can move and compute
 * them (roofline.h). Under FUSE_AUTO the chosen fusions follow, with the times behind each choice
 * (struct fusion). The printed percentage is the bound divided by the measured time. It can exceed
 * 100 if an operation reads data that the previous one left in a cache, or if a library uses an
 * algorithm of fewer FLOPs (Winograd). */
MUST_CHECK enum status bench_step(const struct bench_options *o);

/* For the process that bench profile starts (profile.h): runs one step with marks for a profiler,
 * untimed; then prints the record of bench step without times. STATUS_DATA where the device has no
 * profiler. */
MUST_CHECK enum status bench_step_marked(const struct bench_options *o);
