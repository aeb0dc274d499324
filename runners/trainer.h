/* Training, in every mode: epochs, validation, records, checkpoints, resuming.
 *
 * A run's folder holds the record (results/record.h), checkpoint.safetensors (the latest state,
 * replaced atomically; the one before it stays as checkpoint-prev.safetensors), and
 * best.safetensors (weights of the best validation so far). */
#ifndef RUNNERS_TRAINER_H
#define RUNNERS_TRAINER_H

#include "runners/config.h"

#include <stdio.h>

/* Trains (or evaluates) as configured; argc and argv go into the record. Progress goes to `out`.
 * STATUS_INTERRUPTED after a signal, with a checkpoint written. */
MUST_CHECK enum status trainer_run(const struct train_config *config, int argc, char *const *argv,
                                   FILE *out);
#endif
