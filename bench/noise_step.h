/* A training step on a batch of noise that stays where it is: no loader in the way. */
#ifndef BENCH_NOISE_STEP_H
#define BENCH_NOISE_STEP_H

#include "model/network.h"

#include <stdio.h>

/* What to bench, for those that take a network. */
struct bench_net_config {
    const char *net;
    int batch;
    int image_size;
    int rounds;            /* timed ones; one more warms up */
    bool no_step;          /* conv: leave the training step out */
    const char *precision; /* of the training step, as `ampscale train` has it; NULL: fp32 */
    bool emulate;          /* round in fp32 although the device has the precision's types */
    enum fuse fuse;        /* step: of convolution and batch norm */
    const char *peak;      /* step: file of peaks (roofline.h); NULL: they are measured first */
    bool reduced;          /* gradients are to be averaged over ranks (struct program_config) */
    const char *devices;
    int threads;
    bool json;
    FILE *out;
};

/* Plans a training program for the graph, gives it weights and a batch, and warms it up. */
MUST_CHECK enum status noise_step_open(struct device *dev, const struct graph *g,
                                       const struct bench_net_config *c, struct network **net);

/* Runs the whole step once. */
MUST_CHECK enum status noise_step_run(struct network *net, double *seconds);
#endif
