/* Why does this network need a loss scaler, and which scale?
 *
 * A few training batches run in fp32, forward and backward, without an update. Every gradient that
 * a GPU would store in fp16 is counted by its magnitude: those of activations, and those of the
 * weights and biases of convolution and linear layers (batch norm's parameters stay fp32 in every
 * policy but O3). What fp16 would make of each value at loss scale 1 and at the current scale
 * follows exactly. Each tensor is judged by itself: losses are not carried on to the layers before
 * it, and so the shares are lower bounds of what an fp16 run loses. */
#ifndef RUNNERS_AMP_REPORT_H
#define RUNNERS_AMP_REPORT_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Zero and NULL leave a setting to the run, or without one to the default in brackets. */
struct amp_report_config {
    const char *run;  /* a run's folder: network, data, sizes, newest checkpoint; or NULL ... */
    const char *arch; /* ... and this network */
    const char *data; /* folder with train/ [noise] */
    const char *init; /* weights for `arch` [fresh ones] */
    int image_size;   /* [224] */
    int batch;        /* [32] */
    int classes;      /* of noise; data has its own [1000] */
    int batches;      /* to measure, at least 1 */
    /* The current scale: this; or what a run's scaler has come to; 1 for a run in fp16 without
     * one; or where dynamic scaling begins. */
    double loss_scale;
    int64_t seed; /* below 0: the run's [0] */
    const char *devices;
    int threads;
    const char *out; /* folder of the record; NULL: RUN/amp-report, or amp-report-ARCH */
    bool json;       /* print the record, not the table */
    FILE *stream;    /* what is printed goes here */
};

/* The record, in the folder that is made for it. */
#define AMP_REPORT_NAME "amp-report.json"

enum { AMP_REPORT_SCHEMA = 1 };

/* Measures, prints, and writes the record. `out` receives its folder, of at most `size` bytes. A
 * run without a whole checkpoint and data that cannot be read are STATUS_DATA. */
MUST_CHECK enum status amp_report_run(const struct amp_report_config *c, char *out, size_t size);
#endif
