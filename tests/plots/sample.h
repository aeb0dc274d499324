/* Makes runs for drawing, with plausible curves and times from a few numbers. */
#pragma once

#include <stdbool.h>

struct sample {
    const char *arch, *precision;
    int batch;
    int epochs, steps_per_epoch;
    int steps;           /* if not 0: total number of steps; the last epoch may be incomplete */
    double images_per_s; /* throughput of a step without waiting for data */
    double final_top1;   /* top-1 of the last validation, percent */
    double val_s;        /* seconds of validation after each epoch; 0: no validation */
    bool dummy;          /* no files read */
    bool gpu;            /* copies and communication take time */
    int skip_step;       /* this step is skipped and halves the loss scale; 0: none */
    int ranks;           /* if not 0: number of ranks with their own records, two on each host */
    const char *host;    /* beginning of the hosts' names, as a JSON string; NULL: "node" */
    int slow_rank;       /* this rank waits for data; 0: none */
    double slow_data;    /* fraction of a step for which the slow rank waits; 0 means 0.12 */
    int nan_from_step;   /* first step with a NaN loss; 0: none */
    int sensors; /* number of devices with telemetry; the last device is throttled in the second
                  * half of the run */
    unsigned seed;
};

/* Writes run.json, steps.jsonl and epochs.jsonl into the existing folder `dir`. With ranks and
 * sensors, also writes ranks.jsonl and telemetry.jsonl. A failure fails the test. */
void sample_write(const char *dir, const struct sample *s);
