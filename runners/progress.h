/* What a run says while it trains: the log line of pytorch/examples' imagenet, or on a terminal a
 * bar that is redrawn in place. */
#ifndef RUNNERS_PROGRESS_H
#define RUNNERS_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* A last value and the mean weighted by n so far; of values that are finite. */
struct meter {
    double value, sum;
    int64_t n;
};
void meter_add(struct meter *m, double value, int64_t n);
double meter_mean(const struct meter *m);

/* The meters of one pass over the data. */
struct progress {
    FILE *out;
    bool terminal;
    char title[32];
    int64_t batches;
    int print_freq;
    double begun;      /* seconds of the monotonic clock */
    double drawn;      /* when the bar was drawn last */
    int64_t first;     /* the batch this process began with */
    double loss_scale; /* 0: none, and not shown */
    int64_t skipped;   /* steps of this pass */
    struct meter time, data, loss, top1, top5, rate;
};

/* Begins a pass of `batches` batches, of which `first` are over already. title: printf-made. */
void progress_begin(struct progress *p, FILE *out, const char *title, int64_t batches,
                    int64_t first, int print_freq);

/* Says that batch `i` is over; the meters have been added to. */
void progress_batch(struct progress *p, int64_t i);

/* Clears the bar. */
void progress_end(struct progress *p);

/* " *   Acc@1 71.234 Acc@5 90.123" */
void progress_accuracy(FILE *out, double top1, double top5);
#endif
