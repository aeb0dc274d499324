/* One case of an oracle file: reading it, and computing the same values here. */
#ifndef RUNNERS_ORACLE_H
#define RUNNERS_ORACLE_H

#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct device;

/* What a case is computed from. `arch` belongs to the JSON that it was read from. */
struct oracle_case {
    const char *arch;
    int classes, size, batch, steps;
    double lr, momentum, weight_decay, label_smoothing;
    bool train;
    bool fp64; /* precision of the values; else fp32 */
};

/* Reads and checks the settings of a case. STATUS_DATA names what is missing or out of range. */
MUST_CHECK enum status oracle_read(const json_t *json, struct oracle_case *c);

/* The same computation, perhaps in another precision. */
bool oracle_same(const struct oracle_case *a, const struct oracle_case *b);

/* Trains or evaluates on `dev` and returns a new object of the oracle's form: "params", "step" (a
 * list of objects) and, after training, "buffer_norms". The caller owns it. */
MUST_CHECK enum status oracle_compute(struct device *dev, const struct oracle_case *c,
                                      json_t **values);
#endif
