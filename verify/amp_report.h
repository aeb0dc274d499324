/* The AMP report: does this network need a loss scaler, and which scale?
 *
 * A few training batches run in fp32, forward and backward, without an update. Every gradient that
 * a GPU would store in fp16 is counted by its magnitude. These are the gradients of activations,
 * and of the weights and biases of convolutions and linear layers. (Batch norm's parameters stay
 * fp32 in every policy but O3.) The magnitude determines exactly whether the gradient underflows or
 * overflows in fp16 at loss scale 1 and at the current scale. Each tensor is judged by itself:
 * underflow in one layer does not propagate to the layers before it, so an fp16 run loses at least
 * these percentages. */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* A member that is 0 or NULL takes the run's setting, or without a run the default in brackets. */
struct amp_report_config {
    const char *run;  /* folder of a run, which gives network, data, sizes and newest checkpoint;
                       * NULL: no run */
    const char *arch; /* network; only if `run` is NULL */
    const char *data; /* folder with train/ [none: images are noise] */
    const char *init; /* weights for `arch` [random] */
    int image_size;   /* [224] */
    int batch;        /* [32] */
    int classes;      /* number of classes if the images are noise; a data set determines its own
                       * [1000] */
    int batches;      /* number of batches to measure, at least 1 */
    /* The current loss scale. 0: the scale of the run's scaler, or 1 for an fp16 run without a
     * scaler, or else the initial scale of dynamic scaling. */
    double loss_scale;
    int64_t seed; /* negative: the run's seed [0] */
    const char *devices;
    int threads;
    const char *out; /* folder of the record; NULL: RUN/amp-report, or amp-report-ARCH */
    bool json;       /* print the record, not the table */
    FILE *stream;    /* for the table or the record */
};

/* The file name of the record in its folder. */
#define AMP_REPORT_NAME "amp-report.json"

enum { AMP_REPORT_SCHEMA = 1 };

/* Measures, prints, and writes the record. `out` (`size` bytes) receives the record's folder.
 * STATUS_DATA for a run without an undamaged checkpoint, and for data that cannot be read. */
MUST_CHECK enum status amp_report_run(const struct amp_report_config *c, char *out, size_t size);
