/* Runs training steps on one batch of noise, which stays on the device. There is no loader. */
#pragma once

#include "bench/options.h"

/* Sets *config to the training program's configuration for o->batch, o->precision, o->emulate and
 * o->fuse. */
MUST_CHECK enum status noise_step_config(const struct bench_options *o, bool reduced,
                                         struct program_config *config);

/* Plans the program for the graph `g`, with the configuration that noise_step_config makes. Then
 * initialises the weights, uploads the batch and runs one step as warm-up. `reduced` is true if the
 * caller will average gradients over ranks (struct program_config). */
MUST_CHECK enum status noise_step_open(struct device *dev, const struct graph *g,
                                       const struct bench_options *o, bool reduced,
                                       struct network **net);

/* Runs and times one whole step. */
MUST_CHECK enum status noise_step_run(struct network *net, double *seconds);
