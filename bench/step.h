/* One training step, operation by operation. */
#ifndef BENCH_STEP_H
#define BENCH_STEP_H

#include "bench/noise_step.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Times each operation of a training step in its place, `rounds` times, and prints the median of
 * each with the bytes and FLOPs that it cannot do without: what the operation reads and writes,
 * each tensor once. config->no_step is not looked at. */
MUST_CHECK enum status bench_step(const struct bench_net_config *c);

#ifdef __cplusplus
}
#endif
#endif
