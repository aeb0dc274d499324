/* What recorded runs gave of accuracy: a table by precision.
 *
 * bench/data/accuracy_cpu.json, which is built in, is that of results/recorded; it is made again by
 *
 *     ampscale bench accuracy --recorded results/recorded/cpu-avx512-2-threads/precision \
 *         --print-reference >bench/data/accuracy_cpu.json */
#ifndef BENCH_ACCURACY_REFERENCE_H
#define BENCH_ACCURACY_REFERENCE_H

#include "base/status.h"

#include <jansson.h>

enum { ACCURACY_NAME_SIZE = 16, ACCURACY_REFERENCES_MAX = 16 };

struct accuracy_reference {
    char precision[ACCURACY_NAME_SIZE];
    int seeds;             /* runs */
    double mean, min, max; /* validation top-1 after the last epoch, percent */
};

struct accuracy_references {
    char source[256]; /* the folder of the runs */
    int n;
    struct accuracy_reference of[ACCURACY_REFERENCES_MAX]; /* in the order of names */
};

/* The settings of a training that is compared. */
struct accuracy_training {
    const char *arch;
    int image_size, batch, epochs;
};

/* From the runs in a folder, each a folder in it. STATUS_DATA where there are none, or where one
 * cannot be read or was another training. */
MUST_CHECK enum status accuracy_references_read(const char *dir, const struct accuracy_training *t,
                                                struct accuracy_references *r);

/* Those that are built in. */
MUST_CHECK enum status accuracy_references_built_in(struct accuracy_references *r);

/* Those of a precision: amp is O1, and tf32, which no CPU has, is compared with fp32. NULL: there
 * are none. */
const struct accuracy_reference *accuracy_reference_find(const struct accuracy_references *r,
                                                         const char *precision);

/* {"source", "val_top1": {PRECISION: {"mean", "min", "max", "seeds"}}} */
json_t *accuracy_references_json(const struct accuracy_references *r);
#endif
