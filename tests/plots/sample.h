/* Runs that never took place, for drawing: plausible curves and times from a few numbers. */
#pragma once

#include <stdbool.h>

struct sample {
    const char *arch, *precision;
    int batch;
    int epochs, steps_per_epoch;
    int steps;           /* in all, when not 0: the last epoch may stay unfinished */
    double images_per_s; /* of a step without a stall */
    double final_top1;   /* percent, validation */
    double val_s;        /* seconds of validation after each epoch; 0: no validation */
    bool dummy;          /* no files read */
    bool gpu;            /* copies and communication take time */
    int skip_step;       /* this step is skipped and halves the loss scale; 0: none */
    int ranks;           /* when not 0: number of ranks, two on each host, with records of their
                          * own */
    const char *host;    /* how the hosts' names begin, as in JSON; NULL: "node" */
    int slow_rank;       /* with ranks: this one waits for data; 0: none */
    double slow_data;    /* share of a step that it waits; 0: 0.12 */
    int nan_from_step;   /* the loss is NaN from there on; 0: never */
    int sensors;         /* devices with telemetry, of which the last is throttled half-way */
    unsigned seed;
};

/* Writes run.json, steps.jsonl, epochs.jsonl and, with ranks and sensors, ranks.jsonl and
 * telemetry.jsonl into the existing folder `dir`. A failure fails the test. */
void sample_write(const char *dir, const struct sample *s);
