/* One training step, operation by operation. */
#ifndef BENCH_STEP_H
#define BENCH_STEP_H

#include "bench/noise_step.h"

/* Times each operation of a training step in its place, `rounds` times, and prints the median of
 * each with the bytes and FLOPs that it cannot do without, and the least time that they take on
 * this device (roofline.h). Under FUSE_AUTO the choices follow, with the times that they were made
 * by (struct fusion). The share is that bound over the time. It can exceed 1: where an
 * operation finds what the one before has left in a cache, and where a library multiplies by an
 * algorithm of fewer FLOPs (Winograd's). config->no_step is not looked at. */
MUST_CHECK enum status bench_step(const struct bench_net_config *c);
#endif
