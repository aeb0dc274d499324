/* Inside export/: a run compared with MLPerf Training's rules for ResNet.
 *
 * Ruleset 4.0.0 is the last with ResNet. Its rules are training_rules.adoc of
 * mlcommons/training_policies (data set, quality target; closed division: hyper-parameters) and the
 * compliance checker's rules in training_4.0.0. Not all rules can be seen in a record: those here
 * are the ones that can. */
#pragma once

#include "base/text_new.h"
#include "results/run.h"

#define MLPERF_RULESET "4.0.0"

/* Top-1 of the validation that a run must reach, in percent. */
#define MLPERF_TARGET_TOP1 75.90

/* A run's optimizer in the terms of the rules. */
struct mlperf_optimizer {
    const char *name; /* "sgd" or "lars" */
    double
        base_lr; /* highest learning rate: the one after warm-up, with the factor of --lr-scale */
    double end_lr;
    double power; /* of the polynomial decay; NAN: the schedule is another */
    int64_t decay_steps;
    double momentum, weight_decay, warmup_epochs;
};

/* The run has at least one epoch. */
struct mlperf_optimizer mlperf_optimizer_of(const struct run *run);

/* Validation images of the run's first validation. */
int64_t mlperf_val_images(const struct run *run);

/* Writes the rules that the run does not meet, one a line; nothing if it meets all. */
void mlperf_unmet(const struct run *run, bool closed, FILE *out);
