/* Inside export/: compares a run with MLPerf Training's rules for ResNet.
 *
 * Ruleset 4.0.0 is the last one with ResNet. Its rules are in training_rules.adoc of
 * mlcommons/training_policies (data set, quality target and, for the closed division,
 * hyper-parameters) and in training_4.0.0 of the compliance checker. Only the rules that can be
 * checked from a record are checked here. */
#pragma once

#include "base/text_new.h"
#include "results/run.h"

#define MLPERF_RULESET "4.0.0"

/* The validation top-1, in percent, that a run must reach. */
#define MLPERF_TARGET_TOP1 75.90

/* A run's optimizer, in the terms that the rules use. */
struct mlperf_optimizer {
    const char *name; /* "sgd" or "lars" */
    double base_lr;   /* highest learning rate of a step; includes the factor of --lr-scale */
    double end_lr;
    double power; /* power of the polynomial decay; NAN for any other schedule */
    int64_t decay_steps;
    double momentum, weight_decay, warmup_epochs;
};

/* The run must have at least one epoch. */
struct mlperf_optimizer mlperf_optimizer_of(const struct run *run);

/* Returns the number of images of the run's first validation. */
int64_t mlperf_val_images(const struct run *run);

/* Writes the rules that the run does not meet, one per line. Writes nothing if it meets all
 * rules. */
void mlperf_unmet(const struct run *run, bool closed, FILE *out);
