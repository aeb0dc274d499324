/* The convolutions of a network, one by one, and how near a training step comes to them.
 *
 * Each distinct convolution is timed forward, backward-data and backward-weights with the layouts
 * that the library likes best; their sum over the network is the least that a training step on this
 * library and these threads can take. The step itself is timed in between, round by round, so that
 * both see the same machine. When all has been timed, elements of what each convolution came to are
 * computed again and compared (conv_pass.h). */
#ifndef BENCH_CONV_H
#define BENCH_CONV_H

#include "bench/noise_step.h"

/* Measures, checks and prints. STATUS_MISMATCH where a result was wrong, when all is printed. */
MUST_CHECK enum status bench_conv(const struct bench_net_config *c);
#endif
