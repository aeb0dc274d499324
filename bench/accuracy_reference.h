/* The accuracy of recorded runs, by precision.
 *
 * The built-in table, bench/data/accuracy_cpu.json, is made from results/recorded by
 *
 *     ampscale bench accuracy --recorded results/recorded/cpu-avx512-2-threads/precision \
 *         --print-reference >bench/data/accuracy_cpu.json */
#pragma once

#include "base/status.h"

#include <jansson.h>

enum { ACCURACY_NAME_SIZE = 16, ACCURACY_REFERENCES_MAX = 16 };

struct accuracy_reference {
    char precision[ACCURACY_NAME_SIZE];
    int seeds;             /* number of runs */
    double mean, min, max; /* validation top-1 after the last epoch, percent */
};

struct accuracy_references {
    char source[256]; /* the folder of the runs */
    int n;
    struct accuracy_reference of[ACCURACY_REFERENCES_MAX]; /* (n) in the order of the runs' names */
};

/* The settings of a training. Only runs with the same settings are compared with it. */
struct accuracy_training {
    const char *arch;
    int image_size, batch, epochs;
};

/* Reads the runs in the subfolders of `dir`. STATUS_DATA if there are no runs, or if a run cannot
 * be read or its settings differ from `t`. */
MUST_CHECK enum status accuracy_references_read(const char *dir, const struct accuracy_training *t,
                                                struct accuracy_references *r);

/* Reads the built-in table. */
MUST_CHECK enum status accuracy_references_built_in(struct accuracy_references *r);

/* Returns the reference of a precision, or NULL if the precision has no reference. amp has the
 * reference of O1. O0 and tf32 have the reference of fp32, because no CPU run was recorded at O0 or
 * tf32. */
const struct accuracy_reference *accuracy_reference_find(const struct accuracy_references *r,
                                                         const char *precision);

/* Returns a new object {"source", "unit", "val_top1": {PRECISION: {"mean", "min", "max",
 * "seeds"}}}. */
json_t *accuracy_references_json(const struct accuracy_references *r);
