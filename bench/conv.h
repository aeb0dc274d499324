/* The convolutions of a network, one by one, and how near a training step comes to them.
 *
 * Each distinct convolution is timed forward, backward-data and backward-weights with the layouts
 * that the library likes best; their sum over the network is the least that a training step on this
 * library and these threads can take. The step itself is timed in between, round by round, so that
 * both see the same machine. */
#ifndef BENCH_CONV_H
#define BENCH_CONV_H

#include "base/status.h"

#include <stdbool.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

struct bench_conv_config {
    const char *net;
    int batch;
    int image_size;
    int rounds;   /* timed ones; one more warms up */
    bool no_step; /* leave the training step out */
    const char *devices;
    int threads;
    bool json;
    FILE *out;
};

MUST_CHECK enum status bench_conv(const struct bench_conv_config *c);

#ifdef __cplusplus
}
#endif
#endif
