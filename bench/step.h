/* Times one training step, operation by operation. */
#pragma once

#include "bench/noise_step.h"

/* Times each operation of a training step while the whole step runs, `rounds` times. Prints for
 * each operation the median time, the least number of bytes, the FLOPs of its definition, and the
 * bound: the least time in which this device can move these bytes and compute the FLOPs of the
 * algorithm, which may be fewer (Winograd; roofline.h). With FUSE_AUTO it also prints the chosen
 * fusions, and the measured times that led to each choice (struct fusion). The printed percentage
 * is the bound divided by the measured time. It can exceed 100, because an operation may read data
 * that the previous operation left in a cache.
 *
 * `marked`: runs one step, which is not timed, with a mark for the profiler before each operation.
 * Then prints the record without times. STATUS_DATA if the device has no profiler. */
MUST_CHECK enum status bench_step(const struct bench_options *o, bool marked);

/* Prints the fusions that FUSE_AUTO chose for a program, and the times that led to each choice.
 * With BENCH_JSON, keeps them for the record instead. */
void step_fusions(const struct bench_options *o, const struct program *p, struct bench_table *t);
