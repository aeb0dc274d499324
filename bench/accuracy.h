/* The same training at each precision, its accuracy compared with what recorded runs on a CPU gave.
 *
 * The training is the quickstart's: ResNet-18 for 12 epochs on 2000 synthetic JPEG files of 10
 * classes, 500 for validation; each precision in a child process, down the ladder of train_child.h.
 * The reference is the validation top-1 after the last epoch of runs with the same settings and
 * several seeds (accuracy_reference.h). A result is right when it is within ACCURACY_MARGIN percent
 * points of the range of their values. The margin is that of a sample: of 500 images of which 99 %
 * are right, one standard deviation is 0.44 points, so that 1 point beyond the range is more than 2
 * of them. */
#ifndef BENCH_ACCURACY_H
#define BENCH_ACCURACY_H

#include "bench/accuracy_reference.h"
#include "bench/train_child.h"

#include <stdio.h>

enum { ACCURACY_SCHEMA = 1, ACCURACY_ROWS_MAX = 16 };
#define ACCURACY_MARGIN 1.0

struct accuracy_config {
    const char *program; /* this program's file */
    const char *devices;
    int threads; /* 0: all cores */
    int n_rows;
    char precision[ACCURACY_ROWS_MAX][ACCURACY_NAME_SIZE]; /* as train has them */
    bool quick;                                            /* a training of seconds */
    const char *recorded; /* folder of runs to compare with; NULL: the reference that is built in,
                           * which is not of the quick one */
    double budget_s;      /* 0: none */
    const char *out;      /* folder of the record and the runs; NULL: none is kept */
    bool json;
    FILE *stream; /* the table, or the record */
};

/* Trains, compares and prints. STATUS_MISMATCH where a result is out of its range, STATUS_DATA
 * where a precision has no result, STATUS_INTERRUPTED after a signal: when all is printed. */
MUST_CHECK enum status bench_accuracy(const struct accuracy_config *c);

/* Prints the reference, as the JSON that is built in has it. */
MUST_CHECK enum status accuracy_print_reference(const struct accuracy_config *c);
#endif
