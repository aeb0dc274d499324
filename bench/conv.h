/* Times a network's convolutions one by one: a lower bound of the time of its training step.
 *
 * Each distinct convolution is timed forward, backward-data and backward-weights in the layouts
 * that the library prefers. The sum of these times over the network is the least time of a training
 * step with this library and these threads. Each round also times the step itself, so that both are
 * measured in the same state of the machine. Afterwards some elements of each result are recomputed
 * and compared (conv_pass.h). */
#pragma once

#include "bench/noise_step.h"

/* Measures, checks and prints. If `step`, times the training step too. Afterwards returns
 * STATUS_MISMATCH if a result was wrong. */
MUST_CHECK enum status bench_conv(const struct bench_options *o, bool step);
