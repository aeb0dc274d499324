/* Training, in every mode: epochs, validation, records, checkpoints, resuming.
 *
 * A run's folder contains the record (results/record.h), checkpoint.safetensors (the latest state,
 * replaced atomically; the previous state is kept as checkpoint-prev.safetensors), and
 * best.safetensors (weights of the best validation so far). */
#pragma once

#include "runners/config.h"

#include <stdio.h>

/* Trains (or evaluates) as configured, and stores argc and argv in the record. Progress goes to
 * `out`. STATUS_INTERRUPTED after a signal: training has then written a checkpoint, unless
 * `no_checkpoint` is set. */
MUST_CHECK enum status trainer_run(const struct train_config *config, int argc, char *const *argv,
                                   FILE *out);
