/* Reads one case of an oracle file, and computes the same values on a device. */
#pragma once

#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>

struct device;

/* The settings of a case. `arch` belongs to the JSON object from which the case was read. */
struct oracle_case {
    const char *arch;
    int classes, size, batch, steps;
    double lr, momentum, weight_decay, label_smoothing;
    double norm_weight_decay; /* weight decay of batch norm's parameters and of biases; -1: the
                               * same as weight_decay */
    double clip_grad_norm;    /* maximum norm of the gradient; 0: no limit */
    const json_t *mix; /* mixup weight of each step; belongs to the same JSON object. With mixup,
                        * the images are uint8 pixels. NULL: no mixup */
    bool train;
    bool fp64; /* true: the oracle's values are fp64; false: fp32 */
};

/* Reads and checks a case's settings. STATUS_DATA if a setting is missing or invalid; the message
 * names the setting. */
MUST_CHECK enum status oracle_read(const json_t *json, struct oracle_case *c);

/* Returns whether two cases have the same settings; their precision is not compared. */
bool oracle_same(const struct oracle_case *a, const struct oracle_case *b);

/* Trains or evaluates on `dev` and returns a new JSON object with the same members as the oracle:
 * "params", "step" (a list of objects) and, after training, "buffer_norms". The caller owns the new
 * object. */
MUST_CHECK enum status oracle_compute(struct device *dev, const struct oracle_case *c,
                                      json_t **values);
