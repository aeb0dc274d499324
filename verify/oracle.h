/* Reads one case of an oracle file, and computes the same values on a device. */
#pragma once

#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>

struct device;

/* The settings of a case. `arch` is owned by the JSON that it was read from. */
struct oracle_case {
    const char *arch;
    int classes, size, batch, steps;
    double lr, momentum, weight_decay, label_smoothing;
    double norm_weight_decay; /* weight decay of batch norm's parameters and of biases; -1: the
                               * same as weight_decay */
    double clip_grad_norm;    /* maximum norm of the gradient; 0: no limit */
    const json_t *mix;        /* mixup: the weight of each step, owned by the JSON that it was read
                               * from. The images are then pixels. NULL: no mixup */
    bool train;
    bool fp64; /* true: the oracle's values are fp64; false: fp32 */
};

/* Reads and checks a case's settings. STATUS_DATA names a setting that is missing or invalid. */
MUST_CHECK enum status oracle_read(const json_t *json, struct oracle_case *c);

/* Returns whether two cases have the same settings; their precision is not compared. */
bool oracle_same(const struct oracle_case *a, const struct oracle_case *b);

/* Trains or evaluates on `dev` and returns a new object in the form of the oracle: "params", "step"
 * (a list of objects) and, after training, "buffer_norms". The caller owns it. */
MUST_CHECK enum status oracle_compute(struct device *dev, const struct oracle_case *c,
                                      json_t **values);
