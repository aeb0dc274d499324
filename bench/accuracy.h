/* Trains at each precision, and compares the accuracy with the accuracy of recorded CPU runs.
 *
 * The training is the quickstart's: ResNet-18 for 12 epochs on 2000 synthetic JPEG files of 10
 * classes, 500 of them for validation. Each precision is trained in a child process, which is
 * repeated with slower settings after a failure (train_child.h). The reference is the validation
 * top-1 after the last epoch of runs with the same settings and several seeds. A result is right if
 * it is at most one percentage point outside the range of the reference values.
 *
 * The built-in references, bench/data/accuracy_cpu.json, are made from results/recorded by
 *
 *     ampscale bench accuracy --recorded results/recorded/cpu-avx512-2-threads/precision \
 *         --print-reference >bench/data/accuracy_cpu.json */
#pragma once

#include "bench/options.h"

enum { ACCURACY_NAME_SIZE = 16, ACCURACY_ROWS_MAX = 16 };

struct accuracy_config {
    struct bench_options options; /* .dir: folder of accuracy.json and the runs */
    int n_rows;
    char precision[ACCURACY_ROWS_MAX][ACCURACY_NAME_SIZE]; /* names as in `train` */
    bool quick;           /* a short training, which takes some seconds */
    const char *recorded; /* folder of runs to compare with; NULL: the built-in references, which
                           * exist only for the full training */
};

/* Trains, compares and prints. Afterwards fails with STATUS_INTERRUPTED if a signal arrived,
 * STATUS_MISMATCH if a result is out of its range, or STATUS_DATA if a precision has no result. */
MUST_CHECK enum status bench_accuracy(const struct accuracy_config *c);

/* Prints the references as JSON, in the format of the built-in table. */
MUST_CHECK enum status accuracy_print_reference(const struct accuracy_config *c);
