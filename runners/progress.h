/* Progress while a run trains: the log line of pytorch/examples' imagenet, or on a terminal a bar
 * that is redrawn in place. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* A meter: the last value, and the weighted sum so far. */
struct meter {
    double value, sum, weight; /* `weight` is the sum of the weights */
};

/* The meters of one pass over the data. */
struct progress {
    FILE *out;
    bool terminal;
    char title[32];
    int64_t batches, last; /* the number of batches, and the index of the last one so far */
    int print_freq;        /* batches between lines; 0: neither lines nor a bar */
    double begun;          /* start, in seconds of the monotonic clock */
    double drawn;          /* time at which the bar was last drawn */
    int64_t first;         /* the first batch of the pass that this process ran */
    double loss_scale;     /* 0: the loss is not scaled, and no scale is shown */
    int64_t skipped;       /* skipped steps of this pass */
    bool blank;            /* the last batch had no valid image */
    struct meter time, data, loss, top1, top5, rate;
};

/* Begins a pass of `batches` batches, of which `first` are already complete. */
void progress_begin(struct progress *p, FILE *out, const char *title, int64_t batches,
                    int64_t first, int print_freq);

/* The values of a batch. `weight` is the number of images that the batch contributes to the means
 * of loss and accuracy. */
struct progress_values {
    double time_s, data_s, loss, top1, top5;
    int64_t images, weight;
    bool skipped; /* the step was skipped: the loss is shown, and the weight is 0 */
};

/* Shows that batch `i` is complete. */
void progress_batch(struct progress *p, int64_t i, const struct progress_values *v);

/* Prints Apex's line about a step that the loss scaler skipped, with the scale after the step. If
 * the scale is static, the line says that the scale stays the same. */
void progress_overflow(struct progress *p, double scale, bool dynamic);

/* Clears the bar. */
void progress_end(struct progress *p);
